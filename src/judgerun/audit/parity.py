"""Whether conditions that are compared differ in what they are said to differ in, and in nothing else."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from judgerun.audit.evidence import Evidence
from judgerun.audit.finding import Finding, Table
from judgerun.audit.words import few
from judgerun.model.condition import Condition
from judgerun.model.experiment import Arm, Chat, ParseRule
from judgerun.model.request import digest
from judgerun.table.row import Row

DECLARED: Mapping[str, frozenset[str]] = {
    "model": frozenset({"model", "deployment", "adapter", "served", "fingerprint"}),
    "prompt": frozenset({"template", "prompt"}),
    "variant": frozenset({"prompt"}),
    "order": frozenset({"prompt"}),
}
"""What a difference in a coordinate declares to differ; whatever else differs is a finding."""
FIELDS = (
    "template", "prompt", "candidates", "cap", "parse", "temperature", "thinking", "parameters", "adapter", "deployment", "model",
    "served", "fingerprint", "admit",
)  # fmt: skip
"""What is compared. `prompt`: the messages as they were rendered, item by item; `candidates`: what stands around them."""
TOLD = {
    "prompt": "rendered prompt",
    "candidates": "candidate rendering",
    "parse": "parse rule",
    "served": "served model",
}
ITEMS_MAX = 200
"""So many items of each condition are compared by their rendered prompts, the first by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """One condition: its value of each of FIELDS, as text; a rendered prompt by item."""

    condition: Condition
    values: Mapping[str, str]
    prompts: Mapping[str, str] = field(default_factory=dict)  # id -> its messages


def traits(evidence: Evidence, stage: Chat) -> list[Traits]:
    """Every condition of a chat stage that has replies, by name."""
    held: dict[str, list[Row]] = defaultdict(list)
    for row in evidence.rows.get(stage.name, ()):
        if row.outcome is not None and row.outcome.kept is not None and row.outcome.server is None:
            held[row.condition.name].append(row)
    return [found for name in sorted(held) if (found := _traits(evidence, held[name])) is not None]


def _traits(evidence: Evidence, rows: Sequence[Row]) -> Traits | None:
    condition = rows[0].condition
    own = dict(condition.segments[0].coordinates)
    arm = evidence.arm(condition.stage, own.get("model"), own.get("prompt"))
    if arm is None:
        return None
    chosen = sorted(rows, key=lambda row: (row.id, row.draws))[:ITEMS_MAX]
    asked = {row.id: found for row in chosen if (found := _asked(evidence, row)) is not None}
    values = _written(arm) | {
        "adapter": _set(str(request["adapter"]) for request in asked.values()),
        "deployment": _set(str(request["deployment"]) for request in asked.values()),
        "served": _set(reply.served_model for row in rows if (reply := _reply(row)) is not None),
        "fingerprint": _set(reply.fingerprint for row in rows if (reply := _reply(row)) is not None),
    }
    prompts = {id_: text(request) for id_, request in asked.items()}
    around = {
        row.id: shown for row in chosen if row.id in prompts and (shown := rendering(evidence, row, prompts[row.id]))
    }
    values["candidates"] = _set(around.values())
    return Traits(condition=condition, values=values, prompts=prompts)


def _asked(evidence: Evidence, row: Row) -> Mapping[str, Any] | None:
    """The request of a row's reply; of a reply under a higher cap that of the first."""
    outcome = row.outcome
    if outcome is None:
        return None
    key = outcome.below[0].key if outcome.below else outcome.key
    return None if key is None else evidence.request(key)


def _reply(row: Row) -> Any:
    return row.outcome.kept.reply if row.outcome is not None and row.outcome.kept is not None else None


def _written(arm: Arm) -> dict[str, str]:
    """What the experiment file says of an arm."""
    model, settings = arm.model, arm.settings
    return {
        "template": arm.prompt.digest[:12],
        "cap": _said(model.max_output_tokens),
        "parse": _rule(settings.parse),
        "temperature": _said(model.temperature),
        "thinking": _said(model.thinking),
        "parameters": ", ".join(f"{name} = {value}" for name, value in sorted(model.extra.items())) or "none",
        "model": model.model,
        "admit": ", ".join(settings.admit),
    }


def _said(value: object) -> str:
    return "not sent" if value is None else str(value)


def _rule(rule: ParseRule) -> str:
    """A parse rule in words: its kind, and what it is told beyond the defaults."""
    plain = ParseRule(kind=rule.kind)
    parts = (
        f"{name} = {getattr(rule, name)}"
        for name in ParseRule.__slots__
        if name not in ("kind", "version") and getattr(rule, name) != getattr(plain, name)
    )
    return ", ".join((rule.kind, *parts))


def _set(values: Iterator[str | None] | Any) -> str:
    """The distinct values, sorted; "not told" where there is none."""
    return ", ".join(sorted({value for value in values if value})) or "not told"


def text(request: Mapping[str, Any]) -> str:
    """The messages of a request, each behind its role."""
    return "\n".join(f"[{message['role']}] {message['content']}" for message in request["payload"]["messages"])


