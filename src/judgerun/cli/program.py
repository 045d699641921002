"""The program: its commands gathered, and the one place where an error becomes an exit code."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import typer

from judgerun.cli.words import Words
from judgerun.errors import Exit, JudgerunError, StoreError

EXITS = """Exit codes: 0 done; 2 refused (what a person wrote); 3 budget exhausted; 4 account frozen; 5 seal broken; 6 store;
7 a gate stopped it; 8 audit findings; 9 provider down or out of credit; 70 our bug; 130 interrupted, drained.
When several hold: 70 > 6 > 4 > 130 > 9 > 3 > 7 > 8 > 0."""

#: Newer versions of typer carry their own copy of click, older ones use the package: the root of what a wrong command line
#: raises is found through a name that both export.
UsageWrong: type[Exception] = next(known for known in typer.BadParameter.__mro__ if known.__name__ == "ClickException")

WORLD = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST}
"""What a file system may answer through no fault of ours: rights, a full disk, a file where a folder should be."""


def rooms(argv: Sequence[str]) -> Sequence[ModuleType]:
    """The modules that hold commands, in the order in which the help lists these; for `status`, which is asked often and must
    answer at once, its own alone.
    """
    from judgerun.cli import standing

    if argv[:1] == ["status"]:
        return (standing,)
    from judgerun.cli import (
        cacheside,
        claiming,
        comparing,
        escalating,
        importing,
        jobs,
        offline,
        pricing,
        probing,
        reading,
        reconciling,
        registering,
        reopening,
        runs,
        steering,
        writing,
    )

    return (
        writing,
        runs,
        standing,
        steering,
        reopening,
        registering,
        escalating,
        jobs,
        probing,
        reading,
        pricing,
        offline,
        importing,
        reconciling,
        claiming,
        comparing,
        cacheside,
    )


def gathered(argv: Sequence[str]) -> typer.Typer:
    """The program with all its commands, or with those alone that a command line needs."""
    app = typer.Typer(
        name="judgerun",
        help="Launch large batches of LLM calls unattended, never past a hard cap, and hand over sealed, audited caches.",
        epilog=EXITS,
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_nothing)  # else a program of one command has no room for its name
    for room in rooms(argv):
        room.register(app)
    return app


def _nothing() -> None:
    """What is done before any command."""


def execute(argv: list[str]) -> Exit:
    """Run one command; its exit code. Never raises."""
    argv = schema_option(argv)
    words = Words(json="--json" in argv)
    try:
        code = gathered(argv)(args=argv, prog_name="judgerun", standalone_mode=False)
    except typer.Exit as ended:
        return Exit(ended.exit_code) if ended.exit_code in set(Exit) else Exit.REFUSED
    except UsageWrong as error:
        return _misused(words, error)
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    except JudgerunError as error:
        return words.error(error)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; there is nobody to tell
        return Exit.DONE
    except OSError as error:
        if error.errno not in WORLD:
            return words.error(error)
        return words.error(StoreError(f"{error.filename or 'a file'}: cannot be written or read: {error.strerror}"))
    except Exception as error:  # noqa: BLE001 - our bug: told with its traceback, scrubbed, and the process ends
        return words.error(error)
    return Exit.DONE if code is None else Exit(code)  # of an interrupted command typer itself makes the number 130


def _misused(words: Words, error: Any) -> Exit:
    """Tell what is wrong with the command line."""
    error.show()
    words.result({"error": {"exit": int(Exit.REFUSED), "message": error.format_message(), "problems": []}})
    return Exit.REFUSED


def schema_option(argv: Sequence[str]) -> list[str]:
    """`judge ... --json SCHEMA` names a schema file, while `--json` alone asks for JSON, as everywhere: the two are told
    apart by what follows.
    """
    out: list[str] = []
    for n, word in enumerate(argv):
        follows = argv[n + 1] if n + 1 < len(argv) else ""
        is_schema = word == "--json" and "judge" in argv[:n] and follows.endswith(".json")
        out.append("--json-schema" if is_schema else word)
    return out
