"""Profiles and connecting: what is refused, all at once and before any call."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from judgerun.errors import Refused
from judgerun.model.experiment import Deployment, Model
from judgerun.model.profile import JobLimits, Profile
from judgerun.providers import open as opening


def a_deployment(name: str = "lab", **changes: object) -> Deployment:
    held: dict[str, object] = {
        "dialect": "openai",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key_env": "LAB_KEY",
        **changes,
    }
    return Deployment(name=name, **held)  # type: ignore[arg-type]


def refused(deployments: list[Deployment], models: list[Model], environ: dict[str, str]) -> list[str]:
    with pytest.raises(Refused) as caught:
        opening.connect(deployments, models, environ)
    return [str(problem) for problem in caught.value.problems]


def test_every_problem_is_named_at_once() -> None:
    """Missing keys, an address that is none, credentials in an address, a dialect of later."""
    told = refused(
        [
            a_deployment("one"),
            a_deployment("two", base_url="127.0.0.1:9", api_key_env=None),
            a_deployment("three", base_url="https://me:secret99@host/v1", api_key_env=None),
            a_deployment("four", dialect="telepathy"),
            a_deployment("five", api_key_env="BAD_KEY"),
        ],
        [
            Model(
                name="m", provider=Deployment(name="local", dialect="local"), model="package:no_such_package_here/model"
            )
        ],
        {"BAD_KEY": "a\x00b"},
    )
    told = [line for line in told if "needs sentence-transformers" not in line]  # said where the extra is not installed
    assert len(told) == 6
    assert "LAB_KEY" in told[0]
    assert "providers.two.base_url" in told[1]
    assert "providers.three.base_url" in told[2]
    assert "telepathy" in told[3]
    assert "BAD_KEY" in told[4]
    assert "pip install no-such-package-here" in told[5]
    assert "secret99" not in "".join(told)


@pytest.mark.parametrize("environ", [{}, {"LAB_KEY": ""}, {"LAB_KEY": "  \n"}])
def test_an_empty_key_is_a_missing_key(environ: dict[str, str]) -> None:
    """Exit 2 before any call."""
    (told,) = refused([a_deployment()], [], environ)
    assert told == "environment: LAB_KEY: is not set; provider lab needs its key (export LAB_KEY=...)"


@pytest.mark.parametrize(
    ("dialect", "changes", "key"),
    [
        ("openai", {"thinking": 2048}, "thinking"),
        ("openai", {"thinking": "maximal"}, "thinking"),
        ("local", {"temperature": 0}, "temperature"),
        ("local", {"dimensions": 64}, "dimensions"),
        ("local", {"thinking": "off"}, "thinking"),
        ("local", {"extra": {"a": 1}}, "extra"),
    ],
)
def test_a_parameter_that_the_adapter_cannot_send_is_refused(dialect: str, changes: dict[str, Any], key: str) -> None:
    """Never dropped in silence."""
    model = Model(name="m", provider=a_deployment(), model="m", **changes)
    with pytest.raises(Refused, match=rf"models\.m\.{key}: "):
        opening.profile(a_deployment(dialect=dialect), model)


def test_connecting_opens_nothing() -> None:
    """No socket, no loop: the first `send` does."""
    made = opening.connect([a_deployment()], [], {"LAB_KEY": "k" * 20})
    assert list(made) == ["lab"]
    asyncio.run(made["lab"].aclose())


def test_profiles_of_the_openai_dialect() -> None:
    """The cap covers reasoning, except where it has been seen not to."""
    model = Model(name="m", provider=a_deployment(), model="m")
    profile = opening.profile(a_deployment(), model)
    assert (profile.adapter, profile.reasoning, profile.chat, profile.embed) == ("openai/1", "inside", True, True)
    assert profile.thinking == {"off", "low", "medium", "high"}
    assert opening.profile(a_deployment("deepseek", builtin=True), model).reasoning == "unknown"


def test_a_dialect_of_later_has_no_profile() -> None:
    """Plan and check say so, not a traceback."""
    with pytest.raises(Refused, match="does not speak 'telepathy'"):
        opening.profile(a_deployment(dialect="telepathy"), Model(name="m", provider=a_deployment(), model="m"))


def test_the_batch_lane_needs_a_batch_api() -> None:
    """A provider without one, or one that takes no embeddings, is refused the lane; nothing is sent at full price instead."""
    batched = Model(name="m", provider=a_deployment(), model="m-1", lane="batch")
    plain = Profile(dialect="openai", adapter="openai/1", embed=True)
    limits = JobLimits(requests=10, bytes=1000, factor="0.5")
    (problem,) = opening.unable(batched, plain, "chat")
    assert str(problem) == (
        "experiment.toml: models.m.lane: lab has no batch API (leave it out: calls then go one by one, at full price)"
    )
    assert opening.unable(batched, replace(plain, jobs=limits), "chat") == []
    (problem,) = opening.unable(batched, replace(plain, jobs=limits), "embed")
    assert "no batch API for embeddings" in str(problem)
    assert opening.unable(batched, replace(plain, jobs=replace(limits, embed=True)), "embed") == []
