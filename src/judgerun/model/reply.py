"""What came back of a call: Reply, Finish, Usage, Failure. Absent is None, never 0; an unknown finish is `unknown`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum

from judgerun.model.money import Nanos


class Finish(StrEnum):
    """Why generation ended, normalised; the provider's own word is kept beside it."""

    STOP = "stop"
    LENGTH = "length"
    FILTER = "filter"
    REFUSAL = "refusal"
    TOOL = "tool"
    ERROR = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens in disjoint buckets, as reported; None where the provider said nothing."""

    input_fresh: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None  # for five minutes, or for a time that the provider does not tell
    cache_write_1h: int | None = None  # for an hour
    output_visible: int | None = None
    reasoning: int | None = None

    @property
    def input(self) -> int | None:
        """All input tokens, cached ones included; None when fresh input is not known."""
        if self.input_fresh is None:
            return None
        return self.input_fresh + (self.cache_read or 0) + (self.cache_write or 0) + (self.cache_write_1h or 0)

    @property
    def output(self) -> int | None:
        """All output tokens, reasoning included; None when neither is known."""
        if self.output_visible is None and self.reasoning is None:
            return None
        return (self.output_visible or 0) + (self.reasoning or 0)


BUCKETS = tuple(bucket.name for bucket in fields(Usage))
"""The names of the buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer. A truncated reply is a reply: recorded and counted, never quietly asked again."""

    finish: Finish
    finish_raw: str | None = None
    text: str = ""  # the visible answer; empty for embeddings
    thoughts: str = (
        ""  # reasoning text, kept only of a reply that finished with no visible text: it may hold the answer
    )
    vector: bytes | None = None  # little-endian float32; None for chat
    usage: Usage = field(default_factory=Usage)
    served_model: str | None = None
    fingerprint: str | None = None
    reported_tokens: int | None = None  # the provider's own total, with which the buckets must agree
    reported_cost: Nanos | None = None  # what the provider itself said it charged
    raw: bytes = b""  # the body as received; for embeddings the envelope without vectors
    raw_digest: str = ""  # hex sha256 of the whole body as received
    input_cut: bool | None = None  # True when the embedder cut the text; None when not known

    @property
    def empty(self) -> bool:
        """No visible answer at all."""
        return self.vector is None and not self.text.strip()


class Billable(StrEnum):
    """Whether the provider may have charged for an attempt that gave no reply."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """Why an attempt gave no reply."""

    NOT_SENT = "not sent"  # no byte left: name resolution, connect, TLS
    TIMED_OUT = "timed out"  # sent, no whole answer by the deadline
    DISCONNECTED = "disconnected"  # sent, the connection broke
    MALFORMED = "malformed"  # 200 with a body that cannot be read as an answer
    OVERSIZED = "oversized"  # a body above the byte limit
    RATE_LIMITED = "rate limited"  # 429, the provider asks for patience
    OVERLOADED = "overloaded"  # 5xx, 529, 408, 409
    QUOTA = "quota"  # out of credit: nothing more will work
    UNAUTHORISED = "unauthorised"  # 401, 402, 403
    REJECTED = "rejected"  # 400, 404, 413, 422: the same request will fail again
    TOO_LONG = "too long"  # the input does not fit the model; known before or told by the provider
    INTERRUPTED = "interrupted"  # we stopped while it was in flight
    OWNER_DIED = "owner died"  # found open after a crash


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt gave no Reply. `detail` is scrubbed of keys before it is made."""

    cause: Cause
    billable: Billable
    status: int | None = None
    detail: str = ""
    retry_after: float | None = None  # seconds; "not before", never a reason to cut concurrency
    raw: bytes = b""


#: After these the same cell may be tried again.
RETRIABLE = frozenset(
    {
        Cause.NOT_SENT,
        Cause.TIMED_OUT,
        Cause.DISCONNECTED,
        Cause.MALFORMED,
        Cause.OVERSIZED,
        Cause.RATE_LIMITED,
        Cause.OVERLOADED,
        Cause.INTERRUPTED,  # told of a request alone in a job that somebody cancelled
    }
)
#: These do not count as a try; they obey a total wait limit instead.
UNCOUNTED = frozenset({Cause.NOT_SENT, Cause.RATE_LIMITED})
#: These close the provider: its cells stay pending, other providers go on.
CLOSING = frozenset({Cause.QUOTA, Cause.UNAUTHORISED})
