"""How commands speak: one JSON object on stdout, or text; logs and errors on stderr; never a key."""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Literal

import orjson
import structlog
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from judgerun.cli.columns import GAP, layout
from judgerun.errors import Exit, JudgerunError, Refused

#: Environment variables whose values must never be printed, by name.
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def scrub(text: str, environ: Mapping[str, str] | None = None) -> str:
    """The text without the value of any environment variable that is named like a secret."""
    for name, value in (os.environ if environ is None else environ).items():
        if len(value) >= 6 and _SECRET_NAME.search(name):
            text = text.replace(value, f"[{name}]")
    return text


def plain(text: str) -> str:
    """Model text made safe for a terminal: control characters are shown, not obeyed."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


GONE = (errno.EPIPE, errno.EIO)
"""What a write is answered when whoever read along has gone: the end of a pipe, or a terminal."""


def nowhere(number: int) -> None:
    """From now on, what is written to a standard stream is dropped: nobody reads it any more."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


class _Lines:
    """Where the log of a run goes: one line for each event."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def info(self, line: str) -> None:
        """Print a line; a live panel stays below it. Whoever read along may have gone: a run goes on without."""
        try:
            self._console.print(line, markup=False)
        except OSError:
            nowhere(2)


def _line(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    return f"{event['timestamp']} {scrub(str(event['event']))}"


class Words:
    """What one command says. With `json` the only thing on stdout is the object given to `result`."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        width = None if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal() else 200
        self.out = Console(file=sys.stdout, highlight=False, soft_wrap=True, width=width)
        self.err = Console(file=sys.stderr, highlight=False, soft_wrap=True, width=width)
        stamp = structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%SZ", utc=True)
        self._events = structlog.wrap_logger(
            _Lines(self.err), processors=[stamp, _line], wrapper_class=structlog.BoundLogger
        )

    def say(self, text: str) -> None:
        """A line for people: on stdout, or on stderr when stdout belongs to JSON."""
        (self.err if self.json else self.out).print(scrub(text), markup=False)

    def log(self, text: str) -> None:
        """A line of warning, on stderr."""
        self.err.print(scrub(text), markup=False)

    def event(self, text: str) -> None:
        """A line of a run's log, on stderr, with its UTC time."""
        self._events.info(text)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None) -> None:
        """A table for people; numbers to the right, and never folded. What is too wide for the screen comes in pieces."""
        if self.json:
            return
        cells = [[plain(scrub("" if cell is None else str(cell))) for cell in row] for row in rows]
        places = range(len(columns))
        texts = [
            not rows or not all(isinstance(row[n], (int, float)) or _number(row[n]) for row in rows) for n in places
        ]
        widths = [max(cell_len(text) for text in (columns[n], *(row[n] for row in cells))) for n in places]
        for n, piece in enumerate(layout(widths, texts, self.out.width)):
            if n:
                self.out.print()
            table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
            for column in piece:
                justify: Literal["left", "right"] = "left" if texts[column.number] else "right"
                table.add_column(columns[column.number], justify=justify, overflow="fold", width=column.width)
            for row in cells:
                table.add_row(*(row[column.number] for column in piece))
            self.out.print(
                table, markup=False, width=max(self.out.width, sum(c.width + GAP for c in piece)), crop=False
            )
            title = None

    def result(self, value: Any) -> None:
        """The object of `--json`; nothing otherwise."""
        if self.json:
            text = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()
            sys.stdout.write(scrub(text) + "\n")
            sys.stdout.flush()

    def line(self, value: Any) -> None:
        """The object in one line, of a `--json` that tells many."""
        sys.stdout.write(scrub(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()) + "\n")
        sys.stdout.flush()

    def error(self, error: BaseException) -> Exit:
        """Say what went wrong and return the exit code."""
        if not isinstance(error, JudgerunError):
            self.log("".join(traceback.format_exception(error)))
            self.log("This is a bug of judgerun; nothing was repaired.")
        else:
            if isinstance(error, Refused):
                count = len(error.problems)
                self.log(f"refused: {count} problem{'s' if count != 1 else ''}")
            self.log(str(error))
        self.result({"error": trouble(error)})
        return error.exit if isinstance(error, JudgerunError) else Exit.BUG


def trouble(error: BaseException) -> dict[str, Any]:
    """An error as JSON: exit code, message, problems."""
    problems = error.problems if isinstance(error, Refused) else ()
    ours = isinstance(error, JudgerunError)
    return {
        "exit": int(error.exit if isinstance(error, JudgerunError) else Exit.BUG),
        "message": str(error) if ours else f"{type(error).__name__}: {error}",
        "problems": [{"file": p.file, "place": p.place, "wrong": p.wrong, "right": p.right} for p in problems],
    }


def _number(cell: object) -> bool:
    return isinstance(cell, str) and bool(re.fullmatch(r"-?[\d.,]*\d%?s?|-|", cell))
