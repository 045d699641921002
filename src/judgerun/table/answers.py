"""Answers: where in a reply its answer stands, by declared rules; reading alone, so that a rule declared later re-buys nothing.

content      the visible text as it is, where no other declared rule holds
after-think  where the text begins with a think block, or closes one that the template of the prompt had opened: what follows the
             last closing tag; nothing where a block is never closed, since the reasoning was cut
reasoning    where there is no visible text, the finish is stop, and reasoning text was kept: that text
prefix       where the text begins with a mark of PREFIXES: what follows it

Rules are tried in the order in which they are declared, each on what the one before left. The kept reply is never changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from judgerun.model.kept import Kept
from judgerun.model.reply import Finish, Reply

CONTENT = "content"

TAGS = "think|thinking|reasoning"
"""Names of the tags around reasoning that servers without a reasoning parser leave in the text."""

PREFIXES = (
    "<|im_start|>assistant",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<|start|>assistant<|channel|>final<|message|>",
    "<|channel|>final<|message|>",
    "<start_of_turn>model",
    "<|assistant|>",
    "<arg_value>",  # seen before terse answers of GLM
    "assistant\n",
)
"""Marks of a chat template that leak into the text before an answer. No other word is ever taken away."""

_OPENING = re.compile(rf"\s*<({TAGS})>")
_CLOSING = re.compile(rf"</({TAGS})>")


def find(reply: Reply, rules: Sequence[str]) -> tuple[str, str]:
    """The answer of a chat reply, and the rule that found it (several that were applied one after the other are joined by "+")."""
    text, applied = reply.text, []
    for rule in rules:
        told = _FINDERS[rule](text, reply)
        if told is not None:
            text = told
            applied.append(rule)
    return text, "+".join(applied) or CONTENT


def answered(kept: Kept, rules: Sequence[str]) -> tuple[Kept, str]:
    """The kept reply with its answer as its text, and the rule that found it."""
    text, rule = find(kept.reply, rules)
    return (kept if text == kept.reply.text else replace(kept, reply=replace(kept.reply, text=text))), rule


def _content(text: str, reply: Reply) -> None:
    """The text stays as it is."""


def _after_think(text: str, reply: Reply) -> str | None:
    opened = _OPENING.match(text)
    closings = list(_CLOSING.finditer(text))
    if opened is None and not (closings and _stray(closings[0], text)):
        return None
    rest = text[closings[-1].end() :] if closings else ""
    return "" if _OPENING.match(rest) else rest.lstrip()


def _stray(closing: re.Match[str], text: str) -> bool:
    """Whether nothing in the text opens what is closed here: the template had opened it in the prompt."""
    return f"<{closing.group(1)}>" not in text[: closing.start()]


def _reasoning(text: str, reply: Reply) -> str | None:
    silent = not text.strip() and reply.finish is Finish.STOP
    return reply.thoughts if silent and reply.thoughts.strip() else None


def _prefix(text: str, reply: Reply) -> str | None:
    rest = text.lstrip()
    mark = next((mark for mark in PREFIXES if rest.startswith(mark)), None)
    return None if mark is None else rest[len(mark) :].lstrip()


_FINDERS: Mapping[str, Callable[[str, Reply], str | None]] = {
    CONTENT: _content,
    "after-think": _after_think,
    "reasoning": _reasoning,
    "prefix": _prefix,
}
