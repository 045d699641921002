"""Local: an embedder in this process (sentence-transformers in one worker thread); its weights are what its keys hold."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from judgerun.errors import EXPERIMENT, Problem, Refused, invariant
from judgerun.model.experiment import Model
from judgerun.model.profile import Profile
from judgerun.model.reply import Billable, Cause, Failure, Finish, Reply, Usage
from judgerun.model.request import Request
from judgerun.ports import Answer, Jobs
from judgerun.providers.fault import DETAIL_CHARS_MAX

VERSION = "local/1"
EXTRA = "pip install 'judgerun[local]'"
BATCH = 32

PROFILE = Profile(
    dialect="local",
    adapter=VERSION,
    chat=False,
    embed=True,
    reasoning="none",
    parameters=frozenset({"instruction", "normalize", "max_input_tokens"}),
)
"""What holds of every local model; each adds the digest of its weights and its input limit."""

#: `weights` and `input_limit` stand in a payload to be part of its key.
_PAYLOAD = frozenset({"model", "text", "role", "normalize", "max_input_tokens", "weights", "input_limit"})
#: What the library raises for a folder that it cannot make a model of.
_UNLOADABLE = (ImportError, KeyError, OSError, RuntimeError, TypeError, ValueError)
_SKIP = frozenset({".gitattributes", "README.md", "LICENSE"})  # no part of what a model computes


def profile(model: Model) -> Profile:
    """The digest of the model's weights and configuration, and its input limit in tokens. Loads no model.

    Raises Refused when the folder or package is not there.
    """
    folder = _folder(model)
    limit = _least(_own_limit(folder), model.max_input_tokens)
    return replace(PROFILE, weights=weights_digest(folder), input_limit=limit)


def problems(model: Model) -> list[Problem]:
    """What would keep this model from running: the extra, the folder."""
    found = []
    if importlib.util.find_spec("sentence_transformers") is None:
        found.append(Problem(EXPERIMENT, f"models.{model.name}", "a local model needs sentence-transformers", EXTRA))
    try:
        _folder(model)
    except Refused as refused:
        found += refused.problems
    return found


def weights_digest(folder: Path) -> str:
    """Hex sha256 over names and bytes of every file of a model's folder, in the order of their names; prose left out."""
    sha = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in _SKIP):
        name = path.relative_to(folder).as_posix().encode()
        sha.update(len(name).to_bytes(8, "big") + name)
        sha.update(path.stat().st_size.to_bytes(8, "big"))
        with path.open("rb") as file:
            while block := file.read(2**20):
                sha.update(block)
    return sha.hexdigest()


def _folder(model: Model) -> Path:
    """The folder that `package:NAME/inside` or a path names."""
    place = f"models.{model.name}.model"
    if model.model.startswith("package:"):
        name, _, inside = model.model.removeprefix("package:").partition("/")
        spec = importlib.util.find_spec(name) if name.isidentifier() else None
        if spec is None or not spec.submodule_search_locations:
            right = f"pip install {name.replace('_', '-')}"
            raise Refused(Problem(EXPERIMENT, place, f"the package {name!r} is not installed", right))
        folder = Path(next(iter(spec.submodule_search_locations))) / inside
    else:
        folder = Path(model.model).expanduser()
    if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
        raise Refused(Problem(EXPERIMENT, place, f"{model.model!r} is no folder with a sentence-transformers model"))
    return folder


def _own_limit(folder: Path) -> int | None:
    """The model's own limit in tokens: `max_seq_length`, else the positions that its weights have; None when neither is told."""
    for file, name in (("sentence_bert_config.json", "max_seq_length"), ("config.json", "max_position_embeddings")):
        path = folder / file
        held = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if isinstance(held.get(name), int):
            return int(held[name])
    return None


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


@dataclass(slots=True)
class _Loaded:
    """A model in memory, and how many tokens of a text it reads (None: it states no limit)."""

    embedder: Any
    limit: int | None


