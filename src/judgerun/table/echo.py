"""Echo: whether something found in a reply is the prompt repeated rather than an answer; nothing else may live here.

A match is an echo when it and what surrounds it in the reply (`REACH` characters on either side, as far as the reply goes)
stand in the rendered prompt too. White space and case do not count. Surroundings of fewer than `WORDS` words or `LETTERS`
letters prove nothing: a judge that is asked for a number and answers "Candidate 3", or gives the bare form that the prompt
asks for, has answered, though the prompt holds the same words. The marker of a rule is asked for, so it proves nothing either.
A reply that is the whole prompt is an echo whatever stands in it.
"""

from __future__ import annotations

import re

REACH = 32
WORDS = 2
LETTERS = 10

_WORD = re.compile(r"[^\W\d_]+")


class Echo:
    """One reply beside the prompt that it answers."""

    __slots__ = ("_folded", "_marker", "_prompt", "_reply", "_squeezed")

    def __init__(self, reply: str, prompt: str, marker: re.Pattern[str] | None) -> None:
        self._reply = reply
        self._prompt = prompt
        self._marker = marker
        self._folded: str | None = None
        self._squeezed: str | None = None

    @property
    def whole(self) -> bool:
        """Whether the reply is the prompt again and nothing else."""
        if _begins(self._reply) != _begins(self._prompt):
            return False  # almost every reply ends here, before its long prompt is squeezed
        return squeeze(self._reply) == self._text

    def repeats(self, start: int, end: int) -> bool:
        """Whether `reply[start:end]` with its surroundings stands in the prompt."""
        left = self._reply[max(0, start - REACH) : start]
        right = self._reply[end : end + REACH]
        if len(left) + len(right) < LETTERS:  # a bare number, as most replies are
            return False
        return self._prompted(left + self._reply[start:end] + right) and self._proves(left, right)

    def _proves(self, left: str, right: str) -> bool:
        """Whether what surrounds a match is enough to tell a repetition by."""
        words = _WORD.findall(f"{self._own(left)}\n{self._own(right)}")
        return len(words) >= WORDS and sum(map(len, words)) >= LETTERS

    def quotes(self, start: int, end: int) -> bool:
        """Whether `reply[start:end]` itself, whatever surrounds it, stands in the prompt."""
        return self._prompted(self._reply[start:end])

    def _prompted(self, piece: str) -> bool:
        """Whether the piece stands in the prompt. Most have a word that does not: then the long prompt need not be squeezed."""
        sought = squeeze(piece)
        if self._folded is None:
            self._folded = self._prompt.casefold()
        return all(word in self._folded for word in sought.split()) and sought in self._text

    def _own(self, side: str) -> str:
        return side if self._marker is None else self._marker.sub(" ", side)

    @property
    def _text(self) -> str:
        if self._squeezed is None:
            self._squeezed = squeeze(self._prompt)
        return self._squeezed


def _begins(text: str) -> str:
    """The first letter of what `squeeze` makes of a text."""
    return text.lstrip()[:1].casefold()[:1]


def squeeze(text: str) -> str:
    """The text with runs of white space as one blank, in one case."""
    return " ".join(text.split()).casefold()
