"""Rate windows that belong to the cache: counted from its attempts, those of other processes included.

What may live here: how many attempts and tokens stand in the last minute or day of a provider or model, and how long until
there is room. A window of 60 seconds is counted over 61: the guard covers the way from the reservation to the server.

The counts are kept in memory and are right while this connection alone writes. When another one has committed, only what
is new is read: attempts with higher ids, and the ends of those that were open.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterable, Sequence

from judgerun.ports import Window
from judgerun.store.queries import SQL

MINUTE_S = 61.0
DAY_S = 86_400.0
TICK_S = 0.001  # two times closer than this are one time
SLACK_S = 60.0  # attempts stand in order of id; their times may differ by as much as two processes' transactions


class _Mark:
    """One attempt in one track; `counts` is 0 once it is known that no byte left."""

    __slots__ = ("at", "counts", "gone", "tokens")

    def __init__(self, at: float, tokens: int) -> None:
        self.at = at
        self.tokens = tokens
        self.counts = 1
        self.gone = False  # out of the span


class _Track:
    """The marks of one provider, or of one model of it, over one span; oldest first."""

    __slots__ = ("_count", "_marks", "_span", "_used")

    def __init__(self, span: float) -> None:
        self._span = span
        self._marks: deque[_Mark] = deque()
        self._count = 0
        self._used = 0

    def add(self, at: float, tokens: int) -> _Mark:
        self._set_back(at)
        mark = _Mark(at, tokens)
        self._marks.append(mark)
        self._count += 1
        self._used += tokens
        return mark

    def end(self, mark: _Mark, *, sent: bool, tokens: int) -> None:
        """What became of an attempt: it was never sent, or it used so many tokens."""
        if not mark.gone:
            counts, tokens = (1, tokens) if sent else (0, 0)
            self._count += counts - mark.counts
            self._used += tokens - mark.tokens
            mark.counts, mark.tokens = counts, tokens

    def wait(self, now: float, *, requests: int | None, tokens: int | None, wanted: int) -> float:
        """Seconds until one more request of `wanted` tokens fits. One that is larger than the window fits an empty one."""
        self._set_back(now)
        self._expire(now)
        count, used, free_at = self._count, self._used, now
        for mark in self._marks:
            if (requests is None or count < requests) and (tokens is None or used + wanted <= tokens or used == 0):
                break
            count -= mark.counts
            used -= mark.tokens
            free_at = max(free_at, mark.at + self._span)
        return free_at - now

    def _set_back(self, now: float) -> None:
        """Marks of a later time were made before the clock was set back, at the latest now: they must not block until then."""
        for mark in reversed(self._marks):
            if mark.at <= now + SLACK_S:
                break
            mark.at = now

    def _expire(self, now: float) -> None:
        while self._marks and self._marks[0].at + self._span <= now + TICK_S:
            mark = self._marks.popleft()
            mark.gone = True
            self._count -= mark.counts
            self._used -= mark.tokens


_Name = tuple[str, str | None, float]  # provider, model or None for all, span


class Rates:
    """The rate windows that this process was asked about."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._tracks: dict[_Name, _Track] = {}
        self._open: dict[int, list[tuple[_Track, _Mark]]] = {}
        self._foreign: set[int] = set()  # open attempts of other processes, or of this one before a reload
        self._last = 0

    def forget(self) -> None:
        """Nothing in memory can be trusted: read again when next asked."""
        self._tracks.clear()
        self._open.clear()
        self._foreign.clear()
        self._last = 0  # ids of a transaction that was rolled back are given out again, perhaps to another process

    def delay(self, windows: Sequence[Window], *, tokens: int, now: float) -> float:
        """Seconds until all windows have room for one request of `tokens`; 0.0 when they have it now."""
        longest = 0.0
        for window in windows:
            if window.requests_per_minute is not None or window.tokens_per_minute is not None:
                track = self._track((window.provider, window.model, MINUTE_S), now)
                wait = track.wait(
                    now, requests=window.requests_per_minute, tokens=window.tokens_per_minute, wanted=tokens
                )
                longest = max(longest, wait)
            if window.requests_per_day is not None:
                track = self._track((window.provider, window.model, DAY_S), now)
                wait = track.wait(now, requests=window.requests_per_day, tokens=None, wanted=0)
                longest = max(longest, wait)
        return longest

    def add(self, attempt: int, *, provider: str, model: str, at: float, tokens: int) -> None:
        """An attempt that this process has just reserved."""
        self._last = max(self._last, attempt)
        self._mark(attempt, provider, model, at, tokens, self._tracks)

    def end(self, attempt: int, *, sent: bool, tokens: int | None) -> None:
        """An attempt has been closed; `tokens` None leaves what was expected."""
        self._foreign.discard(attempt)
        for track, mark in self._open.pop(attempt, ()):
            track.end(mark, sent=sent, tokens=mark.tokens if tokens is None else tokens)

    def refresh(self) -> None:
        """Another process has committed: read what it added, and how its open attempts ended."""
        if not self._tracks:
            return
        for attempt in tuple(self._foreign):
            state, sent, tokens = self._connection.execute(SQL["ended_attempt"], (attempt,)).fetchone()
            if not state:
                self.end(attempt, sent=bool(sent), tokens=tokens)
        new = self._connection.execute(SQL["recent_attempts"], (self._last,)).fetchall()
        self._read(reversed(new), self._tracks)

    def _track(self, name: _Name, now: float) -> _Track:
        track = self._tracks.get(name)
        if track is None:
            track = self._tracks[name] = _Track(name[2])
            rows = []
            for row in self._connection.execute(SQL["recent_attempts"], (0,)):
                if row[3] < now - name[2] - SLACK_S:
                    break
                rows.append(row)
            self._read(reversed(rows), {name: track})
        return track

    def _read(self, rows: Iterable[tuple[int, str, str, float, int, int, int]], tracks: dict[_Name, _Track]) -> None:
        for attempt, provider, model, at, state, sent, tokens in rows:
            self._last = max(self._last, attempt)
            if sent:
                marked = self._mark(attempt, provider, model, at, tokens, tracks)
                if marked and state:
                    self._foreign.add(attempt)
                elif marked:
                    del self._open[attempt]

    def _mark(
        self, attempt: int, provider: str, model: str, at: float, tokens: int, tracks: dict[_Name, _Track]
    ) -> bool:
        """Put an attempt into the tracks that it counts in; whether there was any."""
        places = [
            (track, track.add(at, tokens))
            for (name, part, _), track in tracks.items()
            if name == provider and part in (None, model)
        ]
        if places:
            self._open.setdefault(attempt, []).extend(places)
        return bool(places)