class Local:
    """Embedders in one worker thread, each loaded at its first use. Nothing is charged for what they do."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.profile = PROFILE
        self.jobs: Jobs | None = None
        self._folders = {model.model: _folder(model) for model in models}
        self._loaded: dict[tuple[str, int | None], _Loaded] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="judgerun-local")

    async def send(self, requests: Sequence[Request], *, timeout_s: float, attempt: int) -> Answer:
        """Embed the texts of these requests; each reply tells its tokens, and whether its text was cut."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        made: tuple[Reply, ...] | Failure
        try:
            async with asyncio.timeout(timeout_s):
                made = await loop.run_in_executor(self._thread, self._embed, tuple(requests))
        except TimeoutError:
            made = _failure(Cause.TIMED_OUT, f"no vectors in {timeout_s:g} s")
        latency_ms = round((loop.time() - started) * 1000)
        if isinstance(made, Failure):
            return Answer(failure=made, latency_ms=latency_ms)
        return Answer(replies=made, latency_ms=latency_ms)

    def _embed(self, requests: Sequence[Request]) -> tuple[Reply, ...] | Failure:
        """In the worker thread: count tokens, embed, and say which texts were cut."""
        payload = requests[0].payload
        invariant(payload.keys() <= _PAYLOAD, f"a local model cannot take {sorted(payload.keys() - _PAYLOAD)}")
        invariant(payload["model"] in self._folders, f"{payload['model']!r} is no model of this deployment")
        texts = [request.payload["text"] for request in requests]
        try:
            loaded = self._load(payload["model"], _least(payload.get("input_limit"), payload.get("max_input_tokens")))
        except _UNLOADABLE as error:
            return _failure(Cause.REJECTED, f"the model cannot be loaded: {type(error).__name__}: {error}")
        try:
            counts = [
                len(ids) for ids in loaded.embedder.tokenizer(texts, truncation=False, verbose=False)["input_ids"]
            ]
            vectors = loaded.embedder.encode(
                texts,
                batch_size=BATCH,
                normalize_embeddings=bool(payload.get("normalize", False)),
                convert_to_numpy=True,
                show_progress_bar=False,
            ).astype("<f4")
        except (RuntimeError, MemoryError) as error:  # torch tells a lack of memory so
            return _failure(Cause.OVERLOADED, f"{type(error).__name__}: {error}")
        if vectors.shape[0] != len(texts) or not np.isfinite(vectors).all():
            return _failure(Cause.MALFORMED, f"vectors of shape {vectors.shape} for {len(texts)} texts, or not finite")
        return tuple(_reply(loaded, vector, n) for vector, n in zip(vectors, counts, strict=True))

    def _load(self, name: str, limit: int | None) -> _Loaded:
        held = self._loaded.get((name, limit))
        if held is None:
            from sentence_transformers import SentenceTransformer  # heavy, and an extra: only when it is used

            embedder: Any = SentenceTransformer(str(self._folders[name]), local_files_only=True)
            reads = _least(embedder.max_seq_length, limit)
            embedder.max_seq_length = reads
            held = self._loaded[name, limit] = _Loaded(embedder, reads)
        return held

    async def count(self, request: Request) -> int | None:
        """Its own tokenizer counts when it embeds, and tells what it cut."""
        return None

    def reset(self, asleep: float) -> None:
        """It has no connections, and a computation slept along."""

    async def aclose(self) -> None:
        """Let the thread go; a computation that is running ends by itself."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _reply(loaded: _Loaded, vector: Any, tokens: int) -> Reply:
    limit = tokens if loaded.limit is None else loaded.limit
    return Reply(
        finish=Finish.STOP,
        vector=vector.tobytes(),
        usage=Usage(input_fresh=min(tokens, limit), output_visible=0),
        input_cut=tokens > limit,
    )


def _failure(cause: Cause, detail: str) -> Failure:
    return Failure(cause=cause, billable=Billable.NO, detail=detail[:DETAIL_CHARS_MAX])
