"""Files of other programs: each family is recognised by what is in it, and what is wrong is told with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judgerun.errors import Refused
from judgerun.files.foreign.read import read


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
    assert held.format == "spend-json"


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
