"""One stage as written -> its frozen value; what can be told of a stage alone is checked here."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from judgerun.files.arms import Shelf, read_arms
from judgerun.files.expressions import Wrong, of_expression
from judgerun.files.faults import Faults, hint
from judgerun.files.kinds import (
    KIND_WORDS,
    KINDS,
    RANKS,
    ChatShape,
    DenseShape,
    EmbedShape,
    ExplodeShape,
    FedShape,
    FoldShape,
    FusedShape,
    JoinShape,
    LexicalShape,
    MapShape,
    PairShape,
    RankShape,
    StageShape,
    VariantShape,
    WordsShape,
)
from judgerun.files.lines import Path as KeyPath
from judgerun.files.names import identifier, twice
from judgerun.model.experiment import (
    Canaries,
    Chat,
    Embed,
    Explode,
    ExplodeRows,
    Fold,
    Join,
    Map,
    Pair,
    Retrieve,
    Stage,
    TextOf,
    Variant,
)
from judgerun.model.reply import Finish
from judgerun.retrieval import bm25, lexical
from judgerun.retrieval.metrics import metric

ADMISSIBLE = (*(finish.value for finish in Finish), "empty")
_ORDER = re.compile(r"given|reversed|(?:shuffled|rotated):[1-9][0-9]*|ab|ba")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The names that a stage may use."""

    tables: Collection[str]  # data tables and stages, wrong ones too
    golds: Collection[str]
    shelf: Shelf


def read_stage(faults: Faults, path: KeyPath, raw: Mapping[str, Any], known: Known) -> Stage | None:
    """The stage, or None with every problem noted."""
    shape = _shape(faults, path, raw)
    if shape is None:
        return None
    before = len(faults.problems)
    _check_common(faults, path, shape, known)
    stage = _built(faults, path, shape, known)
    return stage if len(faults.problems) == before else None


def _shape(faults: Faults, path: KeyPath, raw: Mapping[str, Any]) -> StageShape | None:
    kind = raw.get("kind")
    if kind not in KIND_WORDS:
        wrong = "the key 'kind' is missing" if kind is None else f"there is no kind of stage {kind!r}"
        faults.add(path if kind is None else (*path, "kind"), wrong, hint(str(kind or ""), KIND_WORDS))
        return None
    if kind != "retrieve":
        return faults.read(KINDS[kind], raw, path, mend=True)
    method = raw.get("method")
    if method not in RANKS:
        wrong = "the key 'method' is missing" if method is None else f"there is no method {method!r}"
        faults.add(path if method is None else (*path, "method"), wrong, hint(str(method or ""), RANKS))
        return None
    return faults.read(RANKS[method], raw, path, mend=True)


def _check_common(faults: Faults, path: KeyPath, shape: StageShape, known: Known) -> None:
    for word in getattr(shape, "admit", ()):
        if word not in ADMISSIBLE:
            faults.add((*path, "admit"), f"{word!r} is no finish", hint(word, ADMISSIBLE))
    for name in feeds_of(shape):
        if name not in known.tables:
            faults.unknown((*path, "from" if hasattr(shape, "from_") else "fuse"), "table", name, known.tables)
    golds = getattr(shape, "gold", ())
    for name in golds:
        if name not in known.golds:
            faults.unknown((*path, "gold"), "gold", name, known.golds)


def _check_join(faults: Faults, path: KeyPath, name: str, join: JoinShape, known: Known) -> None:
    identifier(faults, path, "join", name)
    if join.table not in known.tables:
        faults.unknown((*path, "table"), "table", join.table, known.tables)
    if join.gold is not None and join.gold not in known.golds:
        faults.unknown((*path, "gold"), "gold", join.gold, known.golds)
    if join.gold is not None and join.by is not None:
        faults.add((*path, "by"), "by and gold are both given", "gold finds the document itself")


def feeds_of(shape: StageShape) -> list[str]:
    """The tables that `from` or `fuse` names; those of queries and corpus are found in their expressions."""
    match shape:
        case FusedShape():
            return shape.fuse
        case DenseShape():
            return [shape.from_]
        case FedShape() | LexicalShape():
            return shape.from_
        case _:
            return []


def _built(faults: Faults, path: KeyPath, shape: StageShape, known: Known) -> Stage | None:
    base = _base(shape)
    match shape:
        case ChatShape():
            return _chat(faults, path, shape, known, base)
        case EmbedShape():
            return _embed(faults, path, shape, known, base)
        case RankShape():
            return _retrieve(faults, path, shape, known, base)
        case ExplodeShape():
            rows = tuple(ExplodeRows(each=tuple(row.each), fields=row.fields) for row in shape.rows)
            return Explode(**base, rows=rows, at_most=shape.at_most)
        case PairShape():
            return Pair(**base, by=shape.by, of=shape.of, against=shape.against)
        case FoldShape():
            return _fold(faults, path, shape, base)
        case MapShape():
            if shape.call.count(":") != 1:
                faults.add(
                    (*path, "call"), f"{shape.call!r} names no function", '"rows:label" or "package.module:function"'
                )
            return Map(**base, call=shape.call, whole=shape.whole, rows_max=shape.rows_max or 1)
    return None


