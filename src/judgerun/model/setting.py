"""Setting: a cap or a limit that a person put in the place of what a file says, and when it is in force."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

Value = int | float | None
"""In the unit of what is set: nano-dollars, calls, tokens, milliseconds of a GPU, slots, seconds; None is no limit."""


class Setting(NamedTuple):
    """One event of kind "set". `subject` is `budget NAME` or `lane NAME`, `was` what the file said when it was given."""

    id: int
    subject: str
    key: str
    was: Value
    now: Value

    @property
    def detail(self) -> str:
        """As the cache keeps it."""
        return json.dumps({"key": self.key, "was": self.was, "now": self.now})


def read_setting(id: int, subject: str, detail: str) -> Setting:
    """An event of kind "set"."""
    said = json.loads(detail)
    return Setting(id, subject, said["key"], said["was"], said["now"])


def in_force(settings: Iterable[Setting], subject: str, key: str, written: Value, *, since: int | None = None) -> Value:
    """What stands in the place of a written value: what the newest setting says, while the file still says what it said then.

    A process that read its files before the event `since` obeys whatever is set after it: the person knew the files better.
    """
    newest = next((one for one in reversed(tuple(settings)) if (one.subject, one.key) == (subject, key)), None)
    if newest is None or (newest.was != written and (since is None or newest.id <= since)):
        return written
    return newest.now
