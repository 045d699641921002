"""The simulated models: answers that fit the prompt, the same each time, cut at the cap."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judgerun.simulate import vectors
from judgerun.simulate.ask import Ask, tokens
from judgerun.simulate.law import Law, give, habit

STEADY = Law(error=0.0, cached=0.0)


def ask(prompt: str, *, model: str = "judge-a", cap: int | None = None, **changes: object) -> Ask:
    digest = hashlib.sha256(f"{model} {prompt} {cap}".encode()).hexdigest()
    return Ask(kind="chat", model=model, digest=digest, messages=(("user", prompt),), cap=cap, **changes)  # type: ignore[arg-type]


def say(prompt: str, law: Law = STEADY, seed: int = 0, **changes: object) -> str:
    return give(seed, law, ask(prompt, **changes)).text or ""  # type: ignore[arg-type]


CANDIDATES = "[1] apples are round\n[2] count the odd integers below fifty\n[3] a triangle"
CHOICE = f"Problem:\nHow many odd integers are there below fifty?\n\nCandidates:\n{CANDIDATES}\n\nWhich?\n"


@pytest.mark.parametrize(
    ("ending", "allowed"),
    [
        ("Answer with one whole number from 1 to 3 and nothing else.", {"2"}),
        ("Respond with ONLY the candidate number (1-3). No explanation, no other text.", {"2"}),
        ("Rate it on a scale of 1\u20135. Output only the number.", set("12345")),
        ("Score between 0 and 7, nothing else.", set("01234567")),
        (
            "Answer with one of these labels and nothing else: PRESERVED, DRIFTED, UNCERTAIN",
            {"PRESERVED", "DRIFTED", "UNCERTAIN"},
        ),
        ("Answer PRESERVED or DRIFTED.", {"PRESERVED", "DRIFTED"}),
        ("Answer with one word: POSITIVE or NEGATIVE", {"POSITIVE", "NEGATIVE"}),
        ("Reply 'good' or 'bad', nothing else.", {"good", "bad"}),
        ("Is it so? Answer yes or no.", {"yes", "no"}),
        ("Give the verdict and nothing else: [[A]], [[B]], [[tie]]", {"[[A]]", "[[B]]", "[[tie]]"}),
    ],
)
def test_an_answer_is_one_of_those_that_the_prompt_allows(ending: str, allowed: set[str]) -> None:
    """Whatever the form in which a prompt states them."""
    assert say(CHOICE + ending) in allowed


def test_a_choice_falls_on_the_candidate_that_shares_most_words_wherever_it_stands() -> None:
    """Position has no part in it, so orders agree."""
    turned = "[1] a triangle\n[2] apples are round\n[3] count the odd integers below fifty"
    ending = "Answer with one whole number from 1 to 3 and nothing else."
    assert say(CHOICE + ending) == "2"
    assert say(CHOICE.replace(CANDIDATES, turned) + ending) == "3"


def test_deliberation_comes_before_the_marked_answer() -> None:
    """A prompt that asks for thought gets prose, then the marker."""
    text = say(
        CHOICE
        + "Think it through.\nEnd with a line of its own that reads FINAL ANSWER: followed by one number from 1 to 3."
    )
    assert text.splitlines()[-1] == "FINAL ANSWER: 2"
    assert tokens(text) > 20


def test_a_pair_is_judged_by_its_texts_and_not_by_their_places() -> None:
    """Swapped, the same text wins."""
    prompt = "Answer A:\n{}\n\nAnswer B:\n{}\n\nAnswer with one of these labels and nothing else: [[A]], [[B]]"
    one, other = say(prompt.format("short", "long")), say(prompt.format("long", "short"))
    assert {one, other} == {"[[A]]", "[[B]]"}


@pytest.mark.parametrize(
    "schema",
    [
        {
            "type": "object",
            "properties": {
                "verdict": {"enum": ["same", "other"]},
                "sure": {"type": "number", "minimum": 0, "maximum": 1},
            },
            "required": ["verdict", "sure"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"pick": {"type": "integer", "minimum": 1, "maximum": 10}},
            "required": ["pick"],
        },
        {
            "type": "object",
            "required": ["items"],
            "properties": {"items": {"type": "array", "minItems": 2, "maxItems": 3, "items": {"$ref": "#/$defs/one"}}},
            "$defs": {
                "one": {
                    "type": "object",
                    "properties": {"problem": {"type": "string", "minLength": 1}},
                    "required": ["problem"],
                }
            },
        },
        {
            "type": "object",
            "properties": {
                "a": {"type": ["boolean", "null"]},
                "b": {"const": 3},
                "c": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            },
            "required": ["a", "b", "c"],
        },
    ],
)
def test_json_by_schema_in_the_body_or_in_the_prompt(schema: dict[str, object]) -> None:
    """Both ways give a valid instance."""
    inside = f"Judge it.\n\nAnswer with one JSON object and nothing else, by this schema:\n{json.dumps(schema)}"
    for n in range(20):
        jsonschema.validate(json.loads(say(f"{n}", schema=schema)), schema)
        jsonschema.validate(json.loads(say(f"{n} {inside}")), schema)


@pytest.mark.parametrize(
    ("prompt", "keys"),
    [
        ("Reply with a JSON object with keys score and reason. Score from 1 to 5.", {"score", "reason"}),
        (
            'Respond in JSON:\n{"verdict": "PASS|FAIL", "score": <1-10>, "ok": true/false, "why": "..."}',
            {"verdict", "score", "ok", "why"},
        ),
        ('Answer as JSON like\n{"choice": 3, "sure": 0.5, "note": "x"}', {"choice", "sure", "note"}),
    ],
)
def test_json_by_its_keys_or_an_example(prompt: str, keys: set[str]) -> None:
    """A sketch is enough."""
    assert json.loads(say(prompt)).keys() == keys


def test_a_grader_counts_the_steps_of_a_solution() -> None:
    """So a longer solution earns more, and an empty one nothing sure."""
    prompt = "Solution to be marked:\n{}\n\nAnswer with one whole number from 0 to 7 and nothing else."
    assert say(prompt.format("Step 1. a\nStep 2. b\nStep 3. c")) == "3"
    solution = say(
        "Solve the problem and write the steps.\n\nHow many apples?\n\nAnswer with the solution as plain text."
    )
    assert say(prompt.format(solution)) == str(solution.count("Step "))
    assert solution.splitlines()[-1].startswith("Result: ")


def test_queries_are_rewritten_from_their_own_words() -> None:
    """Shorter, longer, or turned about."""
    prompt = "You rewrite search queries.\n\n{}\n\nQuery: which drugs slow the virus in older patients\n\nAnswer with plain text."
    short, long = (
        say(prompt.format(how)) for how in ("Shorten the query to the few words", "Write it in two full sentences")
    )
    assert len(short) < len("which drugs slow the virus in older patients") < len(long)
    assert "virus" in short
    assert "virus" in long


def test_models_agree_as_often_as_their_errors_let_them() -> None:
    """Two judges with an error rate of 0.2 agree on about two thirds of a three-way choice, and not on all."""
    erring = Law(error=0.2)
    ending = "Answer with one whole number from 1 to 3 and nothing else."
    pairs = [[say(f"{n} {CHOICE}{ending}", erring, model=model) for model in ("a", "b")] for n in range(600)]
    agreed = sum(one == other for one, other in pairs) / len(pairs)
    assert 0.58 < agreed < 0.76  # 0.8 * 0.8 + 0.2 * 0.2 / 2 = 0.66, five standard errors either way


PROMPTS = st.sampled_from(
    [
        CHOICE + "Answer with one whole number from 1 to 3.",
        "Solve it.",
        CHOICE + "Think it through.\nAnswer with a number from 1 to 3.",
    ]
)


@settings(max_examples=200)
@given(PROMPTS, st.integers(0, 10**6), st.none() | st.integers(1, 3000), st.booleans(), st.text(max_size=30))
def test_tokens_hold_their_bounds_and_the_same_body_gets_the_same_answer(
    prompt: str, seed: int, cap: int | None, thinking: bool, noise: str
) -> None:
    """Output within the cap, input within the bytes, `length` only at the cap."""
    law = Law(reasoning=300.0)
    asked = ask(prompt + noise, cap=cap, thinking=thinking)
    made = give(seed, law, asked)
    assert made == give(seed, law, asked)
    assert made.input <= len((prompt + noise).encode()) + 1
    assert 0 <= made.cached <= made.input
    assert tokens(made.text or "") <= made.visible
    assert (made.reasoning > 0) == thinking
    if cap is not None:
        assert made.output <= cap
        assert (made.finish == "length") == _cut(seed, law, asked)


def _cut(seed: int, law: Law, asked: Ask) -> bool:
    """Whether the answer without a cap is longer than the cap."""
    return asked.cap is not None and give(seed, law, replace(asked, cap=None)).output > asked.cap


def test_hidden_reasoning_can_eat_the_whole_cap() -> None:
    """Then the answer is empty, and says `length`."""
    made = give(0, Law(reasoning=4000.0), ask("Answer with one whole number from 1 to 3.", cap=16))
    assert (made.text, made.finish, made.visible, made.reasoning) == ("", "length", 0, 16)


def test_unknown_models_have_laws_of_their_own() -> None:
    """By name, and the same each time; names that speak of reasoning reason."""
    assert habit(1, "x", {}) == habit(1, "x", {}) != habit(1, "y", {})
    assert habit(1, "deep-reasoner", {}).reasoning > 0 == habit(1, "judge-a", {}).reasoning
    assert habit(1, "x", {"x": STEADY}) is STEADY


@given(st.text(max_size=80), st.integers(1, 256), st.integers(0, 99))
def test_vectors_are_unit_and_repeatable(text: str, dimensions: int, seed: int) -> None:
    """Any text has one vector of length 1."""
    made = vectors.embed(seed, "m", text, dimensions)
    assert len(made) == dimensions
    assert math.isclose(sum(value * value for value in made), 1, rel_tol=1e-9)
    assert made == vectors.embed(seed, "m", text, dimensions)


def test_texts_that_share_words_are_nearer() -> None:
    """Enough for a retrieval to be worth looking at."""

    def near(one: str, other: str) -> float:
        return math.fsum(
            a * b for a, b in zip(*(vectors.embed(3, "m", text, 256) for text in (one, other)), strict=True)
        )

    assert near("heat some apple", "heat an apple") > near("heat some apple", "turn on the lamp") + 0.2
