"""What can be told of stages and questions against the rows that reach them: names, coordinates, joins, orders, bounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from judgerun.files.branch import Branch, Branches
from judgerun.files.expressions import Uses, Wrong, of_expression
from judgerun.files.faults import Faults, hint
from judgerun.files.lines import Path as KeyPath
from judgerun.files.prompts import ReadPrompt
from judgerun.files.rules import paths_of, rows_at
from judgerun.files.walk import draw_stage, exploded_rows, feeding_arms, joined
from judgerun.model.condition import COORDINATES
from judgerun.model.experiment import (
    Arm,
    Chat,
    Embed,
    Experiment,
    Explode,
    Fold,
    Join,
    Map,
    Pair,
    Retrieve,
    Stage,
    TextOf,
)
from judgerun.table.conditions import locate
from judgerun.table.row import JOINED

_WRITTEN = (".jsonl", ".csv", ".parquet")
_PLACE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the checks look at."""

    faults: Faults
    experiment: Experiment
    known: Mapping[str, Branches]
    prompts: Mapping[str, ReadPrompt | None]
    conditions: Collection[str]  # fields that data tables name as their conditions
    places: Mapping[str, KeyPath]  # where each stage stands


def check_stage(bench: Bench, stage: Stage) -> None:
    """Note every problem of a stage whose feeds are known."""
    path = bench.places[stage.name]
    incoming = [branch for feed in stage.feeds for branch in bench.known.get(feed, ())]
    if any(feed not in bench.known for feed in stage.feeds) or not incoming:
        return
    own = bench.known.get(stage.name, ())
    _check_texts(bench, path, stage)
    for branch in incoming:
        if stage.where is not None and not isinstance(stage, Chat):
            check_expression(bench, (*path, "where"), stage.where, branch)
        _check_joins(bench, path, stage.joins, branch, incoming)
    _check_slices(bench, path, stage, own)
    _check_write(bench, path, stage, own)
    match stage:
        case Chat():
            for branch in incoming:
                for variant in stage.variants:
                    here: KeyPath = (*path, "variant", variant.name) if variant.name else path
                    _check_joins(bench, here, variant.joins, branch, incoming)
                for arm in stage.arms:
                    _check_arm(bench, path, stage, arm, branch)
        case Retrieve():
            _check_ranking(bench, path, stage, incoming)
        case Explode():
            _check_explode(bench, path, stage)
        case Pair():
            _check_pair(bench, path, stage, incoming)
        case Fold():
            _check_fold(bench, path, stage, incoming)
        case _:
            pass
    if isinstance(stage, (Explode, Pair, Fold, Map)):
        _check_missing(bench, path, stage.missing, incoming)


# --- names -----------------------------------------------------------------------------------------------------------


def check_expression(
    bench: Bench, path: KeyPath, text: str, branch: Branch, also: Collection[str] = (), *, what: str = "expression"
) -> None:
    """Note what is wrong with an expression over rows of this branch; `also` are further names that it may use."""
    try:
        uses = of_expression(text)
    except Wrong as error:
        bench.faults.add(path, f"{text!r} is no {what}: {error}")
        return
    _names(bench.faults, path, uses, branch, also, lambda name: f"{text!r} names {name!r}, which the rows do not have")


def _names(
    faults: Faults,
    path: KeyPath,
    uses: Uses,
    branch: Branch,
    also: Collection[str],
    message: Callable[[str], str],
    joins: Mapping[str, frozenset[str] | None] | None = None,
) -> None:
    """Note names, and attributes of stages and joins, that rows of this branch cannot have."""
    known = branch.names | set(also) | (joins or {}).keys()
    for name in sorted(uses.names - uses.optional - known):
        if not branch.open:
            faults.add(path, message(name), hint(name, known))
    for chain in sorted(uses.attributes):
        attributes = (joins or {})[chain[0]] if chain[0] in (joins or {}) else branch.attributes(chain[0])
        if len(chain) == 2 and attributes is not None and chain[1] not in attributes and chain[0] not in uses.optional:
            faults.add(path, message(".".join(chain)), hint(chain[1], attributes))


def _check_texts(bench: Bench, path: KeyPath, stage: Stage) -> None:
    """The texts of embed and bm25 stages: attributes of the one table that each names."""
    if not isinstance(stage, (Embed, Retrieve)):
        return
    texts = [("queries", text) for text in stage.queries] + ([("corpus", stage.corpus)] if stage.corpus else [])
    for key, text in texts:
        for branch in bench.known.get(text.table, ()):
            _check_text(bench, (*path, key), text, branch)


