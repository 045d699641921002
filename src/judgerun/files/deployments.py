"""Providers and models as written -> Deployment and Model; the built-in deployments stand here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from judgerun.files.faults import Faults, hint
from judgerun.files.lines import Path as KeyPath
from judgerun.files.names import slug
from judgerun.files.schema import ModelShape, ParameterShape, ProviderShape
from judgerun.files.tariff import price_spec
from judgerun.model.experiment import Deployment, Model

DIALECTS = ("openai", "openai-responses", "anthropic", "google", "voyage", "cohere", "bedrock", "local")


def _builtin(name: str, base_url: str, *, key: str | None = None, sheet: str = "") -> Deployment:
    """A provider that everybody can name: its dialect has its own name, or is openai's."""
    return Deployment(
        name=name,
        dialect=name if name in DIALECTS else "openai",
        base_url=base_url,
        api_key_env=f"{key or name.upper()}_API_KEY",
        builtin=True,
        sheet=sheet,
    )


BUILTIN: Mapping[str, Deployment] = {
    deployment.name: deployment
    for deployment in (
        _builtin("openai", "https://api.openai.com/v1"),
        _builtin("openai-responses", "https://api.openai.com/v1", key="OPENAI", sheet="openai"),
        _builtin("anthropic", "https://api.anthropic.com/v1"),
        _builtin("google", "https://generativelanguage.googleapis.com/v1beta", key="GEMINI"),
        _builtin("deepseek", "https://api.deepseek.com/v1"),
        _builtin("openrouter", "https://openrouter.ai/api/v1"),
        _builtin("deepinfra", "https://api.deepinfra.com/v1/openai"),
        _builtin("mistral", "https://api.mistral.ai/v1"),
        _builtin("groq", "https://api.groq.com/openai/v1"),
        _builtin("together", "https://api.together.xyz/v1"),
        _builtin("novita", "https://api.novita.ai/v3/openai"),
        _builtin("voyage", "https://api.voyageai.com/v1", sheet="voyageai"),
        _builtin("cohere", "https://api.cohere.com/v2"),
        Deployment(name="local", dialect="local", builtin=True),
    )
}


def sheet_name(name: str) -> str:
    """`provider/model` as the price sheet spells it: some built-in providers have another name there."""
    provider, slash, model = name.partition("/")
    place = BUILTIN.get(provider)
    return f"{place.sheet}/{model}" if slash and place is not None and place.sheet else name


#: Body fields that `extra` may not hold: each has a key of its own, or would break the bound on a call's price or its reading.
_OWNED = {
    "model": "the key `model`",
    "messages": "a prompt file",
    "input": "an embed stage",
    "temperature": "the key `temperature`",
    "max_tokens": "the key `max_output_tokens` (and `cap_field`)",
    "max_completion_tokens": "the key `max_output_tokens` (and `cap_field`)",
    "n": "the key `draws` of the stage",
    "stream": "the key `stream`",
    "dimensions": "the key `dimensions`",
}
_SECRET = re.compile(r"(api[-_]?)?key|token|secret|password|auth|credential|sig(nature)?", re.IGNORECASE)
_ENV = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_deployments(faults: Faults, written: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Deployment]:
    """Every deployment that models may name: the built-in ones, under those that the file declares."""
    deployments = dict(BUILTIN)
    for name, raw in written.items():
        path: KeyPath = ("providers", name)
        slug(faults, path, "provider", name)
        shape = faults.read(ProviderShape, raw, path)
        if shape is not None:
            deployments[name] = _deployment(faults, path, name, shape, environ)
    return deployments


def _deployment(
    faults: Faults, path: KeyPath, name: str, shape: ProviderShape, environ: Mapping[str, str]
) -> Deployment:
    if shape.dialect not in DIALECTS:
        faults.unknown((*path, "dialect"), "dialect", shape.dialect, DIALECTS)
    if shape.price is not None and shape.price_as is not None:
        faults.add((*path, "price_as"), "price and price_as are both given", "one of them")
    if shape.price_as is not None and "/" not in shape.price_as:
        faults.add((*path, "price_as"), f"{shape.price_as!r} names no price", '"provider/model", as in the sheet')
    if shape.api_key_env is not None and not _ENV_NAME.fullmatch(shape.api_key_env):
        # The text is not repeated: it may be the key itself.
        faults.add((*path, "api_key_env"), "this is no NAME of an environment variable", 'a name, such as "LAB_KEY"')
    if shape.identity is not None and not shape.identity.strip():
        faults.add((*path, "identity"), "identity is empty", "a name that stands for this deployment in request keys")
    return Deployment(
        name=name,
        dialect=shape.dialect,
        base_url=_base_url(faults, path, shape, environ),
        identity=shape.identity,
        api_key_env=shape.api_key_env,
        price=None if shape.price is None else price_spec(faults, (*path, "price"), shape.price),
        price_as=shape.price_as,
        cap_field=shape.cap_field,
        like=shape.like,
        thinking=shape.thinking,
        reasoning=shape.reasoning,
        answer=tuple(shape.answer),
    )


