"""Writes small experiments to disk for tests of what is read from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

MINIMAL = """
name = "small"
seed = 7

[data.items]
path = "items.jsonl"

[providers.bench]
dialect = "openai"
base_url = "http://127.0.0.1:8000/v1"
price = { input = "0.10", output = "0.40" }

[models.m]
provider = "bench"
model = "m-8b"
temperature = 0
max_output_tokens = 300
thinking = "off"

[[stage]]
name = "rate"
kind = "judge"
from = "items"
models = ["m"]
prompts = ["ask"]
parse = { kind = "score", low = 1, high = 5 }
"""

ITEMS = '{"id": "i1", "text": "one", "human": 3}\n{"id": "i2", "text": "two", "human": 4}\n'


def write_experiment(root: Path, toml: str = MINIMAL, files: Mapping[str, str] | None = None) -> Path:
    """An experiment folder `small` under `root` with two items and one prompt; `files` are added or replace them."""
    folder = root / "prompts" / "small"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"items.jsonl": ITEMS, "ask.md": "Rate: {{ text }}\n", **(files or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    path = folder / "experiment.toml"
    path.write_text(toml, encoding="utf-8")
    return path
