"""Answers: each rule finds what it says it finds, leaves every other text alone, and is told by its name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.tables import LAB, PROFILE, Lab, arm, chat, kept, numbered, text_of
from judgerun.model.experiment import ParseRule
from judgerun.model.kept import Kept
from judgerun.model.profile import RULES
from judgerun.model.reply import Finish, Reply
from judgerun.model.request import Request
from judgerun.table.answers import PREFIXES, answered, find

ALL = ("prefix", "content", "reasoning", "after-think")
REPLIES = st.builds(Reply, finish=st.sampled_from(Finish), text=st.text(), thoughts=st.text())


def said(text: str, *, thoughts: str = "", finish: Finish = Finish.STOP) -> Reply:
    """A reply of that text."""
    return Reply(finish=finish, text=text, thoughts=thoughts)


@given(REPLIES)
def test_content_alone_changes_nothing(reply: Reply) -> None:
    """With `content` as the only rule every reply is kept as it is, the very object."""
    held = Kept(reply=reply, attempt=1, experiment="e")
    found, rule = answered(held, ("content",))
    assert found is held
    assert rule == "content"


@given(REPLIES, st.lists(st.sampled_from(RULES), max_size=5))
def test_an_answer_is_always_a_part_of_what_was_said(reply: Reply, rules: list[str]) -> None:
    """No rule invents a character: the answer is a piece of the text, or of the reasoning; what was told stays told."""
    text, rule = find(reply, rules)
    assert text in reply.text or text in reply.thoughts
    assert set(rule.split("+")) <= {*rules, "content"}
    assert rule != "content" or text == reply.text


@given(REPLIES.filter(lambda reply: "<" not in reply.text and not reply.text.lstrip().startswith("assistant")))
def test_a_text_without_marks_is_its_own_answer(reply: Reply) -> None:
    """Whatever is declared, a visible text with no tag and no mark is the answer."""
    text, _ = find(reply, ALL)
    assert text == reply.text or not reply.text.strip()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>a 3?</think>\n\n7", "7"),
        ("\n<think>\n</think>\n\n7", "7"),
        ("<reasoning>no: 3</reasoning>7", "7"),
        ("so it must be 3\n</think>\n7", "7"),  # the template opened the block in the prompt
        ("<think>a</think>3<think>b</think> 7 ", "7 "),
        ("<think>it may be 3", ""),  # cut in its reasoning
        ("<think>a</think><think>b 3", ""),
        ("<think>a</think>", ""),
        ("<think><think>a</think>7", "7"),
    ],
)
def test_what_follows_the_thinking_is_the_answer(text: str, answer: str) -> None:
    """A block at the beginning, or one that was opened before it, is no answer; a block that never closes leaves none."""
    assert find(said(text), ("content", "after-think")) == (answer, "after-think")


@pytest.mark.parametrize("text", ["7", "", "the tag <think> opens", "write <think>so</think> before 7", "a < b"])
def test_a_text_that_speaks_of_thinking_is_left_alone(text: str) -> None:
    """Tags inside of an answer are part of it."""
    assert find(said(text), ("content", "after-think")) == (text, "content")


def test_reasoning_is_the_answer_only_where_nothing_else_was_said() -> None:
    """Finish stop, no visible text, and reasoning kept; truncated reasoning is no answer."""
    rules = ("content", "reasoning")
    assert find(said("", thoughts="7"), rules) == ("7", "reasoning")
    assert find(said(" \n", thoughts="7"), rules) == ("7", "reasoning")
    assert find(said("3", thoughts="7"), rules) == ("3", "content")
    assert find(said("", thoughts=" "), rules) == ("", "content")
    assert find(said("", thoughts="7", finish=Finish.LENGTH), rules) == ("", "content")
    assert find(said("", thoughts="7"), ("content",)) == ("", "content")


@pytest.mark.parametrize("mark", PREFIXES)
def test_a_role_mark_goes_and_nothing_else(mark: str) -> None:
    """Each mark of the list is taken off once, from the beginning alone."""
    assert find(said(f"{mark}\n7"), ("content", "prefix")) == ("7", "prefix")
    assert find(said(f"7 {mark} 8"), ("content", "prefix")) == (f"7 {mark} 8", "content")
    assert find(said(f"{mark}\n7"), ("content",)) == (f"{mark}\n7", "content")
    assert find(said("assistants agree on 7"), ("prefix",)) == ("assistants agree on 7", "content")


def test_rules_work_one_after_the_other_as_they_are_declared() -> None:
    """A mark before a block: in this order both are taken off, in the other the block is not at the beginning."""
    text = "<|im_start|>assistant\n<think>3</think>7"
    assert find(said(text), ("prefix", "after-think")) == ("7", "prefix+after-think")
    assert find(said("", thoughts="<think>3</think>7"), ("reasoning", "after-think"))[0] == "7"
    assert find(said("", thoughts="<think>3</think>7"), ("after-think", "reasoning"))[0] == "<think>3</think>7"


def test_every_rule_that_may_be_declared_is_known() -> None:
    """The names that files check are the names that reading knows."""
    for rule in RULES:
        assert find(said("x"), (rule,)) == ("x", "content")


def thinks(request: Request) -> Kept:
    """A provider that thinks aloud in the text."""
    return kept(
        f"<think>2 of 9</think>\n4 for {text_of(request)[-1]}" if "cut" not in text_of(request) else "<think>2 of"
    )


def test_a_rule_declared_later_reads_what_is_kept_and_buys_nothing() -> None:
    """Verdicts, empties, what flows down and the counts follow the rule; the keys, and the replies in the cache, stay."""
    score = ParseRule(kind="score", low=1, high=9, take="first")
    rows = numbered("rows", 3, cut=lambda n: "cut" if n == 2 else "whole")

    def lab(*answer: str) -> Lab:
        judge = arm("m", "p", "{{ cut }} {{ text }}", parse=score, given={"provider": LAB})
        grade = arm("g", "q", "grade: {{ judge.reply }}", given={"provider": LAB})
        profiles = {"m": replace(PROFILE, answer=answer or PROFILE.answer)}
        stages = [chat("judge", "rows", judge), chat("grade", "judge", grade)]
        return Lab(stages=stages, tables=[rows], profiles=profiles, answer=thinks)

    before = lab()
    plain = before.whole().counts()[0]
    assert (dict(plain.found), plain.empty, plain.concluded) == ({"content": 3}, 0, 3)
    after = lab("content", "after-think")
    after.cache = dict(before.cache)
    flow = after.whole()
    assert not [cell for cell in after.sent if cell.stage == "judge"]
    held = flow.counts()[0]
    assert (dict(held.found), held.empty, held.unparsed, held.concluded) == ({"after-think": 3}, 1, 1, 2)
    outcomes = {row.id: row.stages["judge"] for row in flow.rows("judge")}
    assert [outcomes[id].value for id in ("p0", "p1", "p2")] == [4, 4, None]
    assert [outcomes[id].reply for id in ("p0", "p2")] == ["4 for 0", ""]
    assert sorted(map(text_of, (cell.request for cell in after.sent))) == ["grade: 4 for 0", "grade: 4 for 1"]
    assert {held.reply.text[:7] for held in after.cache.values() if isinstance(held, Kept)} >= {"<think>"}
