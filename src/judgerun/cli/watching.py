"""Watching: `status --watch`, the view of a run that stays until no process runs it, redrawn on a terminal, in lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence

from judgerun.api.project import Workspace
from judgerun.api.stand import glance
from judgerun.api.state import State
from judgerun.cli.standing import tell_state
from judgerun.cli.words import Words
from judgerun.errors import JudgerunError


def watch(words: Words, place: Workspace, names: Sequence[str], *, budget: str | None, every: float) -> bool:
    """Show how experiments stand, every so many seconds, as long as processes run any of them; False when Ctrl-C ended it. The files
    of the experiments are not read.
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
