"""Result files of a rewriting study: scores per query, rewritten texts, and counts of verdicts, one JSON document each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from judgerun.errors import Problem
from judgerun.files.foreign.parts import Parts, Read
from judgerun.model.foreign import Score, Tally, Text

NAME = "query-form"
FALLBACK = "FALLBACK_ORIGINAL"
HUMAN = "human"


class Retrieved(Read):
    """`dense__*`, `bm25__*`, `hybrid__*`."""

    model: str
    per_query: dict[str, float]
    retrieval_mode: str = "dense"
    condition: str | None = None
    generator: str | None = None


class Rewritten(Read):
    """`queries__*`."""

    condition: str
    generator: str
    queries: dict[str, str]
    skipped: dict[str, str] = Field(default_factory=dict)
    model_versions: list[str] = Field(default_factory=list)


class Counted(Read):
    """The verdicts on one generator, or pooled."""

    n: int
    drifted: int
    preserved: int
    uncertain: int
    judge_errors: int = 0
    judge: str | None = None
    drift_rate: float | None = None
    below_threshold: bool | None = None
    threshold: float | None = None


class Audited(Read):
    """`audit__*`."""

    dataset: str
    condition: str
    per_generator: dict[str, Counted]
    pooled: Counted | None = None
    threshold: float | None = None


class Boards(Read):
    """Scores of many models on the same queries, by condition: lists in the order of `qids`."""

    qids: list[str]


class Board(Read):
    """One condition of them."""

    systems: dict[str, list[float]]


class Repeated(Read):
    """The whole of one model on one dataset, measured again and again."""

    model: str
    dataset: str
    scores: list[float]


class Floor(Read):
    """`noise_floor.json`."""

    empirical: list[Repeated]


def fits(raw: Any) -> bool:
    """Whether a JSON document is one of these."""
    if not isinstance(raw, dict):
        return False
    shapes = ({"model", "per_query"}, {"queries", "generator"}, {"per_generator", "condition"}, {"qids"}, {"empirical"})
    return any(shape <= raw.keys() for shape in shapes)


def read(parts: Parts, file: str, raw: Mapping[str, Any]) -> None:
    """The records of a document."""
    if "per_query" in raw:
        _retrieved(parts, file, raw)
    elif "queries" in raw:
        _rewritten(parts, file, raw)
    elif "per_generator" in raw:
        _audited(parts, file, raw)
    elif "qids" in raw:
        _boards(parts, file, raw)
    else:
        _floor(parts, file, raw)


def _retrieved(parts: Parts, file: str, raw: Mapping[str, Any]) -> None:
    held = parts.shaped(Retrieved, raw, file, "")
    if held is None:
        return
    name = "/".join(part for part in (held.condition, held.generator) if part) or HUMAN
    condition = name if held.retrieval_mode == "dense" else f"{held.retrieval_mode}:{name}"
    for item, value in held.per_query.items():
        parts.scores.append(
            Score(source=f"{file}#{item}", condition=condition, system=held.model, item=item, value=value)
        )


def _rewritten(parts: Parts, file: str, raw: Mapping[str, Any]) -> None:
    held = parts.shaped(Rewritten, raw, file, "")
    if held is None:
        return
    stood_in = any(version.startswith(FALLBACK) for version in held.model_versions)
    for item, text in held.queries.items():
        reason = held.skipped.get(item)
        fallback = True if reason is not None else None if stood_in and not held.skipped else False
        parts.texts.append(
            Text(
                source=f"{file}#{item}", condition=held.condition, generator=held.generator, item=item, text=text,
                fallback=fallback, reason=reason,
            )
        )  # fmt: skip


def _audited(parts: Parts, file: str, raw: Mapping[str, Any]) -> None:
    held = parts.shaped(Audited, raw, file, "")
    if held is None:
        return
    counted = [*held.per_generator.items(), *([("pooled", held.pooled)] if held.pooled is not None else [])]
    for subject, one in counted:
        parts.tallies.append(
            Tally(
                source=f"{file}#{subject}",
                condition=f"{held.dataset}/{held.condition}",
                subject=subject,
                judge=one.judge,
                n=one.n,
                counts={
                    "drifted": one.drifted,
                    "preserved": one.preserved,
                    "uncertain": one.uncertain,
                    "errors": one.judge_errors,
                },
                rate=one.drift_rate,
                threshold=one.threshold if one.threshold is not None else held.threshold,
                below=one.below_threshold,
            )
        )


def _boards(parts: Parts, file: str, raw: Mapping[str, Any]) -> None:
    held = parts.shaped(Boards, raw, file, "")
    if held is None:
        return
    for name, systems in raw.items():
        lists = isinstance(systems, dict) and any(isinstance(values, list) for values in systems.values())
        board = parts.shaped(Board, {"systems": systems}, file, name) if lists else None
        if board is None:
            continue
        condition = name.replace("__", "/")
        for system, values in board.systems.items():
            if len(values) != len(held.qids):
                wrong = f"{len(values)} scores for {len(held.qids)} qids"
                parts.problems.append(Problem(file, f"{name}.{system}", wrong, "a score for each, in their order"))
                continue
            place = f"{file}#{name}.{system}"
            parts.scores += [
                Score(source=f"{place}.{item}", condition=condition, system=system, item=item, value=value)
                for item, value in zip(held.qids, values, strict=True)
            ]


def _floor(parts: Parts, file: str, raw: Mapping[str, Any]) -> None:
    held = parts.shaped(Floor, raw, file, "")
    if held is None:
        return
    for number, one in enumerate(held.empirical):
        for repeat, value in enumerate(one.scores):
            parts.scores.append(
                Score(
                    source=f"{file}#empirical[{number}].scores[{repeat}]",
                    condition=f"repeats/{one.dataset}",
                    system=one.model,
                    item=f"{one.dataset} {repeat + 1}",
                    value=value,
                )
            )
