"""Embed: the nodes of an embed stage, one for queries and one for the corpus; a vector per text and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from judgerun.model.condition import Condition
from judgerun.model.experiment import Embed, TextOf
from judgerun.model.kept import Cell, Kept, Lost
from judgerun.model.profile import Profile
from judgerun.plan.desk import Ask, Desk
from judgerun.plan.entry import Entry
from judgerun.plan.node import Common, Stageful
from judgerun.plan.requests import Count, Form
from judgerun.plan.tally import Tally
from judgerun.table.conditions import embedded
from judgerun.table.expression import Expression, ExpressionError
from judgerun.table.row import Outcome, Row

EMPTY = "empty text"
"""Why a text without a visible character fails: no vector of it would mean anything."""


@dataclass(slots=True, kw_only=True)
class Slot:
    """One model on the rows of one condition."""

    form: Form
    condition: Condition
    place: int
    tally: Tally


class EmbedNode(Stageful):
    """Rows in, cells out; a row goes on with the key of its vector, which stays in the cache.

    A text longer than the model reads is no failure: the model cuts it, and the reply says so.
    """

    def __init__(
        self,
        common: Common,
        stage: Embed,
        *,
        name: str,
        texts: Mapping[str, TextOf],
        role: Literal["query", "document"],
        desk: Desk,
        profiles: Mapping[str, Profile],
        count: Count | None,
        tallies: dict[str, Tally],
    ) -> None:
        super().__init__(common, name, texts)
        self.stage = stage
        self.role: Literal["query", "document"] = role
        self.desk = desk
        self.count = count
        self.tallies = tallies
        forms = [Form(model, profiles[model.name]) for model in stage.models]
        self._slots = {c.name: self._slots_of(c, forms) for feed in self.feeds for c in feed.conditions}
        self.conditions = tuple(slot.condition for slots in self._slots.values() for slot in slots)
        entry = Entry(self, stage if role == "query" else replace(stage, where=None, sample=None), self._embed)
        for feed in self.feeds:
            feed.readers.append(partial(entry.read, by=Expression(texts[feed.name].expression)))

    def _slots_of(self, feed: Condition, forms: Sequence[Form]) -> list[Slot]:
        slots = []
        for place, form in enumerate(forms):
            condition = embedded(feed, self.stage.name, form.model.name)
            tally = self.tallies.setdefault(
                condition.name, Tally(condition=condition.name, stage=self.stage.name, model=form.model)
            )
            slots.append(Slot(form=form, condition=condition, place=place, tally=tally))
        return slots

    def _embed(self, row: Row, text_of: Expression) -> None:
        """The cells of a row."""
        slots = self._slots[row.condition.name]
        text = ""
        if row.state == "live":
            try:
                text = text_of.rendered(self.common.scopes.of(row))
            except ExpressionError as error:
                row = replace(row, state="failed", reason=f"text: {error}")
            else:
                if not text.strip():
                    row = replace(row, state="failed", reason=EMPTY)
        for slot in slots:
            if row.state == "live":
                request = slot.form.embed(text, self.role)
                place = (self.place, slot.place)
                self.desk.ask(Ask(self, slot, row, row.draws, request, place, slot.tally, slot.form))
            else:
                self._count_mark(row, slot)

    def _count_mark(self, row: Row, slot: Slot) -> None:
        slot.tally.planned += row.weight
        if row.state == "failed":
            slot.tally.fail(row.reason, row.weight)
        else:
            slot.tally.unknown += row.weight
        self.emit(replace(row, condition=slot.condition))

    def cell(self, ask: Ask) -> Cell:
        """The cell to be sent."""
        slot: Slot = ask.slot
        model = slot.form.model
        bound, by = slot.form.bound(ask.request, self.count)
        return Cell(
            stage=self.stage.name,
            condition=slot.condition.name,
            id=ask.row.id,
            draws=ask.draws,
            block=ask.row.block,
            provider=model.provider.name,
            model=model.name,
            request=ask.request,
            rank=self.desk.rank(ask),
            input_bound=bound,
            input_bound_by=by,
            output_cap=0,
        )

    def settle(self, ask: Ask, found: Kept | Lost, *, shared: bool) -> None:
        """Count the vector, and send the row on."""
        slot: Slot = ask.slot
        if isinstance(found, Lost):
            slot.tally.fail(found.reason)
            asked = Outcome(key=ask.request.key, model=slot.form.model.name, lineage=slot.form.model.lineage)
            stages = {**ask.row.stages, self.stage.name: asked}
            lost = replace(ask.row, condition=slot.condition, stages=stages, state="failed", reason=found.reason)
            self.emit(lost)
            return
        slot.tally.reply(found, parsed=None, cached=found.experiment != self.common.experiment.name, shared=shared)
        if not shared:
            slot.tally.lengths(found, len(ask.request.canonical))
        outcome = Outcome(
            finish=found.reply.finish.value,
            concluded=True,
            kept=found,
            key=ask.request.key,
            model=slot.form.model.name,
            lineage=slot.form.model.lineage,
        )
        row = ask.row
        self.emit(replace(row, condition=slot.condition, stages={**row.stages, self.stage.name: outcome}))

    def spare(self, ask: Ask) -> None:
        """Vectors of another model would mean something else: none stands in."""

    def pend(self, ask: Ask) -> None:
        """It stays without a vector."""
        slot: Slot = ask.slot
        self.emit(replace(ask.row, condition=slot.condition, state="pending", reason=""))