def _base_url(faults: Faults, path: KeyPath, shape: ProviderShape, environ: Mapping[str, str]) -> str:
    """The address with ${ENV} replaced and no slash at its end; "" (and a problem) where it cannot be used."""
    here = (*path, "base_url")
    if shape.base_url is None:
        if shape.dialect != "local":
            faults.add(path, "the key 'base_url' is missing", "the address of the server, up to and with /v1")
        return ""
    names = _ENV.findall(shape.base_url)
    if names and shape.identity is None:
        faults.add(here, "${...} needs identity: request keys must not hang on the environment", 'identity = "..."')
    unset = [name for name in names if not environ.get(name)]
    for name in unset:
        faults.add(here, f"the environment variable {name} is not set", f"export {name}=...")
    if unset:
        return ""
    url = _ENV.sub(lambda found: environ[found[1]], shape.base_url).rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and "$" not in url and parts.port != 0
    except ValueError:
        faults.add(here, "this is no address", 'such as "http://127.0.0.1:8000/v1"')
        return ""
    if parts.username or parts.password or any(_SECRET.fullmatch(key) for key, _ in parse_qsl(parts.query)):
        faults.add(here, "the address holds a credential", "api_key_env, with the key in the environment")
        return ""
    if not usable:
        faults.add(here, "this is no http(s) address", 'such as "http://127.0.0.1:8000/v1"')
        return ""
    if parts.query or parts.fragment:
        faults.add(here, "an address with ? or # cannot take the path of a call", "the part before it")
    return url


def read_models(
    faults: Faults, written: Mapping[str, Any], deployments: Mapping[str, Deployment]
) -> dict[str, Model | None]:
    """Every model that stages may name; None for one whose table is wrong (it is named all the same)."""
    models = {name: _model(faults, ("models", name), name, raw, deployments) for name, raw in written.items()}
    for name, model in models.items():
        if model is not None and model.failover is not None:
            _check_failover(faults, name, model.failover, models)
    return models


def _check_failover(faults: Faults, name: str, failover: str, models: Mapping[str, Model | None]) -> None:
    """A failover is another model of the file, and a chain of them ends."""
    here: KeyPath = ("models", name, "failover")
    if failover not in models:
        faults.unknown(here, "model", failover, models)
        return
    met, at = [name], failover
    while at not in met:
        met.append(at)
        model = models.get(at)
        if model is None or model.failover is None:
            return
        at = model.failover
    if at == name:  # a circle is told of each model in it, and of none that only leads to it
        circle = "the model itself" if failover == name else f"a circle: {' -> '.join((*met, at))}"
        faults.add(here, f"the failover is {circle}", "another model, with which the chain ends")


def _model(
    faults: Faults, path: KeyPath, name: str, raw: object, deployments: Mapping[str, Deployment]
) -> Model | None:
    slug(faults, path, "model", name)
    shape = faults.read(ModelShape, raw, path)
    if shape is None:
        return None
    deployment = deployments.get(shape.provider)
    if deployment is None:
        faults.add(
            (*path, "provider"), f"there is no provider {shape.provider!r}", hint(shape.provider, tuple(deployments))
        )
        return None
    if not shape.model.strip():
        faults.add((*path, "model"), "model is empty", "the provider's own id of the model")
    _check_words(faults, path, shape)
    model = Model(
        name=name,
        provider=deployment,
        model=shape.model,
        lineage=shape.lineage,
        dimensions=shape.dimensions,
        instruction={} if shape.instruction is None else shape.instruction.model_dump(),
        input_type=shape.input_type,
        normalize=shape.normalize,
        max_input_tokens=shape.max_input_tokens,
        stream=shape.stream,
        tokenizer=shape.tokenizer,
        lane=shape.lane,
        failover=shape.failover,
    )
    return with_parameters(faults, path, model, shape)


def _check_words(faults: Faults, path: KeyPath, shape: ModelShape) -> None:
    if isinstance(shape.input_type, dict) and set(shape.input_type) != {"query", "document"}:
        faults.add(
            (*path, "input_type"), "input_type names the two roles of a text", '{ query = "...", document = "..." }'
        )


def with_parameters(faults: Faults, path: KeyPath, model: Model, shape: ParameterShape) -> Model:
    """The model with those parameters that the shape sets, each replacing the key as a whole."""
    changes: dict[str, Any] = {}
    for key in ("temperature", "max_output_tokens", "thinking"):
        if key in shape.model_fields_set:
            changes[key] = getattr(shape, key)
    if shape.temperature is not None and not 0 <= shape.temperature <= 2:
        faults.add((*path, "temperature"), f"{shape.temperature} is out of range", "from 0 to 2")
    if shape.extra is not None:
        changes["extra"] = shape.extra
        for key in shape.extra.keys() & _OWNED.keys():
            faults.add((*path, "extra", key), f"extra may not hold {key!r}", f"that is said by {_OWNED[key]}")
    if shape.cap_field is not None:
        changes["provider"] = replace(model.provider, cap_field=shape.cap_field)
    return replace(model, **changes)
