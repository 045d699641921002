"""Labels: where the values of a label rule stand in a reply, and whether one of them can be taken at its word.

How labels match: as whole words (`DRIFTED` is not in `undrifted`, `DRIFTED_2` or `non-drifted`), the longest first, so that
`NOT_EQUIVALENT` is never read as `EQUIVALENT`. Case does not count, but for labels of one character (`A` is not `a`) and for
values that differ by case alone. A blank in a label stands for any white space. A label that is a number stands alone
(see numerals). `A` that opens a sentence of prose is the article, `no` before a noun ("no doubt") the determiner: neither is
a label there.

With `between` only a value enclosed in the two marks counts, and nothing around it is weighed. Without it a label is prose,
and prose can say the opposite of the word in it, so an occurrence is refused as ambiguous when

- a negation stands among the `WINDOW` words before it, in the same clause ("not drifted", "isn't really DRIFTED"), or an
  answer of no stands right behind it ("DRIFTED: no"); or
- another label stands in the same sentence ("FAITHFUL rather than DRIFTED", "A or B").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from judgerun.table.numerals import Span, alone

WINDOW = 4

_NEGATIONS = frozenset(
    (
        *("not", "no", "never", "neither", "nor", "non", "none", "cannot", "cant", "isnt"),
        *("hardly", "without", "instead", "rather"),
    )
)
_DENIED = re.compile(r"[\s*_\"'`\])]*[:=?][\s*_\"'`\[(]*(?:no|not|none|false)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?;](?=\s|$|[\"'*_)\]])|\n")
_CLAUSE_END = re.compile(r"[,:()\[\]\u2014]")
_WORD = re.compile(r"[\w'\u2019]+")
#: A label beside one of these and a letter is a part of a compound.
_JOINTS = r"[-/\\.'\u2019]"
_PROSE = re.compile(r"[ \t]+(?!(?:is|was|wins|has|beats|or|and|vs|over|because|since)\b)[a-z]")


def labels(text: str, values: Sequence[str], between: tuple[str, str] | None) -> list[Span[str]]:
    """Where values stand in `text`, in order, each as it is written in the rule."""
    pattern, names = _pattern(tuple(values), between)
    spans = []
    for found in pattern.finditer(text):
        start, end = found.span("label")
        value = names[_plain(found["label"], names)]
        if between is None and ((value.isdigit() and not alone(text, start, end)) or _determiner(text, start, end)):
            continue
        spans.append(Span(start, end, value))
    return spans


def ambiguous(text: str, span: Span[str], spans: Sequence[Span[str]]) -> bool:
    """Whether the sentence around a label of prose denies it or names another one."""
    start, end = _sentence(text, span)
    if any(other.value != span.value and start <= other.start < end for other in spans):
        return True
    if _DENIED.match(text, span.end):
        return True
    clause = _CLAUSE_END.split(text[start : span.start])[-1]
    nearest = {word.casefold().replace("\u2019", "'") for word in _WORD.findall(clause)[-WINDOW:]}
    own = {other.value.casefold() for other in spans}
    return any(word not in own and (word in _NEGATIONS or word.endswith("n't")) for word in nearest)


@lru_cache(maxsize=256)
def _pattern(values: tuple[str, ...], between: tuple[str, str] | None) -> tuple[re.Pattern[str], dict[str, str]]:
    """The pattern of a rule's values, and the values by the form in which they are compared."""
    exact = len({value.casefold() for value in values}) < len(values)
    ordered = sorted(values, key=len, reverse=True)
    forms = []
    for value in ordered:
        form = r"\s+".join(map(re.escape, value.split()))
        forms.append(form if exact or len(value) == 1 else f"(?i:{form})")
    any_value = f"(?P<label>{'|'.join(forms)})"
    if between is None:
        whole = rf"(?<!\w)(?<!\w{_JOINTS}){any_value}(?!\w)(?!{_JOINTS}\w)"
    else:
        whole = rf"{re.escape(between[0])}\s*{any_value}\s*{re.escape(between[1])}"
    names: dict[str, str] = {}
    for value in ordered:
        names[" ".join(value.split())] = value
        if not exact and len(value) > 1:
            names[" ".join(value.split()).casefold()] = value
    return re.compile(whole), names


def _plain(found: str, names: dict[str, str]) -> str:
    joined = " ".join(found.split())
    return joined if joined in names else joined.casefold()


def _sentence(text: str, span: Span[str]) -> tuple[int, int]:
    start = 0
    for end in _SENTENCE_END.finditer(text):
        if end.start() >= span.end:
            return start, end.start()
        if end.end() <= span.start:
            start = end.end()
    return start, len(text)


def _determiner(text: str, start: int, end: int) -> bool:
    """Whether the label is the capital A that opens a sentence of prose, or the "no" before a noun."""
    label = text[start:end]
    if not (label == "A" or label.casefold() == "no") or not _PROSE.match(text, end):
        return False
    before = text[max(0, start - 8) : start].rstrip(" \t*_\"'([")
    return label != "A" or not before or before[-1] in ".!?;\n"
