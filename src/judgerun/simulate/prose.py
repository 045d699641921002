"""Prose: sentences of a given length, solutions in numbered steps, rewritten queries; all by chance from the prompt's own words."""

from __future__ import annotations

import re

from judgerun.simulate import chance
from judgerun.simulate.ask import tokens

Words = tuple[object, ...]

STEPS = 7
_WORD = re.compile(r"[A-Za-z]{4,}")
_STEP = re.compile(r"^Step (\d+)\.", re.M)
_OPENINGS = (
    "Consider what is asked about {} and {}.",
    "The part on {} settles the part on {}.",
    "One may replace {} by {} without loss.",
    "From {} it follows that {} is bounded.",
    "Comparing {} with {} leaves one case.",
    "It remains to look at {} and at {}.",
)
_RELATED = re.compile(r"^[^\n]*related problem[^\n]*:\s*\n(.*?)\n\s*\n", re.I | re.M | re.S)


def deliberate(prompt: str, length: float, words: Words) -> str:
    """Sentences of about `length` tokens about the prompt's words."""
    vocabulary = sorted(set(_WORD.findall(prompt))) or ["this", "that"]
    made: list[str] = []
    written = 0
    while written < length:
        n = len(made)
        one, two = (chance.pick(vocabulary, *words, "word", n, side) for side in (0, 1))
        made.append(chance.pick(_OPENINGS, *words, "opening", n).format(one, two))
        written += tokens(made[-1])
    return " ".join(made)


def solve(prompt: str, length: float, words: Words) -> str:
    """A solution of about `length` tokens: some of seven steps, as the solver is able, and a result.

    How many it finds hangs on the problem; a related problem that shares words with it helps by two.
    """
    related = _RELATED.search(prompt)
    problem = prompt.replace(related[0], "") if related else prompt
    steps = 3 + chance.number(words[0], "able", problem) % (STEPS - 2)
    if related:
        here, there = (set(_WORD.findall(text.lower())) for text in (problem, related[1]))
        steps += 2 if len(here & there) * 3 >= len(there) else -1
    steps = max(1, min(STEPS, steps))
    lines = [f"Step {n}. {deliberate(problem, length / steps, (*words, n))}" for n in range(1, steps + 1)]
    return "\n".join([*lines, f"Result: {chance.number(words[0], 'result', problem) % 1000}"])


def steps(prompt: str) -> int | None:
    """How many steps of a solution stand in a prompt that shows one: the marker's measure. None where there is no step at all."""
    found = [int(number) for number in _STEP.findall(prompt)]
    return max(found) if found else None


def rewrite(query: str, prompt: str, words: Words) -> str:
    """A query said again: shorter, longer, or in another order, as the prompt asks."""
    terms = query.rstrip("?.! ").split()
    if re.search(r"shorten|few words|brief|terse", prompt, re.I):
        return " ".join(term for term in terms if len(term) > 3)[:60] or query
    if re.search(r"full sentences|write .* out|detail|verbose|circumstances", prompt, re.I):
        extra = chance.pick(("for a report", "for my own understanding", "before a decision"), *words, "why")
        return (
            f"I am looking for documents about {' '.join(terms)}. I need this {extra}, and general pages do not help."
        )
    turn = chance.number(*words, "turn") % max(1, len(terms))
    return " ".join(terms[turn:] + terms[:turn])
