"""A small Flow: rows x conditions, with a stage that reads the replies of the first; enough to dispatch against."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from judgerun.model.experiment import Deployment, Model
from judgerun.model.kept import Cell, Kept, Lost
from judgerun.model.reply import Finish
from judgerun.model.request import RequestKey, build
from judgerun.plan.counts import Counts

Lookup = Callable[[RequestKey], Kept | Lost | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One condition of the first stage; with a `grader`, each of its good replies is read by a second stage."""

    name: str
    model: Model
    grader: Model | None = None
    embed: bool = False


def deployment(name: str, url: str) -> Deployment:
    """A deployment whose address is no part of its keys."""
    return Deployment(name=name, dialect="openai", base_url=url, identity=f"{name}-identity")


def model(name: str, provider: Deployment, *, cap: int = 16) -> Model:
    """A model under its own name."""
    return Model(name=name, provider=provider, model=f"id-{name}", max_output_tokens=cap)


def chat(arm: Model, text: str, *, stage: str, condition: str, item: str, rank: tuple[int, ...]) -> Cell:
    """A chat cell with one user message."""
    payload = {
        "model": arm.model,
        "messages": [{"role": "user", "content": text}],
        "max_output_tokens": arm.max_output_tokens,
    }
    return _cell(arm, "chat", payload, text, stage=stage, condition=condition, item=item, rank=rank)


def embedding(arm: Model, text: str, *, stage: str, condition: str, item: str, rank: tuple[int, ...]) -> Cell:
    """An embedding cell."""
    payload = {"model": arm.model, "text": text, "role": "document"}
    return _cell(arm, "embed", payload, text, stage=stage, condition=condition, item=item, rank=rank)


def _cell(
    arm: Model,
    kind: str,
    payload: Mapping[str, object],
    text: str,
    *,
    stage: str,
    condition: str,
    item: str,
    rank: tuple[int, ...],
) -> Cell:
    chat_kind = kind == "chat"
    return Cell(
        stage=stage,
        condition=condition,
        id=item,
        draws=(),
        block=item,
        provider=arm.provider.name,
        model=arm.name,
        request=build(
            "chat" if chat_kind else "embed", payload, deployment=arm.provider.key_part, adapter="openai/1", draw=0
        ),
        rank=rank,
        input_bound=len(text.encode()) + 8,
        input_bound_by="bytes",
        output_cap=arm.max_output_tokens if chat_kind else None,
    )


@dataclass(slots=True)
class _Tally:
    stage: str
    planned: int = 0
    done: int = 0
    failed: int = 0
    truncated: int = 0
    finish: dict[str, int] = field(default_factory=dict)


class FakeFlow:
    """Rows times arms, row by row; `text` makes what is asked."""

    def __init__(
        self,
        arms: Sequence[Arm],
        rows: int,
        lookup: Lookup,
        *,
        text: Callable[[int, Arm], str] = lambda row, arm: f"row {row} of {arm.name}",
    ) -> None:
        self._arms = arms
        self._rows = rows
        self._lookup = lookup
        self._text = text
        self._next_row = 0
        self._ready: list[tuple[tuple[int, ...], int, Cell]] = []
        self._tie = itertools.count()
        self._tallies: dict[str, _Tally] = {}
        self.order: list[str] = []  # conditions in the order in which their cells were taken
        self.outcomes: dict[tuple[str, str], Kept | Lost] = {}  # (condition, id)
        self.abandoned: list[tuple[str, str]] = []
        self.cells: dict[tuple[str, str], Cell] = {}
        self.failovers: dict[str, Model] = {}  # by the model whose cells they take

    def take(self, *, blocks: int | None = None) -> Cell | None:
        """The next ready cell in plan order; rows are opened one by one, at most `blocks` of them."""
        opened = 0
        while not self._ready and self._next_row < self._rows and opened != blocks:
            self._open_row(self._next_row)
            self._next_row += 1
            opened += 1
        if not self._ready:
            return None
        cell = heapq.heappop(self._ready)[2]
        self.order.append(cell.condition)
        return cell

    @property
    def drained(self) -> bool:
        """No ready cell and no unopened row."""
        return not self._ready and self._next_row >= self._rows

    def forgo(self, cell: Cell) -> None:
        """The cell stays pending."""
        self.abandoned.append((cell.condition, cell.id))

    def resolve(self, cell: Cell, outcome: Kept | Lost) -> None:
        """Keep the outcome; a good reply is read by the grader."""
        place = (cell.condition, cell.id)
        assert place not in self.outcomes, f"{place} was resolved twice"
        self.outcomes[place] = outcome
        tally = self._tallies[cell.condition]
        if isinstance(outcome, Lost):
            tally.failed += 1
            return
        tally.done += 1
        tally.finish[outcome.reply.finish.value] = tally.finish.get(outcome.reply.finish.value, 0) + 1
        tally.truncated += outcome.reply.finish is Finish.LENGTH
        arm = next((arm for arm in self._arms if _first(arm) == cell.condition), None)
        if arm is not None and arm.grader is not None and outcome.reply.finish is Finish.STOP:
            row, place_of_arm = cell.rank[0], self._arms.index(arm)
            text = f"grade {cell.id}: {outcome.reply.text}"
            self._emit(
                chat(
                    arm.grader,
                    text,
                    stage="grade",
                    condition=f"grade/{arm.grader.name}@{cell.condition}",
                    item=cell.id,
                    rank=(row, 1, place_of_arm),
                )
            )

    def divert(self, cell: Cell) -> Cell | None:
        """The same cell at another model, where one is named for its own."""
        other = self.failovers.get(cell.model)
        if other is None:
            return None
        payload = {**cell.request.payload, "model": other.model}
        made = build(
            cell.request.kind, payload, deployment=other.provider.key_part, adapter="openai/1", draw=cell.request.draw
        )
        return replace(cell, provider=other.provider.name, model=other.name, request=made)

    def counts(self) -> tuple[Counts, ...]:
        """How the cells that exist so far stand."""
        return tuple(
            Counts(
                condition=name,
                stage=tally.stage,
                planned=tally.planned,
                done=tally.done,
                failed=tally.failed,
                pending=tally.planned - tally.done - tally.failed,
                finish=dict(tally.finish),
                truncated=tally.truncated,
            )
            for name, tally in self._tallies.items()
        )

    @property
    def complete(self) -> bool:
        """Every row was opened and every cell has its outcome."""
        return self._next_row == self._rows and len(self.outcomes) == len(self.cells)

    def _open_row(self, row: int) -> None:
        for place, arm in enumerate(self._arms):
            make = embedding if arm.embed else chat
            self._emit(
                make(
                    arm.model,
                    self._text(row, arm),
                    stage="solve",
                    condition=_first(arm),
                    item=f"r{row}",
                    rank=(row, 0, place),
                )
            )

    def _emit(self, cell: Cell) -> None:
        self._tallies.setdefault(cell.condition, _Tally(cell.stage)).planned += 1
        self.cells[cell.condition, cell.id] = cell
        known = self._lookup(cell.request.key)
        if isinstance(known, Kept):
            self.resolve(cell, known)
        else:
            heapq.heappush(self._ready, (cell.rank, next(self._tie), cell))


def _first(arm: Arm) -> str:
    return f"solve/{arm.name}@rows"
