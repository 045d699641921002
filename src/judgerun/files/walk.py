"""The static walk: from data tables through every stage, the branches that each table has before anything is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from judgerun.files.branch import Branch, Branches
from judgerun.files.rules import properties_of, rows_at
from judgerun.model.condition import Condition
from judgerun.model.experiment import (
    Arm,
    Chat,
    Embed,
    Experiment,
    Explode,
    Fold,
    Map,
    Pair,
    Retrieve,
    Stage,
    TextOf,
)
from judgerun.model.rows import Table
from judgerun.table.conditions import asked, embedded, locate, matching, orders, paired, source, through
from judgerun.table.explode import bound
from judgerun.table.row import TOGETHER, TOLD

_CANDIDATE = frozenset({"id", "score", "rank"})


def walk(
    experiment: Experiment, tables: Mapping[str, Table], fields: Mapping[str, frozenset[str]]
) -> dict[str, Branches]:
    """The branches of every table, by name. Stages whose feeds are missing (they were wrong) are left out."""
    known: dict[str, Branches] = {
        name: (_data(name, table, fields.get(name, frozenset())),) for name, table in tables.items()
    }
    for stage in experiment.stages:
        if all(feed in known for feed in stage.feeds):
            known[stage.name] = _stage(stage, known, experiment)
    return known


def _data(name: str, table: Table, fields: frozenset[str]) -> Branch:
    if not table.conditions():
        return Branch(source=name, ids={source(name, None): len(table)}, fields=fields)
    counts = Counter(table.condition(row) for row in range(len(table)))
    return Branch(source=name, ids={source(name, value): counts[value] for value in table.conditions()}, fields=fields)


def _stage(stage: Stage, known: Mapping[str, Branches], experiment: Experiment) -> Branches:
    match stage:
        case Retrieve():
            branches = _retrieve(stage, known, experiment)
        case Embed():
            branches = [_embed(stage, branch) for feed in stage.feeds for branch in known[feed]]
        case _:
            incoming = [_sampled(stage, branch) for feed in stage.feeds for branch in known[feed]]
            branches = [made for branch in incoming if (made := _made(stage, branch, experiment)).ids]
    return tuple(branches)


def _sampled(stage: Stage, branch: Branch) -> Branch:
    if stage.sample is None or isinstance(stage, Chat):
        return branch
    return branch.under({condition: min(count, stage.sample) for condition, count in branch.ids.items()})


def _made(stage: Stage, branch: Branch, experiment: Experiment) -> Branch:
    match stage:
        case Chat():
            return _chat(stage, branch)
        case Explode():
            return _explode(stage, branch, experiment)
        case Pair():
            return _pair(stage, branch)
        case Fold():
            return _fold(stage, branch)
        case Map():
            ids = {through(c, stage.name): count * stage.rows_max for c, count in branch.ids.items()}
            return replace(branch.via(stage.name, None, {"value"}).under(ids), open=branch.open or stage.whole)
        case _:
            return branch


def _chat(stage: Chat, branch: Branch) -> Branch:
    ids: dict[Condition, int] = {}
    for feed, count in branch.ids.items():
        for arm in stage.arms:
            asked_of = count if arm.settings.sample is None else min(count, arm.settings.sample)
            for variant in stage.variants:
                for order in orders(arm.settings.orders):
                    condition = asked(
                        feed,
                        stage.name,
                        model=arm.model.name,
                        prompt=arm.prompt.name,
                        variant=variant.name,
                        order=order,
                    )
                    ids[condition] = asked_of
    attributes = _scored(stage, branch).union(TOLD)
    draws = {**branch.draws, stage.name: max((arm.settings.draws for arm in stage.arms), default=1)}
    return replace(branch.via(stage.name, attributes, {"reply", "value"}).under(ids), draws=draws)


def _scored(stage: Stage, branch: Branch) -> frozenset[str]:
    """The golds against which a ranking is scored: `top10.easy.hit_1`."""
    return frozenset(stage.gold) if branch.ranked or isinstance(stage, Retrieve) else frozenset()


def _embed(stage: Embed, branch: Branch) -> Branch:
    ids = {
        embedded(feed, stage.name, model.name): count if stage.sample is None else min(count, stage.sample)
        for feed, count in branch.ids.items()
        for model in stage.models
    }
    return branch.via(stage.name, frozenset({"model", "lineage"})).under(ids)


def _retrieve(stage: Retrieve, known: Mapping[str, Branches], experiment: Experiment) -> list[Branch]:
    corpus: TextOf | None = stage.corpus
    if stage.method == "dense":
        vectors = experiment.stage(stage.feeds[0])
        if not isinstance(vectors, Embed):
            return []
        corpus = vectors.corpus
        arms = [_embed(vectors, branch) for text in vectors.queries for branch in known.get(text.table, ())]
    elif stage.method == "bm25":
        arms = [branch for text in stage.queries for branch in known[text.table]]
    elif stage.method == "rrf":
        arms = _fused([known[feed] for feed in stage.feeds])
    else:
        arms = [branch for feed in stage.feeds for branch in known[feed]]
    documents = _documents(corpus, known) if stage.method in ("dense", "bm25") else None
    return [_ranked(stage, branch, documents) for branch in arms]


def _documents(corpus: TextOf | None, known: Mapping[str, Branches]) -> frozenset[str] | None:
    branches = known.get(corpus.table, ()) if corpus is not None else ()
    if not branches or any(branch.open for branch in branches):
        return None
    return _CANDIDATE.union(*(branch.fields | branch.stages.keys() for branch in branches))


def _ranked(stage: Retrieve, branch: Branch, documents: frozenset[str] | None) -> Branch:
    ids = {
        through(condition, stage.name): count if stage.sample is None else min(count, stage.sample)
        for condition, count in branch.ids.items()
    }
    seen = branch.via(stage.name, frozenset({"candidates"}) | _scored(stage, branch), {"candidates"}).under(ids)
    return seen if stage.method in ("rrf", "lexical") else replace(seen, documents=documents)


def _fused(arms: list[Branches]) -> list[Branch]:
    """Rankings joined: the arm with the most conditions stands for each group that agrees on all shared coordinates."""
    widest = max(arms, key=lambda arm: sum(len(branch.ids) for branch in arm))
    others = [branch for arm in arms if arm is not widest for branch in arm]
    fused = []
    for branch in widest:
        stages = dict(branch.stages)
        for other in others:
            stages.update(other.stages)
        fused.append(replace(branch, stages=stages))
    return fused


def _explode(stage: Explode, branch: Branch, experiment: Experiment) -> Branch:
    most = exploded_rows(stage, experiment)
    ids = {through(condition, stage.name): count * (most or 1) for condition, count in branch.ids.items()}
    seen = branch.via(stage.name, exploded_fields(stage, experiment)).under(ids)
    return replace(seen, before=max(branch.ids.values(), default=0))


def exploded_rows(stage: Explode, experiment: Experiment) -> int | None:
    """How many rows one reply can give at most: `at_most`, else by the schemas of the stages that feed it; None when
    neither says.
    """
    if stage.at_most is not None:
        return stage.at_most
    sizes = [bound(arm.settings.parse.schema, stage.rows) for arm in feeding_arms(stage, experiment)]
    known = [size for size in sizes if size is not None]
    return max(known) if known and len(known) == len(sizes) else None


def exploded_fields(stage: Explode, experiment: Experiment) -> frozenset[str] | None:
    """The attributes of exploded rows, where the schemas name all of them; None where they leave it open."""
    found = frozenset(name for rows in stage.rows for name in rows.fields)
    for arm in feeding_arms(stage, experiment):
        schema = arm.settings.parse.schema
        if schema is None:
            return None
        for part in (rows_at(schema, path) for rows in stage.rows for path in rows.each):
            properties = properties_of(schema, part)
            if part is not None and properties is None:
                return None
            found |= frozenset(properties or ())
    return found


def feeding_arms(stage: Explode, experiment: Experiment) -> list[Arm]:
    """The arms of the chat stages whose replies are exploded."""
    feeds = [feed for feed in experiment.stages if feed.name in stage.feeds]
    return [arm for feed in feeds if isinstance(feed, Chat) for arm in feed.arms]


def _pair(stage: Pair, branch: Branch) -> Branch:
    name = stage.of.rpartition(".")[2]
    table = locate(stage.of, branch.conditions)
    groups: dict[Condition, list[tuple[str, int]]] = {}
    for condition, count in branch.ids.items():
        value = None if table is None else condition.get(name, table)
        if table is not None and value is not None:
            groups.setdefault(condition.fold(table, name), []).append((value, count))
    ids: dict[Condition, int] = {}
    for folded, members in groups.items():
        for n, (first, many) in enumerate(members):
            for second, others in members[n + 1 :]:
                if stage.against == "all" or stage.against in (first, second):
                    one, two = (second, first) if first == stage.against else (first, second)
                    ids[paired(folded, stage.name, f"{one}~{two}")] = max(many, others)
    seen = branch.via(stage.name, frozenset(), {"a", "b"}).under(ids)
    sides: dict[str, frozenset[str] | None] = dict.fromkeys(("a", "b"), None if branch.open else branch.names)
    return replace(seen, open=True, stages={**seen.stages, **sides})


def _fold(stage: Fold, branch: Branch) -> Branch:
    attributes = frozenset({"value", "incomplete", "n", "of", "why"})
    name = stage.over.rpartition(".")[2]
    folded = draw_stage(stage.over, branch) if name == "draw" else locate(stage.over, branch.conditions)
    seen = _together(branch, folded, name).via(stage.name, attributes, {"value"})
    if stage.over == "rows":
        most = branch.before if branch.before is not None and stage.by is None else max(branch.ids.values(), default=0)
        ids = {through(condition, stage.name): min(count, most) for condition, count in branch.ids.items()}
        return replace(seen.under(ids), open=branch.open or stage.by is not None, before=None)
    if name == "draw":
        draws = {key: count for key, count in branch.draws.items() if key != folded}
        return replace(seen.under({through(c, stage.name): n for c, n in branch.ids.items()}), draws=draws)
    ids = {}
    for condition, count in branch.ids.items():
        made = through(condition if folded is None else condition.fold(folded, name), stage.name)
        ids[made] = max(ids.get(made, 0), count)
    return seen.under(ids)


def _together(branch: Branch, folded: str | None, coordinate: str) -> Branch:
    """What rows that are folded show of the stages in which they went apart: whom they asked, where it is the same in all;
    no longer what each was answered. Stages upstream of the folded one stay as they are.
    """
    if folded is None or folded not in branch.stages:
        return branch
    names = list(branch.stages)
    gone = {"model", "lineage"} if coordinate == "model" else {coordinate}
    stages = dict(branch.stages)
    for name in names[names.index(folded) :]:
        held = stages[name]
        if held is not None and "reply" in held:
            stages[name] = frozenset(TOGETHER) - (gone if name == folded else set())
    return replace(branch, stages=stages, bare=branch.bare - {"reply"})


def draw_stage(over: str, branch: Branch) -> str | None:
    """The stage whose draws `over` means: the one it names, else the nearest that drew several times, else the nearest."""
    named = over.rpartition(".")[0]
    if named:
        return named if named in branch.draws else None
    several = [stage for stage, count in branch.draws.items() if count > 1]
    drawn = several or list(branch.draws)
    return drawn[-1] if drawn else None


def joined(condition: Condition, siblings: Branches, branches: Branches) -> list[Condition]:
    """The conditions of a table that a row of `condition` would meet in a join; `siblings` are all that come in with it."""
    own = [sibling for branch in siblings for sibling in branch.conditions]
    return matching(condition, own, [other for branch in branches for other in branch.conditions])


def waits(stage: Stage) -> str:
    """What a stage waits for before it gives rows; "" when it streams."""
    match stage:
        case Retrieve(method="dense" | "bm25"):
            return "its corpus"
        case Fold():
            return "its group"
        case Pair():
            return "both rows"
        case Map(whole=True):
            return "all rows"
    return ""
