"""Faults: the ways in which a provider goes wrong, their names, and which one befalls a call; no socket may stand here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from judgerun.simulate import chance

SWARM_RATE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`billed`: whether the provider charges for the call all the same. `kind`: the calls that it can befall."""

    billed: bool = True
    kind: Literal["any", "chat", "embed", "job"] = "any"


FAULTS: Mapping[str, Fault] = {
    "429": Fault(billed=False),  # too many requests, Retry-After in seconds
    "429_date": Fault(billed=False),  # too many requests, Retry-After as an HTTP date
    "429_absent": Fault(billed=False),  # too many requests, no Retry-After
    "429_absurd": Fault(billed=False),  # too many requests, Retry-After of thirty years
    "quota": Fault(billed=False),  # the account is out of money
    "401": Fault(billed=False),  # the key is not accepted
    "500": Fault(billed=False),  # internal error
    "502": Fault(billed=False),  # bad gateway, an HTML body
    "503": Fault(billed=False),  # not available, an empty body
    "529": Fault(billed=False),  # overloaded
    "504": Fault(),  # a gateway stopped waiting; what stands behind it went on, and charges
    "drop_before": Fault(billed=False),  # closed before anything was generated
    "drop_after": Fault(),  # generated and charged, then closed before the headers
    "drop_mid": Fault(),  # closed in the middle of the body
    "drop_end": Fault(),  # closed right after the whole body
    "stall": Fault(),  # generated and charged, the answer comes after ten minutes
    "slow": Fault(),  # the first byte takes twenty seconds more
    "trickle": Fault(),  # the body comes in pieces, one a second
    "garbage": Fault(),  # a 200 whose body is no JSON
    "truncated": Fault(),  # a 200 whose JSON ends too early, or a stream that ends in the middle as if it were whole
    "error_200": Fault(),  # a 200 with an error in its body, or in the middle of its stream
    "retry_after_200": Fault(),  # a 200 that names a Retry-After
    "stated_limits": Fault(),  # a 200 whose headers say that no more is left
    "oversized": Fault(),  # a body of more bytes than anyone wants
    "skew": Fault(),  # a date header that is a day off
    "other_model": Fault(),  # the answer names another model
    "usage_missing": Fault(),  # no usage
    "usage_zero": Fault(),  # usage of 0 tokens
    "overrun": Fault(),  # charges three times the output cap, or the input
    "no_choices": Fault(kind="chat"),  # no choices
    "finish_missing": Fault(kind="chat"),  # no finish reason
    "finish_null": Fault(kind="chat"),  # a finish reason that is null
    "finish_new": Fault(kind="chat"),  # a finish reason that nobody has seen before
    "filter": Fault(kind="chat"),  # the output was filtered away
    "refusal": Fault(kind="chat"),  # the model refuses
    "block": Fault(kind="chat"),  # a policy blocked the prompt: nothing was made
    "empty": Fault(kind="chat"),  # an empty answer that says it finished
    "no_parts": Fault(kind="chat"),  # the hidden reasoning ate the whole cap: no part of an answer
    "reasoning_content": Fault(
        kind="chat"
    ),  # the answer stands where the reasoning should, and nothing in its own place
    "think_tag": Fault(kind="chat"),  # the reasoning stands in tags before the answer
    "duplicate": Fault(),  # one answer twice
    "vector_size": Fault(kind="embed"),  # a vector of another size
    "vector_nan": Fault(kind="embed"),  # a vector with a NaN
    "vector_permuted": Fault(kind="embed"),  # vectors in another order, with their right indices
    "job_submit_lost": Fault(kind="job"),  # the job was taken, and the response is cut
    "job_fail": Fault(kind="job"),  # the whole job is refused for a limit of enqueued tokens, and nothing of it is done
    "job_partial": Fault(kind="job"),  # some of its lines end with an error
    "job_expire": Fault(kind="job"),  # its time is over when half of it is done
    "job_missing_line": Fault(kind="job"),  # a line is done, charged, and not among the results
    "job_duplicate_line": Fault(kind="job"),  # a line stands twice among the results
}


def parse(text: str, seed: int) -> dict[str, float]:
    """Weights from `drop_after=0.02,429=0.05`; `swarm` (or `swarm=0.3`) stands for some faults by seed.

    Raises ValueError that names what is wrong.
    """
    weights: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = part.partition("=")
        try:
            weight = float(number) if number else SWARM_RATE if name == "swarm" else float("nan")
        except ValueError:
            weight = float("nan")
        if not 0 <= weight <= 1:
            raise ValueError(f"{part!r}: a fault is written name=weight with a weight from 0 to 1")
        if name == "swarm":
            weights.update(swarm(seed, weight))
        elif name in FAULTS:
            weights[name] = weight
        else:
            raise ValueError(f"{name!r} is no fault; there are: swarm, {', '.join(FAULTS)}")
    if sum(weights.values()) > 1 + 1e-9:
        raise ValueError(f"the weights sum to {sum(weights.values()):g}, more than 1")
    return weights


def swarm(seed: int, rate: float) -> dict[str, float]:
    """Some faults, each in with one chance in four, that together befall `rate` of the calls: runs differ in kind too.

    Faults that end a run by design (`quota`, `401`, `overrun`) and those of jobs alone stay out; name them if they are wanted.
    """
    names = [name for name in FAULTS if name not in ("quota", "401", "overrun") and FAULTS[name].kind != "job"]
    chosen = [name for name in names if chance.uniform(seed, "swarm", name) < 0.25]
    return {name: rate / len(chosen) for name in chosen} if chosen else {}


def befall(weights: Mapping[str, float], seed: int, kind: str, digest: str, nth: int) -> str | None:
    """The fault of the `nth` call with this body, or None: the same whatever else arrives, in whatever order."""
    draw = chance.uniform(seed, "fault", digest, nth)
    for name, weight in weights.items():
        draw -= weight
        if draw < 0:
            return name if FAULTS[name].kind in ("any", kind) else None
    return None
