"""`python -m electralab` is `electra`."""

import sys

from electralab.shell.cli import main

sys.exit(main())
