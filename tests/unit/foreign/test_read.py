"""Files of other programs: each family is recognised by what is in it, and what is wrong is told with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judgerun.errors import Refused
from judgerun.files.foreign.read import VERSION, read


def written(folder: Path, name: str, *records: object) -> Path:
    """A file of one JSON document, or of JSON lines."""
    path = folder / name
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n")
    return path


def test_a_spend_log_is_read_with_its_notes_and_totals(tmp_path: Path) -> None:
    """Role, condition and item stand in the note; an estimate says so; totals by provider are kept beside."""
    row = {"ts": 1.5, "model": "m", "provider": "p", "input_tokens": 3, "output_tokens": 4, "cost": 0.00125}
    calls = [{**row, "note": "solver none/q_1"}, {**row, "note": "embed corpus (estimate)"}]
    held = read([written(tmp_path, "SPEND.json", {"p": 0.0025, "reconstruction_note": "x", "calls": calls})], "old")
    first, second = held.calls
    assert (first.role, first.condition, first.item, first.cost, first.at) == ("solver", "none", "q_1", 1_250_000, 1.5)
    assert (second.role, second.estimated, first.estimated) == ("embed corpus (estimate)", True, False)
    assert [(total.name, total.cost) for total in held.totals] == [("p", 2_500_000)]
    assert held.format == f"spend-json/{VERSION}"


def test_caches_of_judges_and_solvers_are_read(tmp_path: Path) -> None:
    """A judge's line is one call with its value; a solver's is the solver's and its graders'."""
    judge = {
        "query_id": "q1",
        "raw_response": "3",
        "choice_idx": 3,
        "backend": "glm",
        "completion_tokens": 16,
        "capped": True,
    }
    solver = {
        "condition": "gold", "query_id": "q1", "solution": "", "completion_tokens": 9, "finish_reason": "length",
        "solver_cost": 0.001, "raw_a": "7", "score_a": 7, "correct_a": True, "raw_b": None, "score_b": 0, "correct_b": False,
    }  # fmt: skip
    held = read([written(tmp_path, "full_glm.jsonl", judge), written(tmp_path, "curve.jsonl", solver)], "old")
    first, second, third, fourth = held.calls
    assert (first.condition, first.value, first.finish, first.output) == ("glm", "3", "length", 16)
    assert (second.role, second.text, second.finish, second.cost) == ("solver", "", "length", 1_000_000)
    assert (third.role, third.value, third.extra) == ("grader-a", "7", {"correct": True})
    assert (fourth.role, fourth.value) == ("grader-b", "0")


def test_result_files_of_a_rewriting_study_are_read(tmp_path: Path) -> None:
    """Scores by query, texts with their fallbacks, verdict counts: each from its own document."""
    dense = {"model": "m", "per_query": {"1": 0.5}, "retrieval_mode": "dense", "condition": "terse", "generator": "g"}
    human = {"model": "m", "per_query": {"1": 0.25}, "retrieval_mode": "bm25", "condition": None, "generator": None}
    lost = {
        "condition": "terse",
        "generator": "g",
        "queries": {"1": "a"},
        "skipped": {},
        "model_versions": ["FALLBACK_ORIGINAL::g"],
    }
    told = {**lost, "skipped": {"1": "refused"}}
    counts = {"n": 4, "drifted": 1, "preserved": 2, "uncertain": 1, "judge": "j", "drift_rate": 0.33}
    audit = {"dataset": "d", "condition": "terse", "threshold": 0.15, "per_generator": {"g": counts}, "pooled": counts}
    paths = [
        written(tmp_path, f"{number}.json", document)
        for number, document in enumerate((dense, human, lost, told, audit))
    ]
    held = read(paths, "old")
    assert [(score.condition, score.system, score.value) for score in held.scores] == [
        ("terse/g", "m", 0.5),
        ("bm25:human", "m", 0.25),
    ]
    assert [(text.fallback, text.reason) for text in held.texts] == [(None, None), (True, "refused")]
    assert [(tally.subject, tally.counts["drifted"], tally.threshold) for tally in held.tallies] == [
        ("g", 1, 0.15),
        ("pooled", 1, 0.15),
    ]


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    """A line that is no JSON, a record of the wrong shape and a file of no family: all are named with file and place."""
    broken = tmp_path / "cache.jsonl"
    broken.write_text('{"query_id": "a", "raw_response": "1"}\n{"query_id":\n{"query_id": 7, "raw_response": "1"}\n')
    strange = written(tmp_path, "other.json", {"what": 1})
    with pytest.raises(Refused) as refused:
        read([broken, strange, tmp_path / "missing.json"], "old")
    places = [(problem.file.rpartition("/")[2], problem.place) for problem in refused.value.problems]
    assert places == [
        ("cache.jsonl", "line 2"),
        ("cache.jsonl", "line 3 query_id"),
        ("other.json", ""),
        ("missing.json", ""),
    ]


def test_a_folder_gives_what_it_has(tmp_path: Path) -> None:
    """Files of no family in a folder are left out; a folder without any is refused."""
    written(tmp_path, "other.json", {"what": 1})
    with pytest.raises(Refused, match="holds no record"):
        read([tmp_path], "old")
    written(tmp_path, "boards.json", {"qids": ["1", "2"], "human": {"m": [0.5, 0.25]}})
    assert [(score.item, score.value) for score in read([tmp_path], "old").scores] == [("1", 0.5), ("2", 0.25)]


def test_files_of_one_name_in_different_folders_are_all_read(tmp_path: Path) -> None:
    """Folders are read with all folders in them, each file once, under its path below what they have in common."""
    row = {"model": "m", "provider": "p", "input_tokens": 3, "output_tokens": 4, "cost": 0.5}
    for place, items in (("first", "ab"), ("second/deep", "c")):
        (tmp_path / place).mkdir(parents=True)
        calls = [{**row, "note": f"solver none/{item}"} for item in items]
        written(tmp_path / place, "SPEND.json", {"p": 0.5 * len(items), "calls": calls})
    for paths in ([tmp_path], [tmp_path / "first", tmp_path / "second/deep/SPEND.json", tmp_path / "first/SPEND.json"]):
        held = read(paths, "old")
        assert [(one.item, one.file) for one in held.calls] == [
            ("a", "first/SPEND.json"), ("b", "first/SPEND.json"), ("c", "second/deep/SPEND.json"),
        ]  # fmt: skip
        assert sorted(held.files) == ["first/SPEND.json", "second/deep/SPEND.json"]
        assert [total.files for total in held.totals] == [("first/SPEND.json",), ("second/deep/SPEND.json",)]
    assert list(read([tmp_path / "first/SPEND.json"], "old").files) == ["SPEND.json"]


RUN = "seq,phase,condition,query_id,solver_prompt_tokens,solver_completion_tokens,grader_a_prompt_tokens\n"
SUMMARY = {
    "header_totals_usd": {"m": 1},
    "pricing_usd_per_1m": {"m": [1.0, 1.0]},
    "model_by_kind": {"solver_utility_run": "m"},
}


def test_each_table_is_priced_by_the_summary_beside_it(tmp_path: Path) -> None:
    """Two reductions in two folders do not price each other; two summaries beside one table are a problem."""
    for folder, price in (("a", 1.0), ("b", 2.0)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.csv").write_text(f"{RUN}1,1,none,q,10,5,\n")
        written(tmp_path / folder, "sum.json", {**SUMMARY, "pricing_usd_per_1m": {"m": [price, price]}})
    held = read([tmp_path], "old")
    assert [one.cost for one in held.calls] == [15_000, 30_000]
    assert [total.files for total in held.totals] == [("a/run.csv",), ("b/run.csv",)]
    written(tmp_path / "a", "more.json", SUMMARY)
    with pytest.raises(Refused, match="has no one summary"):
        read([tmp_path], "old")


def test_problems_of_all_files_are_told(tmp_path: Path) -> None:
    """Documents that are no JSON, lines of which none is, tables with words for numbers, and lists of another length than their
    qids: one refusal names them all.
    """
    (tmp_path / "a.json").write_text('{"calls": [\n}')
    (tmp_path / "b.json").write_text("nothing")
    (tmp_path / "c.jsonl").write_text("{\n")
    (tmp_path / "d.csv").write_text(f"{RUN}1,1,none,q,many,5,\n2,1,none\n")
    written(tmp_path, "e.json", {"qids": ["1", "2"], "human": {"m": [0.5], "n": [0.1, 0.2], "o": ["x", 1]}})
    written(tmp_path, "f.json", {"qids": ["1", "2"], "human": {"m": [0.5], "n": [0.1, 0.2]}})
    (tmp_path / "g.csv").write_bytes(RUN.encode() + b"1,1,none,\xff,1,5,\n")
    with pytest.raises(Refused) as refused:
        read([tmp_path], "old")
    places = [(problem.file, problem.place) for problem in refused.value.problems]
    assert places == [
        ("a.json", "line 2"),
        ("b.json", "line 1"),
        ("c.jsonl", "line 1"),
        ("e.json", "human systems.o.0"),
        ("f.json", "human.m"),
        ("d.csv", "line 2 solver_prompt_tokens"),
        ("d.csv", "line 3 solver_prompt_tokens"),
        ("d.csv", "line 3 solver_completion_tokens"),
        ("d.csv", "line 3 grader_a_prompt_tokens"),
        ("g.csv", ""),
    ]


def test_a_cache_with_a_broken_first_line_is_a_cache(tmp_path: Path) -> None:
    """A first line that is no JSON is a problem of its own; the others are read, and theirs are told."""
    broken = tmp_path / "cache.jsonl"
    broken.write_text('{"query_id":\n{"query_id": "a", "raw_response": "1"}\n{"query_id": 7, "raw_response": "1"}\n')
    with pytest.raises(Refused) as refused:
        read([broken], "old")
    assert [problem.place for problem in refused.value.problems] == ["line 1", "line 3 query_id"]


def test_records_of_solvers_are_read(tmp_path: Path) -> None:
    """A list of records stands under the name of its file, lists by solver under theirs; what is capped ended by length."""
    record = {"condition": "gold", "query_id": "q", "prompt_tokens": 9, "completion_tokens": 64, "capped": True}
    paths = [
        written(tmp_path, "residual.json", [record]),
        written(tmp_path, "both.json", {"glm": [{**record, "finish_reason": "stop", "capped": False, "cost": 0.5}]}),
    ]
    first, second = read(paths, "old").calls
    assert (first.condition, first.source, first.finish) == ("residual/gold", "residual.json#[0]", "length")
    assert (second.condition, second.model, second.finish, second.cost) == ("glm/gold", "glm", "stop", 500_000_000)
    assert (second.role, second.input, second.output, second.source) == ("solver", 9, 64, "both.json#glm[0]")


def test_a_list_of_spend_rows_is_a_log(tmp_path: Path) -> None:
    """A log may be its rows alone; it states no totals."""
    row = {
        "ts": 1.5,
        "model": "m",
        "provider": "p",
        "input_tokens": 3,
        "output_tokens": 4,
        "cost": 0.5,
        "note": "grader-a x/q",
    }
    held = read([written(tmp_path, "sample.json", [row])], "old")
    assert [(one.role, one.item, one.at, one.source) for one in held.calls] == [
        ("grader-a", "q", 1.5, "sample.json#[0]")
    ]
    assert held.totals == ()


def test_a_head_states_totals_of_providers_and_of_all(tmp_path: Path) -> None:
    """A number under another name than that of a provider, or `total`, is no total."""
    row = {"model": "m", "provider": "p", "input_tokens": 3, "output_tokens": 4, "cost": 0.5, "note": "x"}
    head = {"p": 0.5, "total": 0.5, "note": 3, "total_rows": 1, "q": 0}
    held = read([written(tmp_path, "SPEND.json", {**head, "calls": [row]})], "old")
    assert [(total.name, total.cost) for total in held.totals] == [("p", 500_000_000), ("total", 500_000_000)]


def test_repeated_measurements_are_scores(tmp_path: Path) -> None:
    """Each measurement of a model on a dataset is a score of its own item."""
    one = {"model": "m", "dataset": "d", "scores": [0.5, 0.25], "range": 0.25}
    held = read([written(tmp_path, "noise_floor.json", {"structural": {"d": 0.01}, "empirical": [one]})], "old")
    assert [(score.condition, score.system, score.item, score.value) for score in held.scores] == [
        ("repeats/d", "m", "d 1", 0.5),
        ("repeats/d", "m", "d 2", 0.25),
    ]


def test_nan_is_no_number_and_no_fault_of_other_files(tmp_path: Path) -> None:
    """NaN, as Python writes it, in a file of no family hinders nothing; in a score or a cost it is a problem with its place."""
    written(tmp_path, "other.json", {"p": float("nan")})
    written(tmp_path, "boards.json", {"qids": ["1"], "human": {"m": [0.5]}})
    assert len(read([tmp_path], "old").scores) == 1
    row = {"model": "m", "input_tokens": 1, "output_tokens": 1, "cost": float("inf"), "note": "x"}
    written(tmp_path, "SPEND.json", {"calls": [row]})
    written(tmp_path, "dense.json", {"model": "m", "per_query": {"1": float("nan")}})
    with pytest.raises(Refused) as refused:
        read([tmp_path], "old")
    assert [(problem.file, problem.place) for problem in refused.value.problems] == [
        ("SPEND.json", "calls[0] cost"),
        ("dense.json", "per_query.1"),
    ]
