"""judgerun probe: one call for each model and prompt, and what it tells, on the simulated provider and on two stubborn ones."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.place import Place, at_home, lines, stated
from fakes.simulator import Simulator
from fakes.stubborn import stubborn

ROWS = lines(*({"id": f"r{n}", "text": f"text {n}"} for n in range(6)))
PROMPT = "{{ id }} {{ text }}\n" + stated(v=1)
CHAIN = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "vectors"
kind = "embed"
models = ["vec"]
queries = ["t.text"]
[[stage]]
name = "j"
kind = "judge"
from = "t"
models = ["one", "two"]
prompts = ["p", "q"]
parse = { kind = "json", value = "v" }
[[stage]]
name = "k"
kind = "judge"
from = "j"
models = ["one"]
prompts = ["r"]
where = "j.model == 'one' and j.prompt == 'p'"
parse = { kind = "json", value = "v" }
"""
FILES = {"t.jsonl": ROWS, "p.md": PROMPT, "q.md": "Q " + PROMPT, "r.md": "R " + PROMPT}


def arms(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The arms of a probe by stage/model/prompt."""
    return {f"{arm['stage']}/{arm['model']}/{arm['prompt'] or ''}": arm for arm in document["arms"]}


def test_one_call_for_each_arm_which_the_run_finds_again(place: Place, provider: Simulator) -> None:
    """Each model x prompt is asked once, downstream ones after their upstream; a second probe costs nothing, and the run buys
    none of these calls again.
    """
    place.write(CHAIN, FILES)
    before = len(provider.rows())
    told = place.do("probe").json
    assert len(provider.rows()) == before + 6
    found = arms(told)
    assert set(found) == {"vectors/vec/", "j/one/p", "j/one/q", "j/two/p", "j/two/q", "k/one/r"}
    assert {arm["outcome"] for arm in found.values()} == {"replied"}
    assert [arm["parsed"] for key, arm in sorted(found.items()) if key != "vectors/vec/"] == [True] * 5
    assert not any(arm["problems"] for arm in found.values())
    again = place.do("probe").json
    assert len(provider.rows()) == before + 6
    assert again["exit"] == 0
    place.do("run")
    keys = [row["attempt"] for row in provider.rows()[before:]]
    assert len(keys) == len(set(keys))
    assert place.do("status").json["attempts"] == len(keys)


def test_the_cost_of_the_whole_run_is_told_at_the_rate_of_the_calls(place: Place) -> None:
    """Each arm's cost times the calls that it has to send; the sum of all arms is the whole."""
    place.write(CHAIN, FILES)
    told = place.do("probe").json
    for arm in told["arms"]:
        assert float(arm["at_this_rate_usd"]) == pytest.approx(float(arm["cost_usd"]) * arm["to_send"])
    assert float(told["at_this_rate_usd"]) == pytest.approx(sum(float(arm["at_this_rate_usd"]) for arm in told["arms"]))


def test_a_rejected_parameter_is_named(place: Place) -> None:
    """A provider that refuses the temperature is quoted, the parameter is named, and the probe ends with 8."""
    place.write(CHAIN, FILES)
    error = {
        "error": {"message": "Unsupported value: 'temperature' does not support 0", "type": "invalid_request_error"}
    }
    with stubborn(400, error) as url:
        at_home(url)
        told = place.do("probe", fine=(8,)).json
    arm = arms(told)["j/one/p"]
    assert arm["outcome"] == "rejected"
    assert "it names temperature" in arm["problems"][0]
    assert arms(told)["k/one/r"]["outcome"] == "not reached"


def test_hidden_thinking_and_an_empty_answer_are_problems(place: Place) -> None:
    """A model that thinks although thinking is off, and is cut before it says anything, is told as both."""
    place.write(CHAIN, FILES)
    body = {
        "model": "other",
        "choices": [{"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": ""}}],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 300,
            "total_tokens": 309,
            "completion_tokens_details": {"reasoning_tokens": 300},
        },
    }
    with stubborn(200, body) as url:
        at_home(url)
        told = place.do("probe", fine=(8,)).json
    arm = arms(told)["j/two/q"]
    assert (arm["finish"], arm["parsed"], arm["reasoning_tokens"]) == ("length", False, 300)
    assert any("it finished with length" in problem for problem in arm["problems"])
    assert any("it thinks although thinking is off: 300" in problem for problem in arm["problems"])
    assert any("served by other" in note for note in arm["notes"])