def rendering(evidence: Evidence, row: Row, prompt: str) -> str:
    """What stands before the first candidate and between the candidates of a prompt, numerals as #; "" where none is found."""
    ranking = row.ranking
    if ranking is None:
        return ""
    stage, candidates = ranking
    document = evidence.document or (lambda _, __: {})
    fields = (candidate.fields or document(stage, candidate.id) for candidate in candidates)
    places = sorted(found for held in fields if (found := _place(held, prompt)) is not None)
    if len(places) < 2:
        return ""
    start = prompt.rfind("\n", 0, places[0][0]) + 1
    between = {_NUMERAL.sub("#", prompt[end:begin]) for (_, end), (begin, _) in pairwise(places)}
    return repr((_NUMERAL.sub("#", prompt[start : places[0][0]]), *sorted(between)))


_NUMERAL = re.compile(r"\d+")


def _place(fields: Mapping[str, Any], prompt: str) -> tuple[int, int] | None:
    """Where the longest field of a candidate that stands in a prompt begins and ends."""
    texts = sorted((value for value in fields.values() if isinstance(value, str) and value), key=len, reverse=True)
    for value in texts:
        at = prompt.find(value)
        if at >= 0:
            return at, at + len(value)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field in which conditions differ that differ in one coordinate alone, and by which that does not declare it."""

    stage: str
    name: str
    coordinate: str
    values: Mapping[str, str]  # by condition
    item: str = ""  # the first item whose prompts differ, with the lines


def undeclared(evidence: Evidence) -> Iterator[Difference]:
    """Every difference that nothing declares: of each chat stage, by the coordinate in which its conditions differ."""
    for stage in evidence.experiment.stages:
        if not isinstance(stage, Chat):
            continue
        groups: dict[tuple[str, Condition], list[Traits]] = defaultdict(list)
        for held in traits(evidence, stage):
            for coordinate, _ in held.condition.segments[0].coordinates:
                groups[coordinate, held.condition.fold(stage.name, coordinate)].append(held)
        for (coordinate, _), group in groups.items():
            yield from _within(stage.name, coordinate, group)


def _within(stage: str, coordinate: str, held: Sequence[Traits]) -> Iterator[Difference]:
    for name in FIELDS:
        if name in DECLARED.get(coordinate, frozenset()) or len(held) < 2:
            continue
        item = ""
        if name == "prompt":
            item = _differing(held)
            values = (
                {one.condition.name: digest("".join(one.prompts.values()).encode())[:12] for one in held}
                if item
                else {}
            )
        else:
            values = {one.condition.name: one.values[name] for one in held}
            if name == "candidates":  # a condition whose prompts show none shows none differently
                values = {condition: value for condition, value in values.items() if value != "not told"}
        if len(set(values.values())) > 1:
            yield Difference(stage=stage, name=name, coordinate=coordinate, values=values, item=item)


def _differing(held: Sequence[Traits]) -> str:
    """The first item whose prompts differ between conditions, with the first lines that do; "" where none differs."""
    first = held[0]
    for other in held[1:]:
        for id_ in sorted(first.prompts.keys() & other.prompts.keys()):
            one, two = first.prompts[id_], other.prompts[id_]
            if one != two:
                pairs = zip(one.splitlines(), two.splitlines(), strict=False)
                lines = next(((a, b) for a, b in pairs if a != b), ("", "(one goes on)"))
                return f"item {id_}: {lines[0][:LINE]!r} in {first.condition}, {lines[1][:LINE]!r} in {other.condition}"
    return ""


LINE = 80


def check_parity(evidence: Evidence) -> Iterator[Finding]:
    """Conditions that differ in one coordinate alone (model, prompt, variant, order) have the same template, rendered prompt,
    candidate rendering, cap, parse rule, temperature, thinking, parameters, adapter, deployment, served model and admission, but
    for what that coordinate says; every other difference is a warning, which a waiver with a reason declares.
    """
    merged: dict[tuple[str, str, str], list[Difference]] = defaultdict(list)
    for one in undeclared(evidence):
        merged[one.stage, one.name, one.coordinate].append(one)
    for (stage, name, coordinate), found in sorted(merged.items()):
        lines = [f"{value}: {condition}" for one in found for condition, value in sorted(one.values.items())]
        yield Finding(
            check=f"parity {name}",
            severity="warning",
            message=f"conditions of {stage} that differ in {coordinate} alone differ in their {TOLD.get(name, name)}, too",
            value=len(found),
            evidence=(*(one.item for one in found[:1] if one.item), *few(lines)),
        )


def tables(evidence: Evidence) -> Iterator[Table]:
    """What each condition of each chat stage was asked with, side by side, where a stage has several."""
    shown = [name for name in FIELDS if name != "prompt"]
    rows = [
        (held.condition.name, *(held.values[name] for name in shown))
        for stage in evidence.experiment.stages
        if isinstance(stage, Chat) and len(found := traits(evidence, stage)) > 1
        for held in found
    ]
    if rows:
        yield Table(
            name="parity",
            title="What the conditions were asked with",
            columns=("condition", *(TOLD.get(name, name) for name in shown)),
            rows=tuple(rows),
        )