def _base(shape: StageShape) -> dict[str, Any]:
    return {
        "name": shape.name,
        "kind": shape.kind,
        "feeds": tuple(feeds_of(shape)),
        "joins": joins_of(getattr(shape, "with_", {})),
        "where": shape.where,
        "sample": shape.sample,
        "slices": tuple(shape.slices),
        "gold": tuple(getattr(shape, "gold", ())),
        "expect": getattr(shape, "expect", None),
        "admit": tuple(getattr(shape, "admit", ("stop",))),
        "missing": getattr(shape, "missing", "drop"),
        "write": shape.write,
    }


def joins_of(written: Mapping[str, JoinShape]) -> tuple[Join, ...]:
    """Joins as the core holds them: by the id where nothing else is said, the best document where only gold is."""
    return tuple(
        Join(
            name=name,
            table=join.table,
            by=(join.by or "id") if join.gold is None else None,
            gold=join.gold,
            rank=1 if join.gold is not None and join.rank is None else join.rank,
        )
        for name, join in written.items()
    )


def _chat(faults: Faults, path: KeyPath, shape: ChatShape, known: Known, base: dict[str, Any]) -> Chat:
    _check_later(faults, path, shape)
    if not shape.from_:
        faults.add((*path, "from"), "from names no table", "the table whose rows are asked about")
    for name, join in shape.with_.items():
        _check_join(faults, (*path, "with", name), name, join, known)
    variants = tuple(_variants(faults, path, shape, known)) or (Variant(),)
    arms = read_arms(faults, path, shape, known.shelf)
    for arm in arms:
        for order in arm.settings.orders:
            if not _ORDER.fullmatch(order):
                faults.add(
                    (*path, "orders"), f"there is no order {order!r}", "given, reversed, shuffled:K, rotated:K, ab, ba"
                )
        for order in twice(arm.settings.orders):
            faults.add((*path, "orders"), f"the order {order!r} stands twice", "each once")
        for name in arm.settings.gold:
            if name not in known.golds:
                faults.unknown((*path, "gold"), "gold", name, known.golds)
        for word in arm.settings.admit:
            if word not in ADMISSIBLE:
                faults.add((*path, "admit"), f"{word!r} is no finish", hint(word, ADMISSIBLE))
    return Chat(**base, arms=arms, variants=variants, canaries=_canaries(faults, path, shape))


def _canaries(faults: Faults, path: KeyPath, shape: ChatShape) -> Canaries | None:
    if shape.canaries is None:
        return None
    rate = shape.canaries.rate
    if not 0 < rate < 1:
        faults.add((*path, "canaries"), f"{rate} is no share", "between 0 and 1")
    return Canaries(rate=rate, reference=shape.canaries.reference)


def _variants(faults: Faults, path: KeyPath, shape: ChatShape, known: Known) -> list[Variant]:
    variants = []
    for name, raw in shape.variant.items():
        here = (*path, "variant", name)
        identifier(faults, here, "variant", name)
        read = faults.read(VariantShape, raw, here)
        if read is not None:
            for join_name, join in read.with_.items():
                _check_join(faults, (*here, "with", join_name), join_name, join, known)
                if join_name in shape.with_:
                    faults.add((*here, "with", join_name), f"the stage itself joins a {join_name!r}", "another name")
            variants.append(Variant(name=name, joins=joins_of(read.with_)))
    return variants


def _check_later(faults: Faults, path: KeyPath, shape: ChatShape) -> None:
    """Constructs that are read and checked now, and run with their own issue."""
    if shape.panel is not None and shape.lineage is None:
        faults.add((*path, "panel"), "panel needs lineage", 'lineage = "other"')
    if shape.rounds is not None and shape.rounds.until is not None:
        try:
            of_expression(shape.rounds.until)
        except Wrong as error:
            faults.add((*path, "rounds", "until"), str(error))
    for key in ("lineage", "panel", "rounds"):
        if getattr(shape, key) is not None:
            faults.add((*path, key), f"{key} comes later", "it is read and checked now, and runs with its own issue")


def _embed(faults: Faults, path: KeyPath, shape: EmbedShape, known: Known, base: dict[str, Any]) -> Embed:
    models = []
    for name in twice(shape.models):
        faults.add((*path, "models"), f"the model {name!r} is named twice", "each once")
    for name in shape.models:
        if name not in known.shelf.models:
            faults.unknown((*path, "models"), "model", name, known.shelf.models)
        elif (model := known.shelf.models[name]) is not None:
            models.append(model)
    if not shape.models:
        faults.add((*path, "models"), "no model is named", "at least one embedder")
    queries, corpus = _texts(faults, path, shape, known)
    if not queries and corpus is None and shape.queries == [] and shape.corpus is None:
        faults.add(path, "there is nothing to embed", "queries, corpus, or both")
    return Embed(**_fed(base, queries, corpus), models=tuple(models), queries=queries, corpus=corpus)


