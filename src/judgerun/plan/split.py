"""Split: the nodes that make rows from rows one by one: explode and map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from judgerun.errors import EXPERIMENT, Problem
from judgerun.model.condition import Condition
from judgerun.model.experiment import Explode, Map
from judgerun.plan.chat import ChatNode
from judgerun.plan.entry import Entry
from judgerun.plan.node import Common, Stageful
from judgerun.table import mapping
from judgerun.table.conditions import through
from judgerun.table.explode import bound, pieces
from judgerun.table.row import Outcome, Row


class ExplodeNode(Stageful):
    """One parsed reply in, its rows out."""

    def __init__(self, common: Common, stage: Explode) -> None:
        super().__init__(common, stage.name, stage.feeds)
        self.stage = stage
        self._to = {c.name: through(c, stage.name) for feed in self.feeds for c in feed.conditions}
        self.conditions = tuple(self._to.values())
        self._bounds = self._work_out()
        entry = Entry(self, stage, self._explode)
        for feed in self.feeds:
            feed.readers.append(entry.read)

    def _work_out(self) -> dict[str, int | None]:
        """The most rows of one reply, by the condition that feeds it."""
        if self.stage.at_most is not None:
            return dict.fromkeys(self._to, self.stage.at_most)
        schemas: dict[str, Mapping[str, Any] | None] = {}
        for feed in self.feeds:
            if isinstance(feed, ChatNode):
                schemas.update({slot.condition.name: slot.way.settings.parse.schema for slot in feed.slots()})
        return {name: bound(schemas.get(name), self.stage.rows) for name in self._to}

    def problems(self) -> list[Problem]:
        """Conditions for which nothing says how many rows a reply can give."""
        wrong = [name for name, most in self._bounds.items() if most is None]
        place = f"stage.{self.name}"
        right = "maxItems in the JSON schema of the stage that feeds it, or at_most here"
        return [
            Problem(EXPERIMENT, place, f"nothing says how many rows a reply of {name} gives", right) for name in wrong
        ]

    def ids(self) -> Sequence[str] | None:
        """Not known beforehand."""
        return None

    def _explode(self, row: Row, _: Any) -> None:
        condition = self._to[row.condition.name]
        most = self._bounds[row.condition.name] or 0
        if row.state != "live":
            self._mark(row, condition, row.weight * most)
            return
        outcome = row.stages.get(row.condition.stage)
        value = outcome.value if outcome is not None and isinstance(outcome.value, Mapping) else row.fields
        found = list(pieces(value, self.stage.rows))
        if len(found) > most:
            reason = f"{len(found)} rows in one reply, more than {most}"
            self._mark(replace(row, state="failed", reason=reason), condition, most)
            return
        for name, element, fields in found:
            outcome = Outcome(value=element, extra=fields)
            self.emit(
                replace(
                    row,
                    id=f"{row.id}/{name}",
                    condition=condition,
                    stages={**row.stages, self.name: outcome},
                    origins=(row.id, *row.origins),
                )
            )

    def _mark(self, row: Row, condition: Condition, weight: int) -> None:
        if weight:
            origins = (row.id, *row.origins)
            self.emit(replace(row, id=f"{row.id}/*", condition=condition, origins=origins, weight=weight))


class MapNode(Stageful):
    """Rows in, whatever rows a function makes of them out; each by itself, or all of a condition at once."""

    def __init__(self, common: Common, stage: Map) -> None:
        super().__init__(common, stage.name, stage.feeds)
        self.stage = stage
        self._call = common.inputs.functions[stage.call]
        self._to = {c.name: through(c, stage.name) for feed in self.feeds for c in feed.conditions}
        self.conditions = tuple(self._to.values())
        self._given: dict[str, set[str]] = {name: set() for name in self._to}  # ids of its own making
        self._waiting: dict[str, list[Row]] = {}
        entry = Entry(self, stage, self._wait if stage.whole else self._one)
        if stage.whole:
            self.wait_for(*(feed.name for feed in self.feeds), by_root=False, done=self._all)
        for feed in self.feeds:
            feed.readers.append(entry.read)

    def ids(self) -> Sequence[str] | None:
        """Not known beforehand."""
        return None

    def _one(self, row: Row, _: Any) -> None:
        condition = self._to[row.condition.name]
        if row.state != "live":
            self._mark(row, condition)
            return
        try:
            made = mapping.one(self._call, self.common.scopes.of(row), row, self.name)
            if len(made) > self.stage.rows_max:
                raise mapping.MapError(f"{len(made)} rows of one, more than rows_max = {self.stage.rows_max}")
            self._claim(row.condition.name, [out for out in made if out.id != row.id])
        except mapping.MapError as error:
            self._mark(replace(row, state="failed", reason=f"map: {error}"), condition)
            return
        for out in made:
            self.emit(replace(out, condition=condition))

    def _claim(self, condition: str, made: Sequence[Row]) -> None:
        """Ids of the function's own making are unique within a condition."""
        taken = self._given[condition]
        for out in made:
            key = f"{out.id} {out.draws}"
            if key in taken:
                raise mapping.MapError(f"the id {out.id!r} was given before")
            taken.add(key)

    def _mark(self, row: Row, condition: Condition) -> None:
        id = row.id if self.stage.rows_max == 1 else f"{row.id}/*"
        self.emit(replace(row, id=id, condition=condition, weight=row.weight * self.stage.rows_max))

    def _wait(self, row: Row, _: Any) -> None:
        self.hold(row.root)
        self._waiting.setdefault(row.condition.name, []).append(row)

    def _all(self, _: str) -> None:
        waiting, self._waiting = self._waiting, {}
        for name, condition in self._to.items():
            rows = sorted(waiting.get(name, ()), key=lambda row: (row.id, row.draws))
            if rows:
                self._call_whole(rows, condition)
            for row in rows:
                self.release(row.root)

    def _call_whole(self, rows: Sequence[Row], condition: Condition) -> None:
        live = [row for row in rows if row.state == "live"]
        if len(live) < len(rows) and any(row.state == "pending" for row in rows):
            for row in rows:
                self._mark(replace(row, state="pending", reason="") if row.state == "live" else row, condition)
            return
        for row in rows:
            if row.state == "failed":
                self._mark(row, condition)
        if not live:
            return
        try:
            made = mapping.whole(self._call, [self.common.scopes.of(row) for row in live], live, self.name)
            if len(made) > self.stage.rows_max * len(live):
                raise mapping.MapError(
                    f"{len(made)} rows of {len(live)}, more than rows_max = {self.stage.rows_max} of each"
                )
            self._claim(rows[0].condition.name, made)
        except mapping.MapError as error:
            for row in live:
                self._mark(replace(row, state="failed", reason=f"map: {error}"), condition)
            return
        for out in made:
            self.hold(out.root)
        for out in made:
            self.emit(replace(out, condition=condition))
        for out in made:
            self.release(out.root)
