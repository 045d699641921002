"""Scope: what expressions and prompts see of a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from judgerun.model.experiment import Chat, Stage
from judgerun.model.rows import Fields
from judgerun.table.row import SHOWN, Candidate, Outcome, Row

Document = Callable[[str, str], Fields]  # (stage of the ranking, document id) -> the document's fields

_SHOWN = frozenset(SHOWN)


class Seen:
    """A stage's outcome as expressions see it: `solve.value`, `top10.easy.hit_1`, `pairs.problem`."""

    __slots__ = ("_document", "_outcome", "_stage")

    def __init__(self, stage: str, outcome: Outcome, document: Document) -> None:
        self._stage = stage
        self._outcome = outcome
        self._document = document

    def __getattr__(self, name: str) -> Any:
        outcome = self._outcome
        if name in outcome.extra:
            return outcome.extra[name]
        if name == "candidates" and outcome.candidates is not None:
            return Ranking(self._stage, outcome.candidates, self._document)
        if name in _SHOWN:
            return getattr(outcome, name)
        nested = {
            key.partition(".")[2]: value for key, value in outcome.scores.items() if key.partition(".")[0] == name
        }
        if nested:
            return nested
        raise AttributeError(name)


class Ranking(Sequence[Mapping[str, Any]]):
    """Candidates in the order in which they are shown; each document's fields are read when it is looked at."""

    __slots__ = ("_document", "_read", "_stage", "items")

    def __init__(self, stage: str, items: Sequence[Candidate], document: Document) -> None:
        self._stage = stage
        self.items = tuple(items)
        self._document = document
        self._read: dict[int, Mapping[str, Any]] = {}

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, place: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[n] for n in range(*place.indices(len(self.items)))]
        place = range(len(self.items))[place]
        if place not in self._read:
            item = self.items[place]
            fields = item.fields or self._document(self._stage, item.id)
            self._read[place] = {**fields, "id": item.id, "score": item.score, "rank": item.rank}
        return self._read[place]

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return (self[n] for n in range(len(self.items)))

    def permuted(self, places: Sequence[int]) -> Ranking:
        """The same documents in another order: place n shows what stood at `places[n]`."""
        return Ranking(self._stage, [self.items[place] for place in places], self._document)


def kinds_of(stages: Iterable[Stage]) -> dict[str, str]:
    """The kind of each stage as `Scopes` wants it: all that ask a chat model are "chat"."""
    return {stage.name: "chat" if isinstance(stage, Chat) else stage.kind for stage in stages}


class Scopes:
    """Builds scopes for the rows of one experiment.

    `kinds` tells of each stage whether it is a chat ("chat") or what other kind it has; `document` reads ranked documents.
    """

    def __init__(self, kinds: Mapping[str, str], document: Document) -> None:
        self._kinds = kinds
        self._document = document

    def of(self, row: Row) -> dict[str, Any]:
        """Fields, `id`, the source table and each stage upstream by name; `reply`, `value`, `candidates` of the nearest
        stage that has them; names bound by joins and pairs.
        """
        scope: dict[str, Any] = dict(row.fields)
        scope["id"] = row.id
        scope[row.condition.segments[-1].table] = {**row.fields, "id": row.id}
        for stage, outcome in row.stages.items():
            scope[stage] = seen = Seen(stage, outcome, self._document)
            kind = self._kinds[stage]
            if kind == "chat":
                scope["reply"] = outcome.reply
            if kind in ("chat", "fold", "map"):
                scope["value"] = outcome.value
            elif outcome.candidates is not None:
                scope["candidates"] = seen.candidates
        if row.joined:
            scope.update(row.joined)
        return scope

    def near(self, row: Row) -> dict[str, Any]:
        """The scope of what folds and questions read: what the nearest stage shows of itself stands there by its bare name
        too (`agrees`, `finish`), where nothing else has that name.
        """
        scope = self.of(row)
        if row.outcome is not None:
            for name in _SHOWN - scope.keys():
                scope[name] = getattr(row.outcome, name)
        return scope
