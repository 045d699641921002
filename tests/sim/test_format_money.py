"""FORMAT section 3 through the commands: every table of a budget, prices of one's own, what a misspelt cap is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.place import HEAD, Place, at_home, lines, stated
from fakes.simulator import Simulator, simulator

TEXT = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "pick"
kind = "judge"
from = "t"
models = ["one", "two"]
prompts = ["p", "q"]
parse = { kind = "json", value = "v" }
"""
PROMPT = "{{ id }}\n" + stated(v=1)
FILES = {"t.jsonl": lines(*({"id": f"r{n}"} for n in range(10))), "p.md": PROMPT, "q.md": "Q " + PROMPT}
ARMS = tuple(f"pick/{model}/{prompt}@t" for model in ("one", "two") for prompt in ("p", "q"))
LARGE = 'total = "10"\nconfirm_above = "100"\n'
HOLD = "0.0007"  # a little above one worst case (about 0.00067): the first call fits, few more do
OWN = HEAD.replace('price = { input = "1", output = "2" }\n', "")


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """One simulated provider for all tests of the module."""
    with simulator(tmp_path_factory.mktemp("provider") / "bill.jsonl", seed=1) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path, provider: Simulator) -> Place:
    """A workspace with four conditions of ten cells."""
    at_home(provider.url)
    place = Place(tmp_path)
    place.write(TEXT, FILES)
    return place


@pytest.mark.parametrize(
    ("table", "stopped"),
    [
        ("[calls]\ntotal = 7\n", ARMS),
        ("[calls.provider]\nsim = 5\n", ARMS),
        ("[calls.stage]\npick = 5\n", ARMS),
        ("[calls.experiment]\nx = 5\n", ARMS),
        ("[calls.day]\ntotal = 5\n", ARMS),
        ('[calls.condition]\n"pick/one/q" = 2\n', ARMS[1:2]),
        ('[calls.condition]\n"pick/one" = 3\n', ARMS[:2]),
        ('[calls.condition]\n"*/q@t" = 3\n', (ARMS[1], ARMS[3])),
        ("[tokens]\ntotal = 700\n", ARMS),
        (f'[provider]\nsim = "{HOLD}"\n', ARMS),
        (f'[stage]\npick = "{HOLD}"\n', ARMS),
        (f'[experiment]\nx = "{HOLD}"\n', ARMS),
        (f'[day]\ntotal = "{HOLD}"\n', ARMS),
        (f'[condition]\n"pick/two" = "{HOLD}"\n', ARMS[2:]),
    ],
)
def test_a_cap_stops_what_it_covers(place: Place, table: str, stopped: tuple[str, ...]) -> None:
    """Every table of a budget stops the conditions that its key matches, with exit 3, and no other; counts add up."""
    place.budget(LARGE + table)
    said = place.do("run", fine=(3,)).json
    assert "exhausted" in said["reason"]
    counts = place.counts()
    assert set(counts) == set(ARMS)
    for name, (planned, done, failed, pending) in counts.items():
        assert (planned, failed) == (10, 0)
        assert (pending > 0) == (name in stopped), (name, done)


@pytest.mark.parametrize("key", ["pick/on", "one/p", "pick/one/p/"])
def test_a_cap_that_covers_nothing_is_told(place: Place, key: str) -> None:
    """A key matches whole leading segments; one that matches nothing protects nothing, and plan and run say so."""
    place.budget(LARGE + f'[condition]\n"{key}" = "0.000001"\n[provider]\nsimm = "0.000001"\n')
    warnings = place.do("plan").json["warnings"]
    assert any(f"condition {key}" in warning for warning in warnings)
    assert any("provider simm" in warning and "did you mean 'sim'?" in warning for warning in warnings)
    assert f"condition {key}: this cap covers nothing here" in place.do("run").err


def test_a_budget_names_everything_wrong(place: Place, provider: Simulator) -> None:
    """A budget file's misspelt keys and wrong values are told at once, before any call."""
    calls = len(provider.rows())
    place.budget('totl = "10"\n[providr]\nsim = "1"\n[calls]\ntotal = "x"\n[stage]\npick = 3\n')
    for command in ("plan", "run"):
        problems = place.do(command, fine=(2,)).problems
        for wrong in (
            "'total' is missing",
            "did you mean 'total'?",
            "did you mean 'provider'?",
            "calls.total",
            '"3.00"',
        ):
            assert any(wrong in problem and "main.toml" in problem for problem in problems), wrong
    assert len(provider.rows()) == calls


@pytest.mark.parametrize(
    ("head", "prices"),
    [
        ("", '["sim/sim-one"]\ninput = "1"\noutput = "2"\nsource = "the bill"\nchecked = 2026-01-31\n'),
        ("", '["sim/sim-one"]\ninput = "1"\noutput = "2"\nsource = "the bill"\nchecked = "2026-01-31"\n'),
        (
            'price_as = "acme/m"\n',
            '["acme/m"]\ninput = "1"\noutput = "2"\nsource = "the bill"\nchecked = "2026-01-31"\n',
        ),
    ],
)
def test_a_price_row_of_one_s_own(place: Place, head: str, prices: str) -> None:
    """What a person writes in prices.toml prices a deployment of one's own, by its own name or by `price_as`, and costs what
    `price` in the experiment file costs; without a row the refusal says where to write one.
    """
    text = TEXT.replace('"one", "two"', '"one"')
    place.write(text, FILES)
    expected = place.do("plan").json["bound_usd"]
    place.write(text, FILES, head=OWN.replace('identity = "sim"\n', f'identity = "sim"\n{head}'))
    (problem,) = place.do("plan", fine=(2,)).problems
    assert ("acme/m" if head else "sim/sim-one") in problem
    assert "budgets/prices.toml" in problem
    place.budget(prices, "prices.toml")
    assert place.do("plan").json["bound_usd"] == expected
    assert place.do("run").json["cells"]["done"] == 20


def test_a_package_price_is_not_taken_by_name(place: Place) -> None:
    """A deployment of one's own that bears the name of a known provider does not take that provider's price."""
    head = OWN.replace("[providers.sim]", "[providers.groq]").replace('provider = "sim"', 'provider = "groq"')
    head = head.replace('"sim-one"', '"llama-3.1-8b-instant"')
    place.write(TEXT.replace('"one", "two"', '"one"'), FILES, head=head)
    (problem,) = place.do("plan", fine=(2,)).problems
    assert "groq/llama-3.1-8b-instant" in problem


def test_a_day_is_told_how_to_be_written(place: Place) -> None:
    """A date that is none is refused with the form that is right."""
    place.budget('["a/b"]\ninput = "1"\noutput = "1"\nsource = "s"\nchecked = "soon"\n', "prices.toml")
    (problem,) = place.do("plan", fine=(2,)).problems
    assert "\"a/b\".checked (line 5): 'soon' is no date (year-month-day, such as 2026-01-31)" in problem
