"""A command that ends with the process that started it, however that ends: SIGKILL leaves nobody to pass a signal on.

python tether.py PID COMMAND... -> COMMAND, which gets SIGTERM when PID is gone (on Linux; elsewhere it is only run)
"""

import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def tether(command: Sequence[str]) -> list[str]:
    """What to start instead. A hook between fork and exec would do the same, but is unsafe beside threads."""
    # Isolated: its own folder must not stand before the standard library.
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def _run(parent: int, command: list[str]) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it was gone before the wish was made
            sys.exit(128 + signal.SIGTERM)
    os.execv(command[0], command)


if __name__ == "__main__":
    _run(int(sys.argv[1]), sys.argv[2:])
