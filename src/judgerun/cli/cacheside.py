"""Commands about the machine and the cache: doctor, cache size|compact|backup|explain, simulate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from judgerun.api.doctor import examine, needed
from judgerun.api.explain import explain as explain_keys
from judgerun.api.project import Workspace
from judgerun.cli.options import HERE, Here, Json
from judgerun.cli.words import Words
from judgerun.errors import Exit
from judgerun.simulate.server import serve
from judgerun.store import upkeep

cache_app = typer.Typer(help="The cache: size, compact, backup, explain.", no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add these commands."""
    of_app: tuple[Callable[..., Exit], ...] = (doctor, simulate)
    of_cache: tuple[Callable[..., Exit], ...] = (size, compact, backup, explain)
    for command in of_app:
        app.command()(command)
    for command in of_cache:
        cache_app.command()(command)
    app.add_typer(cache_app, name="cache")


def doctor(workspace: Here = HERE, json: Json = False) -> Exit:
    """Keys present, disk, file limits, clock, cache health."""
    words = Words(json=json)
    found = examine(Workspace(root=workspace))
    words.table(("what", "state", "says"), [(sign.what, sign.state, sign.says) for sign in found])
    words.result({"signs": [{"what": sign.what, "state": sign.state, "says": sign.says} for sign in found]})
    return Exit.STORE if any(sign.what == "cache" and sign.state == "bad" for sign in found) else Exit.DONE


def _cache(workspace: Path) -> Path:
    return needed(Workspace(root=workspace))


def size(workspace: Here = HERE, json: Json = False) -> Exit:
    """How large the cache is, and what compaction would free."""
    words = Words(json=json)
    found = upkeep.size(_cache(workspace))
    words.table(("what", "count"), list(found.items()))
    words.result(found)
    return Exit.DONE


def compact(workspace: Here = HERE, json: Json = False) -> Exit:
    """Give free space back to the disk; nothing that was bought is touched."""
    words = Words(json=json)
    freed = upkeep.compact(_cache(workspace))
    words.say(f"freed {freed} bytes")
    words.result({"freed": freed})
    return Exit.DONE


def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy goes; it must not exist.")],
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """A whole, sound copy of the cache, also while it is in use."""
    words = Words(json=json)
    upkeep.backup(_cache(workspace), target)
    words.say(f"wrote {target}")
    words.result({"file": str(target)})
    return Exit.DONE


def explain(
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key, or its first hex digits.")],
    other: Annotated[str | None, typer.Argument(metavar="[KEY]", help="Another one, to be compared.")] = None,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """The canonical request of a key; for two keys, the first field that differs."""
    words = Words(json=json)
    found = explain_keys(_cache(workspace), key, other)
    for line in found.lines():
        words.say(line)
    words.result(found.document())
    return Exit.DONE


def simulate(
    host: Annotated[str, typer.Option("--host", help="A loopback address.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 0,
    bill: Annotated[Path | None, typer.Option("--bill", metavar="FILE", help="JSON lines, one per call.")] = None,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    faults: Annotated[
        str, typer.Option("--faults", metavar="F=P,...", help="For example drop_after=0.02,429=0.05")
    ] = "",
    prices: Annotated[Path | None, typer.Option("--prices", metavar="FILE", help="Its own price table.")] = None,
    pace: Annotated[float, typer.Option("--pace", min=0, help="Factor on latencies; 0 answers at once.")] = 1.0,
    requests_per_minute: Annotated[int | None, typer.Option("--rpm", min=1, help="Its own rate limit.")] = None,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """A local provider with faults and its own bill; prints one ready line with its URL."""
    del workspace, json  # accepted, as by every command; the ready line is JSON in any case
    code = serve(
        host=host,
        port=port,
        bill=str(bill) if bill else None,
        seed=seed,
        faults=faults,
        prices=str(prices) if prices else None,
        pace=pace,
        requests_per_minute=requests_per_minute,
    )
    return Exit(code)
