"""Ranking: dense against its corpus, words, lexical, fusion; what is missing is told, not ranked around."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fakes.tables import Lab, Rows, arm, chat, counts, kept, model, numbered, text_of
from judgerun.model.experiment import Embed, Explode, ExplodeRows, Map, ParseRule, Retrieve, TextOf
from judgerun.model.kept import Kept, Lost
from judgerun.model.request import Request
from judgerun.model.rows import Gold

DOCS = numbered("corpus", 6, text=lambda n: f"vector {n}", title=lambda n: f"title {n}")
QUERIES = Rows("rows", [{"id": f"q{n}", "text": f"vector {n}"} for n in range(4)])


def vector_of(text: str) -> bytes:
    """Texts of one number stand in one direction, neighbours near it."""
    at = float(text.split()[-1])
    return np.array([np.cos(at / 4), np.sin(at / 4)], dtype="<f4").tobytes()


def embeds(request: Request) -> Kept | Lost:
    """Vectors for texts, ok for the rest."""
    if request.kind == "embed":
        return kept("", vector=vector_of(text_of(request)))
    return kept("ok then")


def embed(*models: str, queries: tuple[str, ...] = ("rows.text",), corpus: str = "corpus.text", **given: Any) -> Embed:
    """An embed stage."""
    texts = tuple(TextOf(table=query.split(".")[0], expression=query) for query in queries)
    held = TextOf(table=corpus.split(".")[0], expression=corpus)
    feeds = (*(text.table for text in texts), held.table)
    return Embed(
        name="vectors",
        kind="embed",
        feeds=feeds,
        models=tuple(model(name) for name in models),
        queries=texts,
        corpus=held,
        **given,
    )


def retrieve(name: str, method: Any, *feeds: str, **given: Any) -> Retrieve:
    """A retrieve stage."""
    return Retrieve(**{"name": name, "kind": "retrieve", "feeds": feeds, "method": method, "k": 3, **given})


def words(*queries: str) -> Retrieve:
    """A ranking by words."""
    texts = tuple(TextOf(table=query.split(".")[0], expression=query) for query in queries)
    return retrieve(
        "words",
        "bm25",
        *(text.table for text in texts),
        "corpus",
        queries=texts,
        corpus=TextOf(table="corpus", expression="corpus.text"),
    )


def found(flow: Any, stage: str) -> dict[tuple[str, str], list[str]]:
    """Candidate ids by condition and row."""
    return {
        (row.condition.name, row.id): [c.id for c in row.stages[stage].candidates or ()]
        for row in flow.rows(stage)
        if row.state == "live"
    }


def test_dense_ranks_when_its_corpus_is_whole() -> None:
    """Each model ranks against its own corpus; candidates show their fields; scores come by gold and metric."""
    lab = Lab(
        stages=[
            embed("e1", "e2"),
            retrieve("top", "dense", "vectors", gold=("easy",), metrics=("hit@1", "mrr")),
            chat("pick", "top", arm("m", "p", "{% for c in candidates %}{{ c.rank }} {{ c.title }};{% endfor %}")),
        ],
        tables=[QUERIES, DOCS],
        golds=[Gold("easy", {"q0": {"p0": 1}, "q1": {"p2": 1}})],
        answer=embeds,
    )
    assert counts(lab.survey()) == {
        "vectors/e1@corpus": (6, 0, 0, 6),
        "vectors/e2@corpus": (6, 0, 0, 6),
        "vectors/e1@rows": (4, 0, 0, 4),
        "vectors/e2@rows": (4, 0, 0, 4),
        "pick/m/p@top@vectors/e1@rows": (4, 0, 0, 4),
        "pick/m/p@top@vectors/e2@rows": (4, 0, 0, 4),
    }
    flow = lab.whole(pick=lambda n: n // 3)
    assert found(flow, "top")["top@vectors/e1@rows", "q2"][0] == "p2"
    assert set(found(flow, "top")["top@vectors/e1@rows", "q2"]) == {"p1", "p2", "p3"}
    scores = {row.id: row.stages["top"].scores for row in flow.rows("top") if row.condition.get("model") == "e1"}
    assert scores["q0"] == {"easy.hit_1": 1.0, "easy.mrr": 1.0}
    assert scores["q1"]["easy.hit_1"] == 0.0
    assert scores["q3"] == {"easy.hit_1": None, "easy.mrr": None}
    shown = {text_of(cell.request) for cell in lab.sent if cell.stage == "pick" and cell.id == "q0"}
    assert shown == {"1 title 0;2 title 1;3 title 2;"}


def test_nothing_is_ranked_against_half_a_corpus() -> None:
    """While a document has no vector the rankings are pending; when it is lost they fail, for that model alone."""

    def answer(request: Request) -> Kept | Lost:
        if text_of(request) == "vector 5" and request.payload["model"] == "id-e2":
            return Lost("too long")
        return embeds(request)

    lab = Lab(
        stages=[
            embed("e1", "e2"),
            retrieve("top", "dense", "vectors"),
            chat("pick", "top", arm("m", "p", "{{ text }}")),
        ],
        tables=[QUERIES, DOCS],
        answer=answer,
    )
    half = lab.run(most=9)
    half.finish()
    assert {state for row in half.rows("top") for state in [row.state]} == {"pending"}
    flow = lab.whole()
    assert counts(flow)["pick/m/p@top@vectors/e1@rows"] == (4, 4, 0, 0)
    assert counts(flow)["pick/m/p@top@vectors/e2@rows"] == (4, 0, 4, 0)
    assert flow.counts()[-1].reasons == {"upstream failed: 1 corpus text has no vector": 4}


def test_a_limited_run_can_rank() -> None:
    """A few blocks of queries and the whole corpus are enough for their judges."""
    lab = Lab(
        stages=[embed("e1"), retrieve("top", "dense", "vectors"), chat("pick", "top", arm("m", "p", "{{ text }}"))],
        tables=[QUERIES, DOCS],
        answer=embeds,
    )
    assert counts(lab.whole(limit=2))["pick/m/p@top@vectors/e1@rows"] == (4, 2, 0, 2)


def test_an_empty_text_is_no_text() -> None:
    """White space alone fails, unsent; an instruction in front of it does not hide that; equal texts share a vector."""
    table = Rows("rows", [{"id": "a", "text": "vector 1"}, {"id": "b", "text": "  "}, {"id": "c", "text": "vector 1"}])
    stage = embed("e1")
    stage = Embed(
        name="vectors",
        kind="embed",
        feeds=stage.feeds,
        models=(model("e1", instruction={"query": "find: "}),),
        queries=stage.queries,
        corpus=stage.corpus,
    )
    lab = Lab(stages=[stage], tables=[table, DOCS], answer=embeds)
    flow = lab.whole()
    held = next(held for held in flow.counts() if held.condition == "vectors/e1@rows")
    assert (held.planned, held.done, held.failed, held.shared) == (3, 2, 1, 1)
    assert held.reasons == {"empty text": 1}
    asked = {text_of(cell.request) for cell in lab.sent if cell.condition == "vectors/e1@rows"}
    assert asked == {"find: vector 1"}


def test_a_null_is_no_text() -> None:
    """A blank cell of a CSV fails, unsent: nobody wants the vector of the word None."""
    table = Rows("rows", [{"id": "a", "text": "vector 1"}, {"id": "b", "text": None}])
    lab = Lab(stages=[embed("e1")], tables=[table, DOCS], answer=embeds)
    held = next(held for held in lab.whole().counts() if held.condition == "vectors/e1@rows")
    assert (held.planned, held.done, held.failed) == (2, 1, 1)
    (reason,) = held.reasons
    assert "null" in reason


def test_words_rank_without_calls() -> None:
    """BM25 needs no reply; a query that shares no word has an empty ranking, which no judge is shown."""
    table = Rows("rows", [{"id": "q", "text": "title 3 or vector 3"}, {"id": "none", "text": "zzz"}])
    lab = Lab(
        stages=[words("rows.text"), chat("pick", "words", arm("m", "p", "{{ candidates[0].id }}"))],
        tables=[table, DOCS],
    )
    flow = lab.whole()
    assert found(flow, "words")["words@rows", "q"][0] == "p3"
    assert found(flow, "words")["words@rows", "none"] == []
    assert counts(flow) == {"pick/m/p@words@rows": (2, 1, 1, 0)}
    assert flow.counts()[0].reasons == {"upstream found nothing": 1}


@pytest.mark.parametrize(
    ("more", "first"),
    [
        ({}, "d0"),
        ({"vocabulary": frozenset({"heat", "cool"})}, "d1"),
        ({"stopwords": frozenset({"the", "egg", "in", "pan"})}, "d1"),
    ],
)
def test_a_lexical_stage_ranks_by_the_words_that_count(more: dict[str, Any], first: str) -> None:
    """All words favour the same object; the verbs alone, or all but the others, the same deed."""
    tasks = ("cool the egg in the pan", "heat water", "wash hands")
    docs = Rows("corpus", [{"id": f"d{n}", "text": f"vector {n}", "task": task} for n, task in enumerate(tasks)])
    lab = Lab(
        stages=[
            embed("e1"),
            retrieve("top", "dense", "vectors"),
            retrieve("lexical", "lexical", "top", query="want", candidate="task", **more),
        ],
        tables=[Rows("rows", [{"id": "q", "text": "vector 2", "want": "heat the egg in the pan"}]), docs],
        answer=embeds,
    )
    flow = lab.whole()
    assert found(flow, "lexical")["lexical@top@vectors/e1@rows", "q"][0] == first


def test_lexical_reorders_the_candidates() -> None:
    """The same documents by surface similarity; their scores are the new ones."""
    docs = Rows(
        "corpus", [{"id": f"d{n}", "text": f"vector {n}", "task": "abc" if n == 2 else "xyz"} for n in range(4)]
    )
    lab = Lab(
        stages=[
            embed("e1"),
            retrieve("top", "dense", "vectors"),
            retrieve("lexical", "lexical", "top", query="want", candidate="task", gold=("easy",), metrics=("hit@1",)),
            chat("pick", "lexical", arm("m", "p", "{{ candidates[0].id }} {{ candidates[0].task }}")),
        ],
        tables=[Rows("rows", [{"id": "q", "text": "vector 0", "want": "abc"}]), docs],
        golds=[Gold("easy", {"q": {"d2": 1}})],
        answer=embeds,
    )
    flow = lab.whole()
    assert found(flow, "top")["top@vectors/e1@rows", "q"] == ["d0", "d1", "d2"]
    assert found(flow, "lexical")["lexical@top@vectors/e1@rows", "q"] == ["d2", "d0", "d1"]
    (row,) = flow.rows("lexical")
    assert row.stages["lexical"].scores == {"easy.hit_1": 1.0}
    assert [c.rank for c in row.stages["lexical"].candidates or ()] == [1, 2, 3]
    assert "d2 abc" in {text_of(cell.request) for cell in lab.sent if cell.stage == "pick"}


def test_fusion_joins_arms_and_broadcasts_what_one_lacks() -> None:
    """Words know no embedder: their ranking of a form meets that of both embedders of the same form, of no other."""

    def answer(request: Request) -> Kept | Lost:
        if request.kind == "embed":
            return embeds(request)
        return kept("vector 5" if request.payload["model"] == "id-g" else "vector 4")

    lab = Lab(
        stages=[
            chat("form", "rows", arm("g", "p", "rewrite {{ text }}"), arm("h", "p", "rewrite {{ text }}")),
            embed("e1", "e2", queries=("rows.text", "form.value")),
            retrieve("dense", "dense", "vectors"),
            words("rows.text", "form.value"),
            retrieve("both", "rrf", "words", "dense", depth=3),
        ],
        tables=[QUERIES, DOCS],
        answer=answer,
    )
    flow = lab.whole(pick=lambda n: n // 2)
    both = found(flow, "both")
    assert len(both) == 4 * 3 * 2
    assert both["both@dense@vectors/e2@form/g/p@rows", "q1"][0] == "p5"
    assert both["both@dense@vectors/e2@form/h/p@rows", "q1"][0] == "p4"
    assert both["both@dense@vectors/e1@rows", "q1"][0] == "p1"
    row = next(row for row in flow.rows("both") if row.condition.name.startswith("both@dense@vectors/e1@form/g"))
    assert set(row.stages) == {"form", "vectors", "dense", "words", "both"}


def test_a_stage_can_be_a_corpus() -> None:
    """Documents that a map makes of replies are embedded and ranked once all of them are there."""
    schema = {"properties": {"docs": {"type": "array", "maxItems": 2}}}
    lab = Lab(
        stages=[
            chat("write", "topics", arm("g", "p", "write {{ id }}", parse=ParseRule(kind="json", schema=schema))),
            Explode(
                name="texts",
                kind="explode",
                feeds=("write",),
                rows=(ExplodeRows(each=("docs",), fields={"role": "d"}),),
            ),
            Map(name="docs", kind="map", feeds=("texts",), call="f", rows_max=1),
            embed("e1", corpus="docs.text"),
            retrieve("top", "dense", "vectors"),
            chat("pick", "top", arm("m", "q", "{{ candidates[0].text }}")),
        ],
        tables=[QUERIES, numbered("topics", 3)],
        functions={"f": lambda row: {"text": row["texts"]["value"]}},
        answer=lambda request: (
            kept(json.dumps({"docs": [f"vector {text_of(request)[-1]}", "vector 9"]}))
            if text_of(request).startswith("write")
            else embeds(request)
        ),
    )
    assert counts(lab.survey())["vectors/e1@docs@texts@write/g/p@topics"] == (6, 0, 0, 6)
    flow = lab.whole(pick=lambda n: n // 2)
    assert found(flow, "top")["top@vectors/e1@rows", "q2"][0] == "p2/d.1"
    assert {text_of(cell.request) for cell in lab.sent if cell.stage == "pick"} == {"vector 0", "vector 1", "vector 2"}


def test_cells_behind_a_ranking_keep_step_with_those_that_need_none() -> None:
    """A stop after any number of cells leaves a judge of ranked rows and a solver of the same rows with the same items."""
    items = Rows("rows", [{"id": f"q{n}", "text": f"vector {n}"} for n in range(12)])
    judge = chat("pick", "words", arm("m", "p", "{{ text }} of {{ candidates | length }}"))
    solve = chat("solve", "rows", arm("m", "p", "{{ text }}"))
    lab = Lab([words("rows.text"), judge, solve], [items, DOCS])
    flow = lab.flow()
    taken: dict[str, list[str]] = {"pick": [], "solve": []}
    while (cell := flow.take()) is not None:
        taken[cell.stage].append(cell.block)
        assert abs(len(taken["pick"]) - len(taken["solve"])) <= 1, taken
    assert taken["pick"] == taken["solve"]
    assert len(taken["pick"]) == 12
