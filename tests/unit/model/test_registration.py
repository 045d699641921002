"""What was fixed before the first reply, and how what the file says now stands to it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.evidence import chat, experiment
from judgerun.model.event import Event
from judgerun.model.exclusion import Exclusion, excluded
from judgerun.model.experiment import Gate, Question
from judgerun.model.registration import Registration, digest_of, items, standings

A, B = '{"limit":1}', '{"limit":2}'
TEXTS = st.dictionaries(st.sampled_from(["gate a", "gate b", "question c"]), st.sampled_from([A, B]))


def registration(held: dict[str, str], replies: int = 0) -> Registration:
    """One word on the record."""
    return Registration(at=1.0, digest=digest_of(held), items=held, replies=replies)


def standing(now: dict[str, str], *held: Registration) -> dict[str, str]:
    """How each item stands, by name."""
    return {item.name: item.standing for item in standings(now, held)}


def test_what_is_as_it_was_before_the_first_reply_is_registered() -> None:
    """The same text is registered; another, a new one and one that is gone are not."""
    first = registration({"gate a": A, "gate b": A})
    assert standing({"gate a": A, "gate b": A}, first) == {"gate a": "registered", "gate b": "registered"}
    told = standing({"gate a": B, "question c": A}, first)
    assert told == {"gate a": "post hoc", "question c": "post hoc", "gate b": "dropped"}


def test_a_late_edit_is_told_key_by_key() -> None:
    """A threshold that was moved after the first reply is named with both values."""
    (item,) = standings({"gate a": B}, [registration({"gate a": A}), registration({"gate a": B}, replies=9)])
    assert (item.standing, item.why) == ("post hoc", "it was registered otherwise: limit was 1, is 2")


def test_what_is_registered_late_is_post_hoc() -> None:
    """A registration after the first reply fixes nothing that counts; an amendment before it does."""
    assert standing({"gate a": A}, registration({"gate a": A}, replies=1)) == {"gate a": "post hoc"}
    amended = (registration({"gate a": A}), registration({"gate a": B}))
    assert standing({"gate a": B}, *amended) == {"gate a": "registered"}
    assert standing({"gate a": A}) == {"gate a": "unregistered"}


@given(TEXTS, TEXTS, st.integers(0, 3))
def test_every_item_has_one_standing(now: dict[str, str], held: dict[str, str], replies: int) -> None:
    """Each item of now and each that was registered early is told once; registered means the same text before any reply."""
    told = standings(now, [registration(held, replies)])
    assert len({item.name for item in told}) == len(told)
    for item in told:
        assert (item.standing == "registered") == (
            replies == 0 and item.name in now and held.get(item.name) == now[item.name]
        )


def test_questions_gates_and_rules_are_items() -> None:
    """Each question, and of each arm its gate and rule; a change in one changes that item and the digest alone."""
    question = Question(name="q", feed="pick", value="value == 'yes'")
    first = items(experiment([chat(gate=Gate(limits={"truncated": 0.1}))], questions=[question]))
    assert set(first) == {
        "question q", "gate of pick/ann/terse", "rule of pick/ann/terse", "gate of pick/bob/terse", "rule of pick/bob/terse",
    }  # fmt: skip
    second = items(
        experiment([chat(gate=Gate(limits={"truncated": 0.1}))], questions=[replace(question, value="value == 'no'")])
    )
    assert {name for name in first if first[name] != second[name]} == {"question q"}
    assert digest_of(first) != digest_of(second)


def event(subject: str, number: int, *, undo: bool = False, experiment: str = "exp") -> Event:
    """An exclusion on the record."""
    detail = json.dumps({"because": "why", "replies": number, "undo": undo})
    return Event(number, float(number), "exclude", subject, detail, experiment)


def test_the_last_word_on_a_subject_holds() -> None:
    """Left out, taken in again, left out: in the order of the last word; other experiments' words do not count."""
    told = excluded(
        [event("a", 1), event("b", 2), event("a", 3, undo=True), event("a", 4), event("c", 5, experiment="x")], "exp"
    )
    assert [(one.subject, one.replies) for one in told] == [("b", 2), ("a", 4)]


@pytest.mark.parametrize(
    ("subject", "covered"),
    [("solve/m", True), ("grade", True), ("solve/n", False), ("*bare*", True), ("item q1", False)],
)
def test_an_excluded_condition_takes_what_it_fed_with_it(subject: str, covered: bool) -> None:
    """A key covers a condition by its own name or by that of one which fed it; an item covers none."""
    told = Exclusion(subject=subject, because="why", replies=0)
    assert told.covers("grade/g/p@solve/m/p/bare@items") is covered
