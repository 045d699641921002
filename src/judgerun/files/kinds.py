"""The shape of a stage, one class for each kind, and the advice for a stage key that a table below it took in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from judgerun.files.lines import Path as KeyPath
from judgerun.files.schema import ExperimentShape, ParameterShape
from judgerun.files.written import Count, Number, Scalar, Texts, Written

CHAT = ("judge", "solve", "grade", "rewrite", "generate")
Take = Literal["first", "last"]
Share = Number


class ChoiceShape(Written):
    """`parse = { kind = "choice" }`"""

    kind: Literal["choice"]
    low: int | None = None
    high: int | None = None
    take: Take = "last"
    marker: str | None = None


class ScoreShape(Written):
    """`parse = { kind = "score" }`"""

    kind: Literal["score"]
    low: int
    high: int
    take: Take = "last"
    marker: str | None = None


class LabelShape(Written):
    """`parse = { kind = "label" }`"""

    kind: Literal["label"]
    values: list[str]
    between: list[str] | None = None
    take: Take = "last"
    marker: str | None = None


class JsonShape(Written):
    """`parse = { kind = "json" }`"""

    kind: Literal["json"]
    schema_: str | None = Field(default=None, alias="schema")
    value: Texts = Field(default_factory=list)
    marker: str | None = None


class TextShape(Written):
    """`parse = { kind = "text" }`"""

    kind: Literal["text"]
    strip: bool = False
    unquote: bool = False
    marker: str | None = None


ParseShape = ChoiceShape | ScoreShape | LabelShape | JsonShape | TextShape
PARSES: dict[str, type[ParseShape]] = {
    "choice": ChoiceShape,
    "score": ScoreShape,
    "label": LabelShape,
    "json": JsonShape,
    "text": TextShape,
}


class GateShape(Written):
    """`gate`: limits beyond which a condition stops"""

    truncated: Share | None = None
    empty: Share | None = None
    unparsed: Share | None = None
    refused: Share | None = None
    failed: Share | None = None
    length: Share | None = None
    cost: Number | None = None
    difference: Share | None = None
    after: Count = 20


class JoinShape(Written):
    """`with.NAME`"""

    table: str
    by: str | None = None
    gold: str | None = None
    rank: Count | None = None


class VariantShape(Written):
    """`[stage.variant.NAME]`"""

    with_: dict[str, JoinShape] = Field(default_factory=dict, alias="with")


class RoundsShape(Written):
    """`rounds`"""

    max: Count
    until: str | None = None
    carry: str | None = None
    as_: str | None = Field(default=None, alias="as")


class CanaryShape(Written):
    """`canaries`: a rate, or a table with one"""

    rate: Share
    reference: str | None = None


def _rated(value: Any) -> Any:
    return value if isinstance(value, dict) else {"rate": value}


class StageShape(Written):
    """What every stage may hold."""

    name: str
    kind: str
    where: str | None = None
    sample: Count | None = None
    slices: Texts = Field(default_factory=list)
    write: str | None = None


class FedShape(StageShape):
    """A stage that takes the rows of other tables as they are."""

    from_: Texts = Field(alias="from")
    admit: list[str] = Field(default_factory=lambda: ["stop"])
    missing: str = "drop"


class ArmShape(Written):
    """The keys of a chat stage that may differ from arm to arm."""

    parse: dict[str, Any] | None = None
    vars: dict[str, Any] | None = None
    draws: Count | None = None
    orders: list[str] | None = None
    expect: str | None = None
    gold: Texts | None = None
    admit: list[str] | None = None
    missing: str | None = None
    where: str | None = None
    sample: Count | None = None
    output_tokens_expected: Count | None = None
    gate: GateShape | None = None


class AtShape(ArmShape, ParameterShape):
    """`[stage.at."PATTERN"]`"""

    skip: bool = False


class ChatShape(FedShape):
    """judge solve grade rewrite generate"""

    models: Texts
    prompts: Texts
    with_: dict[str, JoinShape] = Field(default_factory=dict, alias="with")
    expect: str | None = None
    parse: dict[str, Any] | None = None
    vars: dict[str, Any] = Field(default_factory=dict)
    draws: Count = 1
    orders: list[str] = Field(default_factory=list)
    gold: Texts = Field(default_factory=list)
    output_tokens_expected: Count | None = None
    gate: GateShape | None = None
    at: dict[str, Any] = Field(default_factory=dict)
    variant: dict[str, Any] = Field(default_factory=dict)
    lineage: Literal["other"] | None = None
    panel: Count | None = None
    rounds: RoundsShape | None = None
    canaries: Annotated[CanaryShape, BeforeValidator(_rated)] | None = None


class EmbedShape(StageShape):
    """embed"""

    models: Texts
    queries: Texts = Field(default_factory=list)
    corpus: str | None = None
    admit: list[str] = Field(default_factory=lambda: ["stop"])
    missing: str = "drop"


class RankShape(StageShape):
    """What every retrieve stage may hold."""

    method: str
    k: Count | None = None
    gold: Texts = Field(default_factory=list)
    metrics: Texts = Field(default_factory=list)
    admit: list[str] = Field(default_factory=lambda: ["stop"])
    missing: str = "drop"


class DenseShape(RankShape):
    """retrieve with method dense"""

    from_: str = Field(alias="from")


class WordsShape(RankShape):
    """retrieve with method bm25"""

    queries: Texts
    corpus: str
    options: dict[str, Any] = Field(default_factory=dict)


class FusedShape(RankShape):
    """retrieve with method rrf"""

    fuse: list[str]
    depth: Count = 100
    rrf_k: Count = 60


class LexicalShape(RankShape):
    """retrieve with method lexical"""

    from_: Texts = Field(alias="from")
    query: str
    candidate: str
    vocabulary: Texts | None = None
    stopwords: Texts = Field(default_factory=list)


RANKS: dict[str, type[RankShape]] = {
    "dense": DenseShape,
    "bm25": WordsShape,
    "rrf": FusedShape,
    "lexical": LexicalShape,
}


class ExplodeRowsShape(Written):
    """`[[stage.rows]]`"""

    each: Texts
    fields: dict[str, Any] = Field(default_factory=dict)


class ExplodeShape(FedShape):
    """explode"""

    rows: list[ExplodeRowsShape]
    at_most: Count | None = None


class PairShape(FedShape):
    """pair"""

    by: str
    of: str
    against: str = "all"


class FoldShape(FedShape):
    """fold"""

    over: str
    by: str | None = None
    value: Texts = Field(default_factory=lambda: ["value"])
    rule: Literal["agree", "any", "all", "majority", "mean", "median", "list"]
    at_least: Count | None = None
    otherwise: Scalar | None = None


class MapShape(FedShape):
    """map"""

    call: str
    whole: bool = False
    rows_max: Count | None = None


KINDS: dict[str, type[StageShape]] = {
    **dict.fromkeys(CHAT, ChatShape),
    "embed": EmbedShape,
    "explode": ExplodeShape,
    "pair": PairShape,
    "fold": FoldShape,
    "map": MapShape,
}
KIND_WORDS = (*KINDS, "retrieve")


def _keys(shape: type[Written]) -> set[str]:
    return {info.alias or name for name, info in shape.model_fields.items()}


_STAGE_KEYS = frozenset().union(*(_keys(shape) for shape in (*KINDS.values(), *RANKS.values())))
_TOP_KEYS = frozenset(_keys(ExperimentShape)) - {"name", "data", "stage"}


def strayed(path: KeyPath) -> str:
    """The advice for a key that stands below a table head and so belongs to that table; "" for any other."""
    word = path[-1]
    if len(path) > 3 and path[0] == "stage" and word in _STAGE_KEYS:
        head = ".".join(["stage", *(str(key) for key in path[2:-1] if isinstance(key, str))])
        return f"this key stands below [{head}] and so belongs to it; move it above, into the stage"
    if len(path) > 1 and word in _TOP_KEYS:
        return "this key stands below a table head and so belongs to that table; move it to the top of the file"
    return ""
