"""How an experiment stands, in words for people."""

from __future__ import annotations

from datetime import UTC, datetime

from judgerun.api.state import State
from judgerun.cli.hours import tell_lanes, tell_time
from judgerun.cli.jobs import stands
from judgerun.cli.words import Words, plain
from judgerun.model.condition import short


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
    for job in document["jobs"]:
        since = datetime.fromtimestamp(job["since"], UTC).strftime("%Y-%m-%d %H:%M UTC")
        words.say(
            f"job {job['job']} at {job['provider']}: {job['calls']} calls of {job['model']} since {since}; "
            f"{stands(job['state'], job['told'])}"
        )
    tell_lanes(words, document["lanes"])
    for process in document["processes"]:
        waits = ", ".join(f"{cause} {cells}" for cause, cells in process.get("waiting", {}).items()) or "nothing"
        words.say(
            f"process {process['pid']}: {'paused; ' * process.get('paused', False)}{process.get('in_flight', 0)} in flight, "
            f"{process.get('calls_per_s', 0)} calls/s, "
            f"{process.get('tokens_per_s', 0)} tokens/s; waits for {waits}"
        )
        tell_time(words, process)
        for provider, why in process.get("trouble", {}).items():
            words.say(f"{provider}: {plain(why)}; next try in {process['next_try_s'][provider]:.0f} s")