def _check_text(bench: Bench, path: KeyPath, text: TextOf, branch: Branch) -> None:
    attributes = branch.attributes(text.table)
    if attributes is None:
        return
    for chain in sorted(of_expression(text.expression).attributes):
        if len(chain) == 2 and chain[0] == text.table and chain[1] not in attributes:
            wrong = f"{text.expression!r} names {'.'.join(chain)!r}, which the rows do not have"
            bench.faults.add(path, wrong, hint(chain[1], attributes))


def _check_slices(bench: Bench, path: KeyPath, stage: Stage, own: Branches) -> None:
    for name in stage.slices:
        if name in bench.conditions or any(_has_coordinate(name, branch) for branch in own):
            continue
        for branch in own:
            plain = replace(
                branch, bare=frozenset()
            )  # `value` alone is no field: rows have it only once they are asked
            check_expression(bench, (*path, "slices"), name, plain, what="field or coordinate")


def _has_coordinate(name: str, branch: Branch) -> bool:
    table, _, bare = name.rpartition(".")
    if bare == "draw":
        return table in branch.draws if table else bool(branch.draws)
    return bare in (*COORDINATES, "round") and locate(name, branch.conditions) is not None


def _check_write(bench: Bench, path: KeyPath, stage: Stage, own: Branches) -> None:
    if stage.write is None:
        return
    here = (*path, "write")
    if not stage.write.endswith(_WRITTEN):
        bench.faults.add(here, f"{stage.write!r} says no form", f"an ending: {', '.join(_WRITTEN)}")
    if stage.write.startswith("/") or ".." in stage.write.split("/"):
        bench.faults.add(here, "write stays under results/<experiment>/", "a relative path without ..")
    for name in _PLACE.findall(stage.write):
        if name != "set" and name not in bench.conditions and not any(_has_coordinate(name, b) for b in own):
            bench.faults.add(here, f"{{{name}}} is no coordinate of these rows", "such as {model} or {solve.prompt}")


def _check_missing(bench: Bench, path: KeyPath, missing: str, incoming: Branches) -> None:
    if missing == "drop":
        return
    for branch in incoming:
        if missing not in branch.fields and not branch.open:
            bench.faults.add((*path, "missing"), f"the rows have no field {missing!r}", hint(missing, branch.fields))


# --- joins -----------------------------------------------------------------------------------------------------------


def _check_joins(bench: Bench, path: KeyPath, joins: Iterable[Join], branch: Branch, siblings: Branches) -> None:
    for join in joins:
        here = (*path, "with", join.name)
        table = bench.known.get(join.table or "")
        if table is None:
            continue
        if join.by is not None and join.by != "id":
            check_expression(bench, (*here, "by"), join.by, branch, what="field")
        if join.rank is not None and join.gold is None and not all(other.ranked for other in table):
            bench.faults.add((*here, "rank"), f"{join.table!r} ranks nothing", "a ranking stage, or gold = ...")
        if join.name in branch.fields:
            bench.faults.add(here, f"the rows have a field {join.name!r}", "another name, or columns renames the field")
        if join.name in branch.stages or join.name == branch.source:
            bench.faults.add(here, f"{join.name!r} names a table upstream", "a name of its own")
        if join.gold is not None and _is_stage(bench, join.table or ""):
            bench.faults.add(
                (*here, "table"), f"gold judges rows of a data table, not of {join.table!r}", "[data.NAME]"
            )
        elif join.gold is None and join.table not in branch.stages and join.table != branch.source:
            _check_ambiguous(bench, here, join, table, branch, siblings)


def _check_ambiguous(
    bench: Bench, path: KeyPath, join: Join, table: Branches, branch: Branch, siblings: Branches
) -> None:
    for condition in branch.conditions:
        met = joined(condition, siblings, table)
        if len(met) > 1:
            wrong = f"the join is ambiguous: a row of {condition} meets {met[0]} and {met[1]}"
            bench.faults.add(path, wrong, f"fold {join.table!r} first, or join a stage upstream of both")
            return
        if not met:
            bench.faults.add(path, f"a row of {condition} meets no row of {join.table!r}", "shared coordinates agree")
            return
    drawn = sorted(
        stage for other in table for stage, count in other.draws.items() if count > 1 and stage not in branch.draws
    )
    if drawn:
        wrong = f"the join is ambiguous: {join.table!r} has several draws of {drawn[0]!r}"
        bench.faults.add(path, wrong, 'a fold over = "draw" before it')


