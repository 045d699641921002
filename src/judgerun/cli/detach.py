"""Detaching: a run in a process of its own, which keeps our streams until it really runs; and a terminal that goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Self

from judgerun.cli.journal import BYTES_MAX
from judgerun.errors import Exit

STARTED = "JUDGERUN_DETACHED"
"""The variable by which a detached process knows where to say that it has started."""


def detach() -> Exit:
    """Give this very command to a process in a session of its own, and wait until that runs, or has ended: then its exit code.

    The other process has our streams until it runs, so that what it says before, refusals above all, is said here.
    """
    heard, said = os.pipe()
    process = subprocess.Popen(
        [sys.executable, *sys.orig_argv[1:]],
        stdin=subprocess.DEVNULL,
        pass_fds=(said,),
        start_new_session=True,
        env={**os.environ, STARTED: str(said)},
    )
    os.close(said)
    started = b""
    while True:
        try:
            started = started or os.read(heard, 1)
            code = 0 if started else process.wait()
            break
        except KeyboardInterrupt:  # it does not hear our terminal: what we are asked goes on to it
            process.send_signal(signal.SIGINT)
    if code < 0:
        sys.stderr.write(f"killed by {signal.Signals(-code).name} before it had started\n")
        return Exit.BUG
    return Exit(code) if code in set(Exit) else Exit.BUG


@dataclass(frozen=True, slots=True)
class Child:
    """This process, where it is the detached one."""

    descriptor: int

    @classmethod
    def here(cls) -> Self | None:
        """None where the process was started in another way. The variable is taken away: what we start is not detached."""
        said = os.environ.pop(STARTED, None)
        if said is None:
            return None
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.set_inheritable(int(said), False)
        return cls(int(said))

    def started(self, output: Path | None) -> None:
        """Let go of the streams of whoever started us, then tell them."""
        sys.stdout.flush()
        sys.stderr.flush()
        withdraw((1, 2), output)
        try:
            os.write(self.descriptor, b"1")
        except BrokenPipeError:  # they were killed while they waited: the run goes on all the same
            return
        finally:
            os.close(self.descriptor)


def withdraw(streams: Iterable[int], output: Path | None) -> None:
    """Turn standard streams to the end of a file; of one that has become large another is begun. None, or a file that cannot be
    opened: to nowhere.
    """
    into = _opened(output)
    for number in streams:
        os.dup2(into, number)
    os.close(into)


def _opened(output: Path | None) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    if output is not None:
        try:
            if output.exists() and output.stat().st_size > BYTES_MAX:
                output.replace(output.with_suffix(".log.1"))
            return os.open(output, flags, 0o666)
        except OSError as error:
            sys.stderr.write(f"{output} cannot be written ({error.strerror}); the run goes on\n")
    return os.open(os.devnull, flags)


def outlive(output: Path | None) -> None:
    """From now on, when the terminal goes away, what is printed goes to a file, and the run drains as on SIGTERM. Whoever has
    SIGHUP ignored (nohup) is left alone.
    """

    terminals = [number for number in (1, 2) if os.isatty(number)]  # of one that is gone nobody can say that it was one

    def gone(number: int, frame: FrameType | None) -> None:
        # A second one must not be taken for a second Ctrl-C, which forfeits.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        withdraw(terminals, output)
        os.kill(os.getpid(), signal.SIGTERM)

    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, gone)
