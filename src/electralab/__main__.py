"""`python -m electralab` is `electra`."""

import sys

from electralab.cli import main

sys.exit(main())