def join_columns(bench: Bench, joins: Iterable[Join]) -> dict[str, frozenset[str] | None]:
    """What may stand behind each joined name; None where that is not known."""
    found: dict[str, frozenset[str] | None] = {}
    for join in joins:
        columns = [_brought(join, branch) for branch in bench.known.get(join.table or "", ())]
        known = [names for names in columns if names is not None]
        found[join.name] = frozenset[str]().union(*known) if known and len(known) == len(columns) else None
    return found


def _brought(join: Join, branch: Branch) -> frozenset[str] | None:
    """What a row of this branch brings to the row that joins it."""
    if join.gold is not None:
        return branch.fields | {"id", "grade", "rank"}
    if join.rank is not None:
        return branch.documents
    own = branch.stages.get(join.table or "", frozenset())
    if branch.open or own is None:
        return None
    return branch.fields | {"id"} | own | frozenset(JOINED if branch.stages else ())


# --- chat stages -----------------------------------------------------------------------------------------------------


def _check_arm(bench: Bench, path: KeyPath, stage: Chat, arm: Arm, branch: Branch) -> None:
    settings, faults = arm.settings, bench.faults
    if settings.where is not None:
        check_expression(bench, (*path, "where"), settings.where, branch)
    if settings.expect is not None:
        check_expression(bench, (*path, "expect"), settings.expect, branch, what="field")
    _check_missing(bench, path, settings.missing, (branch,))
    _check_prompt(bench, path, stage, arm, branch)
    if settings.parse.kind == "choice" and settings.parse.low is None and not branch.ranked:
        faults.add((*path, "parse"), "a choice without candidates needs its range", "low and high")
    if settings.gold and not branch.ranked:
        faults.add((*path, "gold"), "only a stage fed by a ranking is scored against gold", "from = a retrieve stage")
    paired = "a" in branch.bare
    for order in settings.orders:
        if order in ("ab", "ba") and not paired:
            faults.add((*path, "orders"), f"the order {order!r} is for pairs", "from = a pair stage")
        elif order not in ("ab", "ba") and not branch.ranked:
            faults.add((*path, "orders"), f"the order {order!r} is for ranked candidates", "from = a retrieve stage")
    if "ba" in settings.orders and paired and settings.parse.kind != "label":
        wrong = f"a {settings.parse.kind} value is not mapped back when b is shown first"
        faults.warn(
            (*path, "orders"), wrong, "a label rule, whose first two values mean the one shown first and second"
        )


def _check_prompt(bench: Bench, path: KeyPath, stage: Chat, arm: Arm, branch: Branch) -> None:
    """Names that a prompt uses: one bound by another variant is null, and so no error."""
    read = bench.prompts.get(arm.prompt.name)
    if read is None:
        return
    joins = join_columns(bench, stage.all_joins)
    constants = frozenset(arm.settings.vars)

    def message(name: str) -> str:
        where = f"; the constant is vars.{name}" if name in constants else ""
        return f"{arm.prompt.file} names {name!r}, which its rows do not have{where}"

    _names(bench.faults, (*path, "prompts"), read.uses, branch, (), message, {**joins, "vars": constants})


# --- the other kinds -------------------------------------------------------------------------------------------------


def _check_ranking(bench: Bench, path: KeyPath, stage: Retrieve, incoming: Branches) -> None:
    faults = bench.faults
    if stage.method == "dense":
        vectors = bench.experiment.stage(stage.feeds[0]) if _is_stage(bench, stage.feeds[0]) else None
        if not isinstance(vectors, Embed):
            faults.add((*path, "from"), f"{stage.feeds[0]!r} makes no vectors", "an embed stage")
        elif vectors.corpus is None or not vectors.queries:
            faults.add((*path, "from"), f"{vectors.name!r} lacks queries or a corpus", "both, to rank one by the other")
    if stage.method in ("rrf", "lexical"):
        key = "fuse" if stage.method == "rrf" else "from"
        for feed in stage.feeds:
            if not _ranks(bench, feed):
                faults.add((*path, key), f"{feed!r} ranks nothing", "a retrieve stage")
    if stage.method == "lexical":
        for branch in incoming:
            check_expression(bench, (*path, "query"), stage.query or "", branch, what="field")
            if branch.documents is not None and stage.candidate not in branch.documents:
                wrong = f"the documents have no field {stage.candidate!r}"
                faults.add((*path, "candidate"), wrong, hint(stage.candidate or "", branch.documents))


