"""The tree of errors, drawn, with the exit code of each, and how they are raised together; nothing else may live here.

JudgerunError
 |- Refused          2   what a person wrote cannot be acted on; carries every problem at once
 |- SealBroken       5   the cache is not what was sealed
 |- StoreError       6   SQLite or the disk said no; the cause is kept
 '- InvariantBroken 70   our own bug; the process ends, nothing is repaired

Not errors: a Failure (what the world did), a Decision (what the ledger said), a Finding (what an audit saw), and the
ways in which a run stops by design (exhausted 3, frozen 4, gate 7, audit findings 8, provider down 9, drained 130).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Exit(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    REFUSED = 2
    EXHAUSTED = 3
    FROZEN = 4
    SEAL_BROKEN = 5
    STORE = 6
    GATE = 7
    FINDINGS = 8
    PROVIDER = 9
    BUG = 70
    INTERRUPTED = 130


#: Which code wins when several hold, strongest first.
PRECEDENCE: tuple[Exit, ...] = (
    Exit.BUG,
    Exit.STORE,
    Exit.FROZEN,
    Exit.INTERRUPTED,
    Exit.PROVIDER,
    Exit.EXHAUSTED,
    Exit.GATE,
    Exit.REFUSED,  # a run that was refused while it ran: a price that ended, a row that a template cannot render
    Exit.FINDINGS,
    Exit.DONE,
)


def strongest(codes: Iterable[Exit]) -> Exit:
    """The exit code that wins among several; `DONE` when there are none."""
    held = set(codes)
    return next((code for code in PRECEDENCE if code in held), Exit.DONE)


EXPERIMENT = "experiment.toml"
"""The name of an experiment's file. Problems told by those who do not open it have it alone: `files.toml.pointing` puts in the path
and the line.
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in what a person wrote: where, what, and what would be right."""

    file: str
    place: str
    wrong: str
    right: str = ""

    def __str__(self) -> str:
        where = f"{self.file}: {self.place}" if self.place else self.file
        return f"{where}: {self.wrong}" + (f" ({self.right})" if self.right else "")


class JudgerunError(Exception):
    """The root of the tree; `exit` is the code with which a command ends."""

    exit: Exit = Exit.BUG


class Refused(JudgerunError):
    """A person wrote something on which judgerun will not act. No call has been made."""

    exit = Exit.REFUSED

    def __init__(self, problems: Sequence[Problem] | Problem) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class SealBroken(JudgerunError):
    """The cache, a file or a result differs from what the seal fixed."""

    exit = Exit.SEAL_BROKEN


class StoreError(JudgerunError):
    """SQLite or the file system refused; the cause is chained."""

    exit = Exit.STORE


class InvariantBroken(JudgerunError):
    """Something that cannot be is: our bug. The process ends and repairs nothing."""

    exit = Exit.BUG


def both(one: Callable[[], A], two: Callable[[], B]) -> tuple[A, B]:
    """What two readings of what a person wrote came to. Refused with the problems of both."""
    try:
        first = one()
    except Refused as error:
        try:
            two()
        except Refused as also:
            raise Refused((*error.problems, *also.problems)) from None
        raise
    return first, two()


def invariant(holds: bool, what: str) -> None:
    """Raise `InvariantBroken` unless `holds`; unlike `assert`, it stands under `python -O` too."""
    if not holds:
        raise InvariantBroken(what)
