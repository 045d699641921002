"""The door: what the `judgerun` script calls; nothing may stand here that takes long to import.

The program's rooms take a second to import. Who presses Ctrl-C in that second, or whose scheduler sends SIGTERM before a run
listens, is answered as at any other moment: 130, and no traceback.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from judgerun.errors import Exit


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # who has it ignored (nohup) is left alone
            signal.signal(signal.SIGHUP, signal.default_int_handler)
        from judgerun.cli.program import execute

        code = execute(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
    ):  # all is told: a late signal must not replace the code
        signal.signal(number, signal.SIG_IGN)
    sys.exit(int(code))
