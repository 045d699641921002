"""Vectors: embeddings from hashed words and pairs of words, so that texts that share words are near each other."""

from __future__ import annotations

import math
import re
import zlib
from itertools import pairwise

_WORD = re.compile(r"\w+")


def embed(seed: int, model: str, text: str, dimensions: int, *, role: str = "") -> list[float]:
    """A unit vector; the same words in another order are near, other words are far. An empty text has a direction of its own.

    A `role` (query, document, ...) turns all of its vectors a little in one direction.
    """
    words = _WORD.findall(text.lower()) or ["(nothing)"]
    salt = zlib.crc32(f"{seed} {model}".encode())
    made = [0.0] * dimensions
    pairs = [f"{one} {two}" for one, two in pairwise(words)]
    roles = [f"role {role}"] if role else []
    for weight, grams in ((1.0, words), (0.5, pairs), (0.25, roles)):
        for gram in grams:
            hashed = zlib.crc32(gram.encode(), salt)
            made[(hashed >> 1) % dimensions] += weight if hashed & 1 else -weight
    length = math.sqrt(sum(value * value for value in made))
    if length == 0:  # words that cancel each other
        made[salt % dimensions] = length = 1.0
    return [value / length for value in made]