def _texts(
    faults: Faults, path: KeyPath, shape: EmbedShape | WordsShape, known: Known
) -> tuple[tuple[TextOf, ...], TextOf | None]:
    read = [_text_of(faults, (*path, "queries"), text, known) for text in shape.queries]
    queries = tuple(text for text in read if text is not None)
    for table in twice(text.table for text in queries):
        faults.add((*path, "queries"), f"the table {table!r} stands twice", "one expression for each table")
    corpus = None if shape.corpus is None else _text_of(faults, (*path, "corpus"), shape.corpus, known)
    return queries, corpus


def _text_of(faults: Faults, path: KeyPath, text: str, known: Known) -> TextOf | None:
    """The one table over which an expression stands."""
    try:
        names = of_expression(text).names
    except Wrong as error:
        faults.add(path, f"{text!r} is no expression: {error}")
        return None
    tables = sorted(names & set(known.tables))
    others = sorted(names - set(known.tables))
    if others:
        faults.unknown(path, "table", others[0], known.tables)
    elif len(tables) != 1:
        faults.add(path, f"{text!r} names {len(tables)} tables", 'one, such as "problems.text"')
    return TextOf(table=tables[0], expression=text) if len(tables) == 1 and not others else None


def _fed(base: dict[str, Any], queries: tuple[TextOf, ...], corpus: TextOf | None) -> dict[str, Any]:
    tables = [text.table for text in queries] + ([corpus.table] if corpus is not None else [])
    return {**base, "feeds": tuple(dict.fromkeys(tables))}


def _retrieve(faults: Faults, path: KeyPath, shape: RankShape, known: Known, base: dict[str, Any]) -> Retrieve:
    k = shape.k or 10
    for name in shape.metrics:
        depth = name.partition("@")[2]
        try:
            metric(name)
        except ValueError as error:
            faults.add((*path, "metrics"), str(error))
            continue
        if depth and int(depth) > k and (shape.k is not None or not isinstance(shape, LexicalShape)):
            faults.add((*path, "metrics"), f"{name} looks below the {k} that are ranked", f"k = {depth}")
    if shape.metrics and not shape.gold:
        faults.add((*path, "metrics"), "metrics need a gold to be scored against", "gold = [...]")
    keys: dict[str, Any] = {"method": shape.method, "k": k, "metrics": tuple(shape.metrics)}
    match shape:
        case WordsShape():
            queries, corpus = _texts(faults, path, shape, known)
            _check_options(faults, path, shape.options)
            return Retrieve(
                **_fed(base, queries, corpus), **keys, queries=queries, corpus=corpus, options=shape.options
            )
        case FusedShape():
            if len(shape.fuse) < 2 or twice(shape.fuse):
                faults.add((*path, "fuse"), "rrf fuses two or more different rankings", 'fuse = ["dense", "words"]')
            if shape.depth < k:
                faults.add((*path, "depth"), f"a depth of {shape.depth} cannot give {k} documents", f"at least {k}")
            return Retrieve(**base, **keys, depth=shape.depth, rrf_k=shape.rrf_k)
        case LexicalShape():
            _check_words(faults, path, shape)
            return Retrieve(
                **base,
                **keys,
                query=shape.query,
                candidate=shape.candidate,
                vocabulary=None if shape.vocabulary is None else frozenset(shape.vocabulary),
                stopwords=frozenset(shape.stopwords),
            )
    return Retrieve(**base, **keys)


def _check_words(faults: Faults, path: KeyPath, shape: LexicalShape) -> None:
    """Words that could never count: of a list that is empty, not as texts are cut into words, or left out again."""
    for key, held in (("vocabulary", shape.vocabulary), ("stopwords", shape.stopwords)):
        if key in shape.model_fields_set and not held:
            faults.add((*path, key), "the list is empty", "words, or no such key")
        for word in held or ():
            if lexical.words(word) != {word}:
                faults.add(
                    (*path, key), f"{word!r} is not a word of a lower-cased text", "one run of letters and digits"
                )
    for word in sorted({*(shape.vocabulary or ())} & {*shape.stopwords}):
        faults.add((*path, "stopwords"), f"{word!r} stands in the vocabulary, too", "one of the two lists")


def _check_options(faults: Faults, path: KeyPath, options: Mapping[str, Any]) -> None:
    try:
        bm25.options(options)
    except ValueError as error:
        faults.add((*path, "options"), str(error))


def _fold(faults: Faults, path: KeyPath, shape: FoldShape, base: dict[str, Any]) -> Fold:
    coordinate = shape.over.rpartition(".")[2]
    if shape.by is not None and shape.over != "rows":
        faults.add((*path, "by"), "by groups rows", 'over = "rows"')
    if shape.otherwise is not None and shape.rule not in ("majority", "agree"):
        faults.add((*path, "otherwise"), f"the rule {shape.rule!r} has no otherwise", "majority or agree")
    if coordinate == "condition":
        faults.add((*path, "over"), "a table's own conditions are compared, not folded", "a pair stage or a question")
    return Fold(
        **base,
        over=shape.over,
        by=shape.by,
        value=shape.value[0] if len(shape.value) == 1 else tuple(shape.value),
        rule=shape.rule,
        at_least=shape.at_least,
        otherwise=shape.otherwise,
    )
