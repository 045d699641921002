"""Claims that a study printed, held against the files that it published: those that are false are found, and no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from judgerun.api.claims import check
from judgerun.api.project import Workspace

DATA = Path(os.environ.get("JUDGERUN_DATA", ""))
FOLDER = DATA / "structural-retrieval"
pytestmark = pytest.mark.skipif(
    not os.environ.get("JUDGERUN_DATA") or not FOLDER.is_dir(),
    reason="JUDGERUN_DATA does not name a folder with structural-retrieval/",
)

AT = '["surface_form", "MiniLM-L6-v2", "adjective", "delta"]'
CLAIMS = """
[[sum]]
name = "goals, old and new"
parts = [40, 78]
total = 118
[[change]]
name = "adjectives"
before = "13.6"
after = "45.5"
change = "18.2"
[[change]]
name = "adjectives, as they are"
before = "13.6"
after = "45.5"
change = "31.8"
[[number]]
name = "adjectives, printed"
value = "18.2"
file = "{folder}/task1_expanded_full_results.json"
at = {at}
times = 100
[[number]]
name = "adjectives, found"
value = "31.8"
file = "{folder}/task1_expanded_full_results.json"
at = {at}
times = 100
[[number]]
name = "share of the gap"
value = "42.6"
file = "{folder}/task_traj_reranker_n118.json"
at = ["labembed-Qwen3-8B", "gemini-3.1-flash-lite/pooled", "share_closed_pct"]
[[percent]]
name = "hit@1"
values = {{ before = "17.8", after = "37.3", glm = "49.2", never = "37.4" }}
of = 118
[[percent]]
name = "misses"
values = {{ sibling = "85.1", near = "13.5", other = "1.4" }}
of = 74
[[same]]
name = "finished = correct"
a = {finished}
b = {correct}
"""


def test_what_a_study_printed_falsely_is_found(tmp_path: Path) -> None:
    """A slice printed as +18.2 points is +31.8 in its own file; 146 answers that finished are not the 146 that are right."""
    alike = [f"q{n}" for n in range(144)]
    path = tmp_path / "claims.toml"
    path.write_text(
        CLAIMS.format(folder=FOLDER.resolve(), at=AT, finished=[*alike, "f1", "f2"], correct=[*alike, "c1", "c2"])
    )
    found = {one.name: one.wrong for one in check(Workspace(root=tmp_path), path) if one.wrong}
    assert found == {
        "adjectives": "13.6 -> 45.5 is +31.9, not 18.2",
        "adjectives, printed": "it is 31.8, not 18.2",
        "hit@1: never": "no whole number of 118 gives 37.4% (44 of 118 is 37.3%, 45 of 118 is 38.1%)",
        "finished = correct": "both have 146, and they differ; only the first: f1, f2; only the second: c1, c2",
    }
