"""The command that watches a run from any terminal: status; and how an experiment stands, in words for people."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from judgerun.api.project import Workspace
from judgerun.api.stand import glance, look
from judgerun.api.state import State
from judgerun.cli.foresight import foresee, told_width
from judgerun.cli.hours import tell_lanes, tell_time
from judgerun.cli.jobs import stands
from judgerun.cli.options import HERE, BudgetName, Here, Json
from judgerun.cli.words import Words, plain, trouble
from judgerun.errors import Exit, JudgerunError
from judgerun.model.condition import short

SLOW = 2.0
"""So many times slower than at its start is worth a word."""
MARKS = {
    "escalated": "answered under a higher cap",
    "owed": "owed a higher cap (judgerun run buys it)",
    "lapsed": "asked under a higher cap in vain",
    "diverted": "served by the failover",
}
"""What may stand out about the cells of a condition, by its name in documents."""


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(status)


def tell_state(words: Words, found: State) -> None:
    """How an experiment stands, for people: the finish table first, then the money."""
    document = found.document()
    names = short(line["condition"] for line in document["conditions"])
    rows = [
        (
            names[line["condition"]],
            *(line[name] for name in ("planned", "done", "failed", "pending", "cached", "shared")),
            " ".join(f"{word} {n}" for word, n in line["finish"].items()) or "-",
            *(line[name] for name in ("truncated", "empty", "unparsed")),
            line["spend_usd"],
        )
        for line in document["conditions"]
    ]
    heads = (
        "condition",
        "planned",
        "done",
        "failed",
        "pending",
        "cached",
        "shared",
        "finish",
        "truncated",
        "empty",
        "unparsed",
    )
    words.table((*heads, "spend USD"), rows)
    cells, spend = document["cells"], document["spend"]
    cap = f" of {spend['cap_usd']}" if spend["cap_usd"] else ""
    words.say(
        f"{found.experiment}: {found.state}{f' ({found.reason})' if found.reason else ''}; {cells['done']} of {cells['planned']} "
        f"cells done, {cells['failed']} failed, {cells['pending']} pending; {document['attempts']} attempts"
    )
    words.say(
        f"spent [{spend['low_usd']}, {spend['high_usd']}] USD{cap}: settled {spend['settled_usd']}, forfeited "
        f"{spend['forfeited_usd']}, held {spend['held_usd']}"
    )
    for line in document["conditions"]:
        if line["gate"] is not None:
            words.say(f"stopped by a gate: {names[line['condition']]}: {line['gate']}")
    for line in document["conditions"]:
        if marked := ", ".join(f"{line[name]} {told}" for name, told in MARKS.items() if line[name]):
            words.say(f"{names[line['condition']]}: {marked}")
    for job in document["jobs"]:
        since = datetime.fromtimestamp(job["since"], UTC).strftime("%Y-%m-%d %H:%M UTC")
        words.say(
            f"job {job['job']} at {job['provider']}: {job['calls']} calls of {job['model']} since {since}; "
            f"{stands(job['state'], job['told'])}"
        )
    tell_lanes(words, document["lanes"])
    _tell_processes(words, document["processes"])


def _tell_processes(words: Words, processes: Sequence[Mapping[str, Any]]) -> None:
    """What the processes that run it do, what they wait for, and how their providers bear it."""
    for process in processes:
        waits = ", ".join(f"{cause} {cells}" for cause, cells in process.get("waiting", {}).items()) or "nothing"
        words.say(
            f"process {process['pid']}: {'paused; ' * process.get('paused', False)}{process.get('in_flight', 0)} in flight, "
            f"{process.get('calls_per_s', 0)} calls/s, "
            f"{process.get('tokens_per_s', 0)} tokens/s; waits for {waits}"
        )
        tell_time(words, process)
        for provider, bears in process.get("providers", {}).items():
            slow = f", {bears['slow']:.1f} times slower than at its start" if bears["slow"] >= SLOW else ""
            words.say(f"{provider}: {bears['width']} of {bears['ceiling']} slots, breaker {bears['state']}{slow}")
        for provider, why in process.get("trouble", {}).items():
            words.say(f"{provider}: {plain(why)}; next try in {process['next_try_s'][provider]:.0f} s")


def watch(words: Words, place: Workspace, names: Sequence[str], *, budget: str | None, every: float) -> bool:
    """Show how experiments stand, every so many seconds, as long as processes run any of them; False when Ctrl-C ended it. Their
    files are not read.
    """
    try:
        while running := [found for name in names if (found := glance(place, name, budget)) is not None]:
            if words.out.is_terminal and not words.json:
                words.out.clear()
            for found in running:
                _show(words, found)
            time.sleep(every)
    except JudgerunError:
        return True  # a last look tells what is wrong
    except KeyboardInterrupt:
        return False
    return True


def _show(words: Words, found: State) -> None:
    if words.json:
        words.line(found.document())
    elif words.out.is_terminal:
        tell_state(words, found)
    else:
        words.say(_line(found))


def _line(found: State) -> str:
    """How it stands in one line."""
    document = found.document()
    cells, spend = document["cells"], document["spend"]
    counted = f"{cells['done']} of {cells['planned']} done, {cells['failed']} failed; " if found.counts else ""
    doing = "; ".join(
        f"process {process['pid']}{' paused,' * process.get('paused', False)} {process.get('in_flight', 0)} in flight, "
        f"{process.get('calls_per_s', 0)} calls/s"
        for process in document["processes"]
    )
    return f"{found.experiment}: {counted}spent [{spend['low_usd']}, {spend['high_usd']}] of {spend['cap_usd']} USD; {doing}"


def status(
    name: Annotated[
        str | None, typer.Argument(metavar="[EXP]", help="An experiment; all that ran here when left out.")
    ] = None,
    budget: BudgetName = None,
    watching: Annotated[
        bool, typer.Option("--watch", help="Stay, as long as a process runs it; with --json one object in each line.")
    ] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="Between two looks.")] = 2.0,
    forecast: Annotated[
        bool, typer.Option("--forecast", help="How wide the main number's interval will be, of a large experiment too.")
    ] = False,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """How it stands, from any terminal while it runs. Always exits 0."""
    words = Words(json=json)
    place = Workspace(root=workspace)
    names = [name] if name else place.ran()
    if watching and not watch(words, place, names, budget=budget, every=every):
        return Exit.DONE
    documents: list[dict[str, Any]] = []
    for one in names:
        try:
            found = look(place, one, budget)
        except (
            JudgerunError
        ) as error:  # told, and no more: whoever watches a run must not be stopped by a file being edited
            words.log(str(error))
            documents.append({"experiment": one, "error": trouble(error)})
            continue
        tell_state(words, found)
        seen = foresee(place, one, budget, found, asked=forecast)
        if seen is not None:
            words.say(told_width(seen))
        documents.append(found.document() | {"width": None if seen is None else seen.document()})
    if not names:
        words.say("nothing has run here yet")
    document = documents[0] if name else {"experiments": documents}
    if watching and json:
        words.line(document)
    else:
        words.result(document)
    return Exit.DONE
