"""Tokens: the tokenizers of models, where a library and a vocabulary are on this machine; nothing is ever downloaded."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from judgerun.errors import EXPERIMENT, Problem, Refused
from judgerun.model.experiment import Model
from judgerun.plan.requests import SERVER, Count, Tokenizer

TIKTOKEN = "tiktoken:"
CACHES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
"""Where tiktoken looks for vocabularies, in this order; else in data-gym-cache of the folder for temporary files."""

_CL100K = (
    "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
)
_O200K = (
    "fb374d419588a4632f3f557e76b4b70aebbca790",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
)
VOCABULARIES: Mapping[str, tuple[str, str]] = {"cl100k_base": _CL100K, "o200k_base": _O200K, "o200k_harmony": _O200K}
"""Encoding -> the name of its vocabulary's file in tiktoken's cache (sha1 of its address), and the sha256 of what is in it:
tiktoken would replace any other file by a download.
"""


def counter(models: Iterable[Model], *, folder: Path, data_root: Path | None) -> Count:
    """What counts the tokens of each model's texts. A `tokenizer` that is written is looked for in the experiment's folder, then
    in $JUDGERUN_DATA; a model of the built-in openai has its own where that is here. Raises Refused with every problem at once.
    """
    places = [folder, *([] if data_root is None else [data_root])]
    held: dict[str, Tokenizer] = {}
    problems: list[Problem] = []
    for model in models:
        try:
            found = _tokenizer(model, places)
        except Refused as error:
            problems += error.problems
            continue
        if found is not None:
            held[model.name] = found
    if problems:
        raise Refused(problems)
    return lambda model: held.get(model.name)


def _tokenizer(model: Model, places: Sequence[Path]) -> Tokenizer | None:
    written = model.tokenizer
    if written is None:
        return _automatic(model)
    if written == SERVER:
        _check_server(model)
        return None
    if written.startswith(TIKTOKEN):
        return _written_encoding(model, written.removeprefix(TIKTOKEN))
    return _from_file(model, written, places)


def _automatic(model: Model) -> Tokenizer | None:
    """The tokenizer of a model of the built-in openai; None where tiktoken does not know it, or has no vocabulary here."""
    place = model.provider
    if not place.builtin or (place.sheet or place.name) != "openai" or find_spec("tiktoken") is None:
        return None
    from tiktoken.model import encoding_name_for_model

    try:
        name = encoding_name_for_model(model.model)
    except KeyError:
        return None
    return _encoding(name) if name in VOCABULARIES and _present(name) else None


def _check_server(model: Model) -> None:
    if model.provider.builtin or model.provider.dialect != "openai":
        wrong = f"the provider {model.provider.name!r} has no /tokenize to ask"
        raise Refused(_problem(model, wrong, "a server of one's own: vLLM, sglang, llama.cpp"))


def _written_encoding(model: Model, name: str) -> Tokenizer:
    if name not in VOCABULARIES:
        right = ", ".join(f'"{TIKTOKEN}{known}"' for known in VOCABULARIES)
        raise Refused(_problem(model, f"there is no vocabulary {name!r}", f"one of {right}"))
    if find_spec("tiktoken") is None:
        raise Refused(_problem(model, "tiktoken is not installed", "pip install 'judgerun[tokens]'"))
    if not _present(name):
        wrong = f"the vocabulary of {name} is not on this machine, and is not downloaded"
        raise Refused(_problem(model, wrong, f"its file {VOCABULARIES[name][0]} in the folder {CACHES[0]}"))
    return _encoding(name)


def _present(name: str) -> bool:
    """Whether tiktoken would find the vocabulary in its cache, whole."""
    folder = next((os.environ[key] for key in CACHES if key in os.environ), None)
    if folder == "":  # then it keeps no cache
        return False
    file, digest = VOCABULARIES[name]
    path = Path(folder or Path(tempfile.gettempdir(), "data-gym-cache"), file)
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def _encoding(name: str) -> Tokenizer:
    from tiktoken import get_encoding

    encode = get_encoding(name).encode_ordinary
    return Tokenizer(f"tiktoken {name}", lambda text: len(encode(text)))


def _from_file(model: Model, written: str, places: Sequence[Path]) -> Tokenizer:
    path = next((place / written for place in places if (place / written).is_file()), None)
    if path is None:
        wrong = f"there is no file {written!r} in the experiment's folder or in $JUDGERUN_DATA"
        raise Refused(_problem(model, wrong, '"server", "tiktoken:NAME", or the path of a tokenizer.json'))
    if find_spec("tokenizers") is None:
        raise Refused(_problem(model, "tokenizers is not installed", "pip install 'judgerun[tokens]'"))
    from tokenizers import Tokenizer as File

    try:
        made = File.from_file(str(path))
    except Exception as error:  # the library raises nothing more exact
        raise Refused(_problem(model, f"{written} cannot be read: {error}", "a tokenizer.json")) from error
    made.no_truncation()  # a file may ask for both, and would then count too little or too much
    made.no_padding()
    made.encode_special_tokens = True  # a mark inside of a text may be spelled out by the server
    return Tokenizer(path.name, lambda text: len(made.encode(text, add_special_tokens=False).ids))


def _problem(model: Model, wrong: str, right: str) -> Problem:
    return Problem(EXPERIMENT, f"models.{model.name}.tokenizer", wrong, right)
