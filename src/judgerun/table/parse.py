"""Parse rules: what a reply's text says, as a Verdict. Nothing is guessed: what a rule cannot tell is not parsed, with why.

| why | meaning |
|---|---|
| empty | nothing but white space (for `text` also: nothing left after strip and unquote) |
| no marker | the rule's marker does not stand in the reply |
| no match | no number that stands alone, no label |
| out of range | numbers stand alone, none within low..high |
| echo | every match is the prompt repeated |
| ambiguous | the sentence around the label denies it or names another one |
| not json, latex escape, not schema, no value | see records |

A marker is searched without regard to case; the last one counts. Range and marker narrow first, echoes are left out next,
and of what remains the rule takes the last, or the first. Rules: numbers in `numerals`, labels in `labels`, echoes in `echo`,
JSON in `records`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from judgerun.errors import InvariantBroken
from judgerun.model.experiment import ParseRule
from judgerun.table.echo import LETTERS, Echo
from judgerun.table.labels import ambiguous, labels
from judgerun.table.numerals import Span, Value, numerals
from judgerun.table.records import Unread, pick, read
from judgerun.table.row import Verdict

#: Quotation marks that `unquote` takes away, one pair, where they enclose the whole text.
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»", "„": "“"}  # noqa: RUF001
#: A JSON value of at least so many characters that stands in the prompt is an example repeated; a shorter one may be right.
_LONG = 200


class _Unparsed(Exception):
    """Why a rule could not tell."""


def parse(rule: ParseRule, text: str, *, prompt: str, candidates: int | None) -> Verdict:
    """What `rule` makes of a reply's text.

    `prompt` is the rendered prompt, all messages joined; `candidates` is how many a choice is among (its range where the rule
    gives none). A choice or score without a range is our bug: files refuse it.
    """
    if len(text) < LETTERS and rule.schema is None and not Echo(text, prompt, None).whole:
        return _short(rule, text, candidates)
    return _parsed(rule, text, prompt, candidates)


@lru_cache(maxsize=4096)
def _short(rule: ParseRule, text: str, candidates: int | None) -> Verdict:
    """The verdict on a text that is too short to be an echo, so that it hangs on nothing else: a judge gives few different ones."""
    return _parsed(rule, text, "", candidates)


def _parsed(rule: ParseRule, text: str, prompt: str, candidates: int | None) -> Verdict:
    name = f"{rule.kind}/{rule.version}"
    try:
        value = _value(rule, text, prompt, candidates)
    except (_Unparsed, Unread) as reason:
        return Verdict(parsed=False, why=str(reason), rule=name)
    return Verdict(parsed=True, value=value, rule=name)


def _value(rule: ParseRule, text: str, prompt: str, candidates: int | None) -> object:
    if not text.strip():
        raise _Unparsed("empty")
    marker = _marker(rule.marker) if rule.marker is not None else None
    echo = Echo(text, prompt, marker)
    if echo.whole:
        raise _Unparsed("echo")
    start = 0 if marker is None else _behind(marker, text)
    if not text[start:].strip():
        raise _Unparsed("empty")
    match rule.kind:
        case "choice" | "score":
            return _number(rule, text, start, echo, candidates)
        case "label":
            return _label(rule, text, start, echo)
        case "json":
            return _record(rule, text, start, echo)
        case "text":
            return _text(rule, text[start:])


@lru_cache(maxsize=256)
def _marker(marker: str) -> re.Pattern[str]:
    return re.compile(re.escape(marker), re.IGNORECASE)


def _behind(marker: re.Pattern[str], text: str) -> int:
    ends = [found.end() for found in marker.finditer(text)]
    if not ends:
        raise _Unparsed("no marker")
    return ends[-1]


def _number(rule: ParseRule, text: str, start: int, echo: Echo, candidates: int | None) -> int:
    low, high = _range(rule, candidates)
    why = "no match"
    for span in numerals(text, signed=low < 0, backwards=rule.take == "last"):
        if span.start < start:
            continue
        if not low <= span.value <= high:
            why = "out of range" if why == "no match" else why
        elif echo.repeats(span.start, span.end):
            why = "echo"
        else:
            return span.value
    raise _Unparsed(why)


def _range(rule: ParseRule, candidates: int | None) -> tuple[int, int]:
    low, high = rule.low, rule.high
    if rule.kind == "choice":
        low = 1 if low is None else low
        high = candidates if high is None else high
    if low is None or high is None:
        raise InvariantBroken(f"a {rule.kind} rule without a range reached a reply")
    return low, high


def _label(rule: ParseRule, text: str, start: int, echo: Echo) -> str:
    spans = [span for span in labels(text, rule.values, rule.between) if span.start >= start]
    if not spans:
        raise _Unparsed("no match")
    taken = _taken(rule, spans, echo)
    if rule.between is None and ambiguous(text, taken, spans):
        raise _Unparsed("ambiguous")
    return taken.value


def _taken(rule: ParseRule, spans: Sequence[Span[Value]], echo: Echo) -> Span[Value]:
    """The last (or first) span that is no echo."""
    for span in spans if rule.take == "first" else reversed(spans):
        if not echo.repeats(span.start, span.end):
            return span
    raise _Unparsed("echo")


def _record(rule: ParseRule, text: str, start: int, echo: Echo) -> object:
    value, begin, end = read(text[start:], rule.schema)
    begin, end = start + begin, start + end
    if echo.repeats(begin, end) or (end - begin >= _LONG and echo.quotes(begin, end)):
        raise _Unparsed("echo")
    return pick(value, rule.value)


def _text(rule: ParseRule, text: str) -> str:
    made = text.strip() if rule.strip else text
    if rule.unquote:
        made = _unquoted(made)
        made = made.strip() if rule.strip else made
    if not made.strip():
        raise _Unparsed("empty")
    return made


def _unquoted(text: str) -> str:
    """The text without the one pair of quotation marks around it; unchanged where they do not enclose exactly all of it."""
    if len(text) < 2 or _QUOTES.get(text[0]) != text[-1]:
        return text
    inside = text[1:-1]
    return text if text[0] in inside or text[-1] in inside else inside
