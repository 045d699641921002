"""The dice of the storms."""

from __future__ import annotations

import os
import random

import pytest


@pytest.fixture
def rng() -> random.Random:
    """Seeded; the seed is printed, and so told by a failure."""
    seed = int(os.environ.get("JUDGERUN_SEED", str(random.SystemRandom().randrange(10**6))))
    print(f"JUDGERUN_SEED={seed}")
    return random.Random(seed)
