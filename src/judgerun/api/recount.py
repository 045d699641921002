"""Recount: the output tokens of replies counted anew from their texts, by a tokenizer or the server's own; kept on record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from judgerun.api.evidence import gather
from judgerun.api.offline import view
from judgerun.api.project import Project
from judgerun.audit.evidence import Evidence
from judgerun.audit.lengths import doubtful
from judgerun.dispatch.clock import WallClock
from judgerun.errors import EXPERIMENT, Problem, Refused
from judgerun.files.toml import pointing
from judgerun.model.experiment import Model
from judgerun.model.request import RequestKey, build
from judgerun.plan.requests import SERVER
from judgerun.ports import Provider
from judgerun.providers.open import connect
from judgerun.store.inline import Inline

KIND = "recount"
"""Events of this kind hold, by the hex digits of its key, what a reply's text counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recounted:
    """How many replies were counted anew, and those that no tokenizer would count."""

    counted: int
    refused: int


async def recount(project: Project) -> Recounted:
    """Count anew the replies whose length is not known, and those that stand at their cap without saying so. A model's own server
    is asked where its `tokenizer` is "server": that costs nothing. Refused where a model with such replies has no tokenizer.
    """
    with view(project) as held:
        evidence = gather(project, held, present=True).evidence
    wanted = list(_wanted(evidence))
    with pointing(project.loaded.path):
        found = await _counted(project, wanted)
    if found:
        async with Inline.open(project.workspace.cache, clock=WallClock()) as cache:
            detail = json.dumps({key.hex(): tokens for key, tokens in found.items()})
            await cache.note(KIND, project.name, detail, experiment=project.name)
    return Recounted(counted=len(found), refused=len(wanted) - len(found))


def _wanted(evidence: Evidence) -> Iterator[tuple[RequestKey, Model, str]]:
    """The replies to be counted, each once, with the model that wrote them and their text."""
    seen = set(evidence.recounts)
    for row in doubtful(evidence):
        outcome = row.outcome
        if (
            outcome is None
            or outcome.kept is None
            or outcome.key is None
            or outcome.model is None
            or outcome.key in seen
        ):
            continue
        if (model := evidence.model(outcome.model)) is not None:
            seen.add(outcome.key)
            yield outcome.key, model, outcome.kept.reply.text


async def _counted(project: Project, wanted: list[tuple[RequestKey, Model, str]]) -> Mapping[RequestKey, int]:
    count = project.count()
    models = {model.name: model for _, model, _ in wanted}
    lacking = [model for model in models.values() if model.tokenizer != SERVER and count(model) is None]
    if lacking:
        wrong = "its replies cannot be counted anew: it has no tokenizer here"
        right = 'tokenizer = "server", "tiktoken:NAME", or the path of a tokenizer.json'
        raise Refused([Problem(EXPERIMENT, f"models.{model.name}.tokenizer", wrong, right) for model in lacking])
    asked = [model for model in models.values() if model.tokenizer == SERVER]
    servers = connect([model.provider for model in asked], asked, project.workspace.environ) if asked else {}
    found: dict[RequestKey, int] = {}
    try:
        for key, model, text in wanted:
            own = count(model)
            tokens = await _ask(servers[model.provider.name], model, text) if own is None else own.tokens(text)
            if tokens is not None:
                found[key] = tokens
    finally:
        for server in servers.values():
            await server.aclose()
    return found


async def _ask(server: Provider, model: Model, text: str) -> int | None:
    if not text:
        return 0
    payload = {"model": model.model, "messages": [{"role": "user", "content": text}]}
    return await server.count(build("chat", payload, deployment=model.provider.key_part, adapter=KIND, draw=1))
