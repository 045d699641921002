"""Where the time goes, in words: the lanes' largest causes, the time left, the calls that have been in flight longest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judgerun.cli.words import Words, plain
from judgerun.dispatch.eta import span
from judgerun.dispatch.progress import LATE_S

LARGEST = 3
"""Causes that are told of a lane."""
LEAST = 0.005
"""And how large one must be."""
LONG_S = 5.0
"""A call that is in flight for less is not named."""


def tell_lanes(words: Words, lanes: Mapping[str, Mapping[str, float]]) -> None:
    """For each lane the largest causes of its time, in per cent."""
    for lane, spent in lanes.items():
        whole = sum(spent.values())
        largest = sorted(spent.items(), key=lambda item: -item[1])[:LARGEST]
        told = [f"{cause} {100 * seconds / whole:.0f} %" for cause, seconds in largest if seconds > LEAST * whole]
        if told:
            words.say(f"time of {plain(lane)}: {', '.join(told)}")


def tell_time(words: Words, process: Mapping[str, Any]) -> None:
    """What a process says of the time left, of the calls that keep it and of its own lateness."""
    if process.get("left_s") is not None:
        words.say(f"about {span(process['left_s'])} left, limited by {plain(process['limited_by'])}")
    for call in (call for call in process.get("longest", ()) if call["seconds"] >= LONG_S):
        words.say(
            f"in flight for {span(call['seconds'])}: {call['condition']}, item {plain(call['item'])}, attempt {call['attempt']}"
        )
    lag = process.get("lag_ms", {}).get("recent", 0)
    if lag > LATE_S * 1000:
        words.say(f"its event loop was late by up to {lag} ms in the last ten seconds")
