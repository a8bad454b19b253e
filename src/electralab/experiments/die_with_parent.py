"""A command that ends with the process that started it, however that ends: SIGKILL leaves nobody to pass a signal on.

python die_with_parent.py PID COMMAND... -> COMMAND, which gets SIGTERM when PID is gone (on Linux; elsewhere it is
only run). A module of its own because it is run by its path, with nothing imported.
"""

import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def die_with_parent(command: Sequence[str]) -> list[str]:
    """What to start instead of the command. A hook between fork and exec would do, but is unsafe beside threads."""
    # Isolated: its own folder must not stand before the standard library.
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


if __name__ == "__main__":
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(sys.argv[1]):  # it was gone before the wish was made
            sys.exit(128 + signal.SIGTERM)
    os.execv(sys.argv[2], sys.argv[2:])
