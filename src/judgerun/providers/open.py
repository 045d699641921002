"""Open: from deployments, models and the environment to Profiles and Providers; what a person has wrong is refused here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from judgerun.errors import EXPERIMENT, Problem, Refused
from judgerun.model.experiment import Deployment, Model
from judgerun.model.profile import Profile
from judgerun.ports import Provider
from judgerun.providers import anthropic, bedrock, cohere, facts, google, local, openai, responses, voyage
from judgerun.providers.jobs import anthropic as messagebatches
from judgerun.providers.jobs import google as operations
from judgerun.providers.jobs import openai as batches
from judgerun.providers.jobs.driver import Codec
from judgerun.providers.remote import Dialect, Remote
from judgerun.providers.secrets import Scrub, of_url
from judgerun.providers.wire import BODY_BYTES_MAX

if TYPE_CHECKING:
    from judgerun.providers.http import Http

DIALECTS: Mapping[str, Dialect] = {
    "anthropic": anthropic,
    "bedrock": bedrock,
    "cohere": cohere,
    "google": google,
    "openai": openai,
    "openai-responses": responses,
    "voyage": voyage,
}
"""Dialects over HTTP; `local` needs none."""

CODECS: Mapping[str, Codec] = {
    "anthropic": messagebatches,
    "google": operations,
    "openai": batches,
    "openai-responses": batches,
}
"""The batch APIs of dialects; whether a deployment has one stands in its profile."""

UNFIT: Mapping[str, Callable[[Model], Iterable[Problem]]] = {
    "anthropic": anthropic.unfit,
    "bedrock": bedrock.unfit,
    "openai-responses": responses.unfit,
}
"""Of some dialects, what the API would refuse in keys that each would be taken alone."""

OTHERS: Mapping[str, tuple[str, ...]] = {
    "chat": ("dimensions", "instruction", "input_type", "normalize", "max_input_tokens"),
    "embed": ("temperature", "max_output_tokens", "thinking", "stream"),
}
"""The keys of a model that a call of this kind does not carry."""

PARAMETERS = (*OTHERS["embed"], "extra", *OTHERS["chat"])
"""All keys of a model that change what is sent."""

ENVIRONMENT = "environment"


def profile(deployment: Deployment, model: Model) -> Profile:
    """The facts of a model at a deployment, for plan and files. Reads the weights of local models, else nothing; needs no key.

    Raises Refused for a dialect that judgerun does not speak, for a deployment like no known server or with a rule for answers that
    is none, for a parameter that cannot be sent, and for a local model that is not there.
    """
    known = local.PROFILE if deployment.dialect == "local" else _dialect(deployment).profile(deployment)
    wrong = [*facts.problems(deployment, known.owned), *unsent(model, known)]
    if wrong:
        raise Refused(wrong)
    return local.profile(model) if deployment.dialect == "local" else known


def unsent(model: Model, known: Profile) -> list[Problem]:
    """The keys of a model (or of an arm's model) that its adapter cannot send: dropping one in silence would change the study."""
    found = []
    for key in PARAMETERS:
        if key not in known.parameters and _says(model, key):
            wrong = f"the dialect {known.dialect!r} cannot send {key}"
            found.append(Problem(EXPERIMENT, f"models.{model.name}.{key}", wrong, "leave it out"))
    for key in sorted(known.required):
        if getattr(model, key) is None:
            wrong = f"the dialect {known.dialect!r} cannot send a call without it"
            found.append(Problem(EXPERIMENT, f"models.{model.name}.{key}", wrong, "write it"))
    if model.thinking is not None and "thinking" in known.parameters and not _thinks(model.thinking, known):
        wrong = f"{model.provider.name} does not take {model.thinking!r}"
        found.append(Problem(EXPERIMENT, f"models.{model.name}.thinking", wrong, _choices(known)))
    if known.dialect in UNFIT:
        found += UNFIT[known.dialect](model)
    return found + list(_lacking(model, known))


def _says(model: Model, key: str) -> bool:
    """Whether the file gives a model this key."""
    value = getattr(model, key)
    return value is not None and value is not False and value != {}


def unable(model: Model, known: Profile, kind: Literal["chat", "embed"]) -> list[Problem]:
    """Why a model cannot serve a stage of this kind: its dialect has no such call, or cannot make one without a key."""
    if not (known.chat if kind == "chat" else known.embed):
        wrong = f"the dialect {known.dialect!r} has no {'chat' if kind == 'chat' else 'embeddings'} at this provider"
        return [Problem(EXPERIMENT, f"models.{model.name}.provider", wrong, "a provider that has")]
    if model.lane == "batch" and (known.jobs is None or (kind == "embed" and not known.jobs.embed)):
        wrong = f"{model.provider.name} has no batch API" + (" for embeddings" if known.jobs else "")
        right = "leave it out: calls then go one by one, at full price"
        return [Problem(EXPERIMENT, f"models.{model.name}.lane", wrong, right)]
    missing = [key for key in sorted(known.required_embed) if kind == "embed" and not getattr(model, key)]
    wrong = f"the dialect {known.dialect!r} cannot embed a text without it"
    found = [Problem(EXPERIMENT, f"models.{model.name}.{key}", wrong, "write it") for key in missing]
    for key in OTHERS[kind]:
        if _says(model, key):
            wrong = "a chat call carries no such key" if kind == "chat" else "an embedding call carries no such key"
            found.append(
                Problem(EXPERIMENT, f"models.{model.name}.{key}", wrong, "leave it out, or name another model")
            )
    return found


def _lacking(model: Model, known: Profile) -> Iterator[Problem]:
    """What is asked of a model that, by its id, does not take it."""
    for lack in known.lacks:
        said = _written(model, lack.key)
        own = lack.key == "thinking" and model.provider.switch(said) is not None  # its deployment knows better
        nothing = said is None or (
            said in (False, {}, []) and not lack.key.startswith("extra.")
        )  # there a 0 says something
        if own or nothing or not re.match(lack.models, model.model.rpartition("/")[2]):
            continue
        words = (
            said if isinstance(said, list) else ["tokens" if lack.key == "thinking" and isinstance(said, int) else said]
        )
        if not words or not {str(word) for word in words} <= lack.takes:
            field = lack.key.removeprefix("extra.")
            owned = field != lack.key and not lack.takes
            wrong = f"extra may not hold {field!r}" if owned else f"the model {model.model!r} does not take {said!r}"
            yield Problem(EXPERIMENT, f"models.{model.name}.{lack.key}", wrong, lack.right)


def _written(model: Model, key: str) -> Any:
    """The value of a key of a model, or of a field inside its `extra`."""
    name, *path = key.split(".")
    held = getattr(model, name)
    for part in path:
        held = held.get(part) if isinstance(held, Mapping) else None
    return held


def _thinks(asked: str | int, known: Profile) -> bool:
    return str(asked) in known.thinking or (isinstance(asked, int) and "tokens" in known.thinking)


def _choices(known: Profile) -> str:
    words = [word for word in facts.WORDS if word in known.thinking]
    return "one of " + ", ".join([*words, *(["a number of tokens"] if "tokens" in known.thinking else [])])


def problems(deployments: Iterable[Deployment], models: Iterable[Model], environ: Mapping[str, str]) -> list[Problem]:
    """Everything that would keep these deployments from being called: dialects, addresses, keys, local models."""
    found = [problem for deployment in deployments for problem in _wrong(deployment, environ)]
    for model in models:
        found += local.problems(model) if model.provider.dialect == "local" else []
    return found


def connect(
    deployments: Iterable[Deployment],
    models: Iterable[Model],
    environ: Mapping[str, str],
    *,
    body_bytes_max: int = BODY_BYTES_MAX,
) -> Mapping[str, Provider]:
    """A Provider for each deployment, by its name. Nothing is sent, and no connection is made, before the first `send`.

    `models` are all models of all arms. Raises Refused with every problem at once: a key that is not in the environment,
    a base URL that is none, a local model that is not there.
    """
    deployments, models = list(deployments), list(models)
    wrong = problems(deployments, models, environ)
    if wrong:
        raise Refused(wrong)
    from judgerun.providers.http import Http, Ramp  # brings aiohttp, which only calls need

    scrub = scrubber(deployments, environ)
    ramp = Ramp()
    made: dict[str, Provider] = {}
    for deployment in deployments:
        own = [model for model in models if model.provider.name == deployment.name]
        if deployment.dialect == "local":
            made[deployment.name] = local.Local(own)
        else:
            headers = _dialect(deployment).authorise(_key(deployment, environ), deployment)
            http = Http(deployment.base_url, headers=headers, scrub=scrub, ramp=ramp, body_bytes_max=body_bytes_max)
            made[deployment.name] = _remote(deployment, http, scrub)
    return made


def scrubber(deployments: Iterable[Deployment], environ: Mapping[str, str]) -> Scrub:
    """What removes the keys and URL credentials of these deployments from logs, tracebacks and reports."""
    secrets: list[str] = []
    for deployment in deployments:
        key = _key(deployment, environ)
        secrets += [key] if key else []
        secrets += of_url(deployment.base_url)
    return Scrub(secrets)


def _remote(deployment: Deployment, http: Http, scrub: Scrub) -> Remote:
    dialect = _dialect(deployment)
    return Remote(
        deployment=deployment,
        dialect=dialect,
        profile=dialect.profile(deployment),
        http=http,
        scrub=scrub,
        codec=CODECS.get(deployment.dialect),
    )


def _dialect(deployment: Deployment) -> Dialect:
    dialect = DIALECTS.get(deployment.dialect)
    if dialect is None:
        raise Refused(_unspoken(deployment))
    return dialect


def _unspoken(deployment: Deployment) -> Problem:
    right = f"one of {', '.join([*sorted(DIALECTS), 'local'])}"
    wrong = f"judgerun does not speak {deployment.dialect!r}"
    return Problem(EXPERIMENT, f"providers.{deployment.name}.dialect", wrong, right)


def _wrong(deployment: Deployment, environ: Mapping[str, str]) -> list[Problem]:
    if deployment.dialect == "local":
        return []
    if deployment.dialect not in DIALECTS:
        return [_unspoken(deployment)]
    found = []
    place = f"providers.{deployment.name}.base_url"
    parts = urlsplit(deployment.base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        found.append(Problem(EXPERIMENT, place, "is no http or https address", 'for example "https://host/v1"'))
    elif of_url(deployment.base_url) and deployment.identity is None:
        wrong = "holds credentials, which would enter the request keys"
        found.append(Problem(EXPERIMENT, place, wrong, "api_key_env, with the key in the environment"))
    name = deployment.api_key_env
    if name is not None:
        key = environ.get(name, "").strip()
        if not key:
            wrong = f"is not set; provider {deployment.name} needs its key"
            found.append(Problem(ENVIRONMENT, name, wrong, f"export {name}=..."))
        elif not (key.isascii() and key.isprintable()):
            found.append(Problem(ENVIRONMENT, name, "holds characters that no key has", "export the key alone"))
    return found


def _key(deployment: Deployment, environ: Mapping[str, str]) -> str | None:
    name = deployment.api_key_env
    return (environ.get(name, "").strip() or None) if name else None