def _is_stage(bench: Bench, name: str) -> bool:
    return any(stage.name == name for stage in bench.experiment.stages)


def _ranks(bench: Bench, name: str) -> bool:
    return _is_stage(bench, name) and isinstance(bench.experiment.stage(name), Retrieve)


def _check_explode(bench: Bench, path: KeyPath, stage: Explode) -> None:
    arms = feeding_arms(stage, bench.experiment)
    if not stage.rows:
        bench.faults.add((*path, "rows"), "no kind of row is said", '[[stage.rows]] with each = ["path"]')
    if any(arm.settings.parse.kind != "json" for arm in arms):
        wrong = "a reply that is no JSON cannot be exploded"
        bench.faults.add((*path, "from"), wrong, 'parse = { kind = "json" } in the stage that feeds it')
        return
    schemas = [arm.settings.parse.schema for arm in arms if arm.settings.parse.schema is not None]
    for number, rows in enumerate(stage.rows):
        if schemas and all(rows_at(schema, each) is None for schema in schemas for each in rows.each):
            known = sorted({path for schema in schemas for path in paths_of(schema)})
            wrong = f"no schema has {' or '.join(map(repr, rows.each))}"
            bench.faults.add((*path, "rows", number, "each"), wrong, hint(rows.each[0] if rows.each else "", known))
    if exploded_rows(stage, bench.experiment) is None:
        wrong = "nothing says how many rows a reply can give"
        bench.faults.add(path, wrong, "maxItems in the schema, or at_most here")


def _check_pair(bench: Bench, path: KeyPath, stage: Pair, incoming: Branches) -> None:
    name = stage.of.rpartition(".")[2]
    for branch in incoming:
        check_expression(bench, (*path, "by"), stage.by, branch, what="field")
        table = locate(stage.of, branch.conditions)
        if table is None:
            bench.faults.add(
                (*path, "of"), f"{stage.of!r} is no coordinate of these rows", hint(name, branch.coordinates)
            )
            continue
        values = list(dict.fromkeys(filter(None, (c.get(name, table) for c in branch.conditions))))
        if stage.against != "all" and stage.against not in values:
            wrong = f"{stage.of!r} has no value {stage.against!r}"
            bench.faults.add((*path, "against"), wrong, hint(stage.against, (*values, "all")))
        elif len(values) < 2:
            bench.faults.add((*path, "of"), f"{stage.of!r} has one value: there is nothing to pair", "two or more")


def _check_fold(bench: Bench, path: KeyPath, stage: Fold, incoming: Branches) -> None:
    for branch in incoming:
        for text in (stage.value,) if isinstance(stage.value, str) else stage.value:
            check_expression(bench, (*path, "value"), text, branch, branch.near, what="value")
        if stage.over == "rows":
            if stage.by is not None:
                check_expression(bench, (*path, "by"), stage.by, branch, what="field")
            elif branch.before is None and not branch.open:
                bench.faults.add((*path, "over"), "no explode upstream made rows", "by = a field that groups them")
        elif stage.over.rpartition(".")[2] == "draw":
            if draw_stage(stage.over, branch) is None:
                bench.faults.add((*path, "over"), f"{stage.over!r} names no draws upstream", "a chat stage upstream")
        elif not _has_coordinate(stage.over, branch):
            wrong = f"{stage.over!r} is no coordinate of these rows"
            bench.faults.add((*path, "over"), wrong, hint(stage.over, {*branch.coordinates, "draw", "rows"}))
        most = _group_size(stage.over, branch)
        if stage.at_least is not None and most and stage.at_least > most:
            wrong = f"a group has {most} at most: every fold would be incomplete"
            bench.faults.add((*path, "at_least"), wrong, f"at most {most}")


def _group_size(over: str, branch: Branch) -> int | None:
    """The most rows that can fold into one; None where only the rows can tell."""
    bare = over.rpartition(".")[2]
    if over == "rows":
        return None
    if bare == "draw":
        return branch.draws.get(draw_stage(over, branch) or "")
    table = locate(over, branch.conditions)
    return None if table is None else len({c.get(bare, table) for c in branch.conditions} - {None})
