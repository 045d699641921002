"""The static walk against the plan: what `check` foretells is what the plan then makes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fakes.desk import MINIMAL, write_experiment
from judgerun.errors import Refused
from judgerun.files.experiment import Loaded, load_experiment
from judgerun.files.order import ordered
from judgerun.model.profile import Profile
from judgerun.plan.flow import Flow

TESTS = Path(__file__).parents[2]
FILES = [
    Path(__file__).parent / "full" / "experiment.toml",
    *sorted((TESTS / "examples").glob("prompts/*/experiment.toml")),
]


class Anywhere(dict[str, str]):
    """An environment in which every address is set."""

    def get(self, key: str, default: str | None = None) -> str:  # type: ignore[override]  # the default is never needed
        return "127.0.0.1"

    def __getitem__(self, key: str) -> str:
        return "http://127.0.0.1:9/v1"


def load(path: Path, environ: Mapping[str, str] | None = None) -> Loaded:
    return load_experiment(path, data_root=None, environ=Anywhere() if environ is None else environ)


def surveyed(loaded: Loaded) -> Flow:
    """The experiment planned with nothing in the cache."""
    profiles = {
        model.name: Profile(
            dialect=model.provider.dialect,
            adapter="test/1",
            embed=True,
            thinking=frozenset({"off", "low", "medium", "high", "tokens"}),
        )
        for model in loaded.experiment.models
    }
    flow = Flow(
        loaded.experiment,
        loaded.inputs,
        profiles=profiles,
        lookup=lambda key: None,
        matrix=lambda keys: np.zeros((len(keys), 2), np.float32),
        keep=True,
    )
    while flow.take() is not None:
        pass
    flow.finish()
    return flow


@pytest.mark.parametrize("path", FILES, ids=[path.parent.name for path in FILES])
def test_conditions_and_bounds_are_those_of_the_plan(path: Path) -> None:
    """Each stage that sends has exactly the conditions foretold, no more cells than the bound; no other table has a
    condition that was not foretold.
    """
    loaded = load(path)
    views = {view.name: view for view in loaded.views}
    flow = surveyed(loaded)
    planned: dict[str, dict[str, int]] = defaultdict(dict)
    for count in flow.counts():
        planned[count.stage][count.condition] = count.planned
    assert planned
    for stage, conditions in planned.items():
        assert set(conditions) == set(views[stage].conditions)
        assert sum(conditions.values()) <= views[stage].rows_max
    for known in loaded.experiment.stages:
        assert {row.condition.name for row in flow.rows(known.name)} <= set(views[known.name].conditions)


BURST = """
[[stage]]
name = "made"
kind = "explode"
from = "rate"
[[stage.rows]]
each = "items"
"""


@pytest.mark.parametrize(
    ("schema", "most"),
    [
        ('{"properties": {"items": {"type": "array", "maxItems": 4}}}', 4),
        ('{"properties": {"items": {"$ref": "#/$defs/list"}}, "$defs": {"list": {"type": "array", "maxItems": 3}}}', 3),
        ('{"properties": {"items": {"type": "array"}}}', None),
        ('{"properties": {"others": {"type": "array", "maxItems": 3}}}', None),
        ("{", None),
        ('{"type": "nothing"}', None),
    ],
)
def test_rows_of_a_reply_are_bounded_by_its_schema(tmp_path: Path, schema: str, most: int | None) -> None:
    """maxItems says how many rows a reply gives; without it, or without the path, the stage is refused."""
    toml = MINIMAL.replace('kind = "score", low = 1, high = 5', 'kind = "json", schema = "s.json"') + BURST
    path = write_experiment(tmp_path, toml, {"s.json": schema})
    if most is None:
        with pytest.raises(Refused):
            load(path)
        return
    views = {view.name: view for view in load(path).views}
    assert views["made"].rows_max == 2 * most


def test_at_most_bounds_replies_without_a_schema(tmp_path: Path) -> None:
    """`at_most` serves where there is no schema; with neither the stage is refused and says which would do."""
    toml = MINIMAL.replace('kind = "score", low = 1, high = 5', 'kind = "json"') + BURST
    with pytest.raises(Refused, match="maxItems in the schema, or at_most"):
        load(write_experiment(tmp_path / "a", toml))
    bounded = toml.replace("[[stage.rows]]", "at_most = 5\n[[stage.rows]]")
    assert {view.name: view.rows_max for view in load(write_experiment(tmp_path / "b", bounded)).views}["made"] == 10


def test_later_constructs_are_checked_and_then_refused(tmp_path: Path) -> None:
    """Sets keep their data from being read, and the only problem told is that they come later."""
    toml = MINIMAL.replace("seed = 7", 'seed = 7\nsets = ["one", "two"]').replace("items.jsonl", "{set}/items.jsonl")
    with pytest.raises(Refused) as caught:
        load(write_experiment(tmp_path, toml + '\n[set.one]\nhint = "short"\n'))
    assert [problem.wrong for problem in caught.value.problems] == ["sets come later"]
    with pytest.raises(Refused, match="no set 'on'"):
        load(write_experiment(tmp_path, toml + '\n[set.on]\nhint = "short"\n'))


def test_tables_of_other_experiments_are_asked_for(tmp_path: Path) -> None:
    """`stage = "other/made"` asks the given callable; without one, or when it refuses, that is a problem of the key."""
    toml = MINIMAL.replace('path = "items.jsonl"', 'stage = "other/made"\nsample = 1')
    path = write_experiment(tmp_path, toml)
    asked: list[str] = []
    table = load(write_experiment(tmp_path / "plain")).inputs.tables["items"]

    def stage_table(name: str) -> object:
        asked.append(name)
        return table

    loaded = load_experiment(path, data_root=None, environ={}, stage_table=stage_table)  # type: ignore[arg-type]  # a Table
    assert asked == ["other/made"]
    assert (loaded.inputs.tables["items"].name, len(loaded.inputs.tables["items"])) == ("items", 1)
    with pytest.raises(Refused, match=r"data\.items\.stage"):
        load(path)


def test_stages_are_sorted_and_circles_named() -> None:
    """Every stage stands after what it needs, else in the order of the file; a circle is told as the way around."""
    assert ordered({"c": ["b", "rows"], "a": [], "b": ["a"]}) == (["a", "b", "c"], [])
    _, circles = ordered({"a": ["b"], "b": ["c"], "c": ["a"], "d": []})
    assert circles == [["a", "b", "c", "a"]]