def test_the_probe_asks_for_consent_for_its_own_worst_case_alone(place: Place) -> None:
    """A `confirm_above` between the worst case of the probe and that of the run lets the probe go and stops the run."""
    place.write(CHAIN, FILES)
    place.budget('total = "10.00"\nconfirm_above = "0.01"\n')
    place.do("run", fine=(2,))
    place.do("probe")
    place.budget('total = "10.00"\nconfirm_above = "0.00001"\n')
    place.write(CHAIN, {**FILES, "p.md": "new " + PROMPT})
    place.do("probe", fine=(2,))
    place.do("probe", "--yes")


BATCH = """
seed = 5
[providers.sim]
dialect = "openai"
base_url = "${SIM_URL}"
identity = "sim"
price = { input = "1", output = "2", batch_factor = "0.5" }
[models.one]
provider = "sim"
model = "sim-one"
max_output_tokens = 300
thinking = "off"
lane = "batch"
"""
ONE = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "j"
kind = "judge"
from = "t"
models = ["one"]
prompts = ["p"]
parse = { kind = "json", value = "v" }
"""


def test_a_model_of_the_batch_lane_is_probed_at_the_full_price_and_told_at_that_of_its_lane(place: Place) -> None:
    """The single call settles at the full price; the whole run is told at the price of the batch lane, as in its quote; and the
    audit finds both prices right.
    """
    place.write(ONE, FILES, head=BATCH)
    quoted = place.do("plan").json
    told = place.do("probe").json
    (arm,) = told["arms"]
    assert told["expected_usd"] == quoted["expected_usd"]
    assert float(arm["at_this_rate_usd"]) == pytest.approx(float(arm["cost_usd"]) / 2 * 6)
    place.do("run")
    assert place.do("status").json["attempts"] == 6
    assert not [finding for finding in place.do("audit").json["findings"] if finding["severity"] != "note"]


FAR = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "v"
kind = "embed"
models = ["vec"]
queries = ["t.text"]
corpus = "t.text"
[[stage]]
name = "top"
kind = "retrieve"
method = "dense"
from = "v"
k = 2
[[stage]]
name = "j"
kind = "judge"
from = "top"
models = ["one"]
prompts = ["p"]
parse = { kind = "json", value = "v" }
"""


def test_an_arm_beyond_a_ranking_says_what_brings_its_rows(place: Place) -> None:
    """The first vector ranks nothing: the arm behind the ranking is told with the command after which a probe reaches it."""
    place.write(FAR, FILES)
    told = place.do("probe", fine=(8,)).json
    arm = arms(told)["j/one/p"]
    assert arm["outcome"] == "not reached"
    (problem,) = arm["problems"]
    assert "judgerun run x --only v, and probe again" in problem
    assert told["at_this_rate_usd"] is None
    place.do("run", "--only", "v")
    assert arms(place.do("probe").json)["j/one/p"]["outcome"] == "replied"


def test_a_probe_that_its_cap_ends_says_so(place: Place) -> None:
    """Exit 3, and the arms that were not asked are said to come after the end."""
    place.write(CHAIN, FILES)
    place.budget('total = "100"\n[calls]\ntotal = 2\n')
    told = place.do("probe", fine=(3,)).json
    late = [arm for arm in told["arms"] if arm["outcome"] == "not reached"]
    assert late
    assert {problem for arm in late for problem in arm["problems"]} == {"no call was made: the probe ended before it"}


WINDOWED = """
seed = 5
[providers.sim]
dialect = "openai"
base_url = "${SIM_URL}"
identity = "sim"
price_as = "openai/gpt-3.5-turbo"
[models.one]
provider = "sim"
model = "sim-one"
max_output_tokens = 3000
thinking = "off"
"""


def test_a_prompt_beyond_the_context_window_is_a_problem_also_when_the_call_is_in_the_cache(place: Place) -> None:
    """The longest prompt, in tokens as the provider counted the first, and the output cap do not fit: each probe says so."""
    long = lines(
        *({"id": id_, "text": f"{id_} " + "several words " * 5000} for id_ in ("a", "b")), {"id": "c", "text": "short"}
    )
    place.write(ONE, {**FILES, "t.jsonl": long}, head=WINDOWED)
    for _ in range(2):
        (arm,) = place.do("probe", fine=(8,)).json["arms"]
        assert [problem for problem in arm["problems"] if "do not fit its window of 16385" in problem]
