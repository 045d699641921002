"""Experiment and its parts as judgerun uses them: resolved, checked, frozen. Files make them; nothing here parses text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from judgerun.model.money import Nanos
from judgerun.model.profile import Reasoning

Finishes = tuple[str, ...]  # normalised finish words, and "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """A data table as written: where its rows come from."""

    name: str
    path: str = ""  # as written; empty when `stage` is given
    stage: str | None = None  # "other-experiment/pairs": a stage's table in this cache
    id: tuple[str, ...] = ("id",)
    columns: Mapping[str, str] = field(default_factory=dict)  # name here -> name in the file
    only: str | None = None
    sample: int | None = None
    block: str | None = None
    condition: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Nanos per million tokens of each bucket. None: the bucket has no rate of its own (cached tokens then cost as fresh
    input, reasoning as output).
    """

    input: Nanos
    output: Nanos
    cache_read: Nanos | None = None
    cache_write: Nanos | None = None  # for five minutes
    cache_write_1h: Nanos | None = None
    reasoning: Nanos | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier(Rates):
    """The rates of a call with more than `above` input tokens, cached ones included: for the whole call."""

    above: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(Rates):
    """Rates, and those of longer calls."""

    tiers: tuple[Tier, ...] = ()  # by rising `above`


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours(Scale):
    """The rates of a part of each day: from `start` to before `end`, in minutes after midnight UTC; over midnight where
    `end` is the earlier one.
    """

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSpec(Scale):
    """A price as written in an experiment or price file, or in the sheet."""

    hours: tuple[Hours, ...] = ()  # the first that holds stands in the place of the rates above
    batch_factor: str | None = (
        None  # decimal string: what a token in the batch lane costs, as a share of its usual price
    )
    batch: PriceSpec | None = None  # the rates of the batch lane, where they are told one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A provider as the experiment sees it: a dialect at an address."""

    name: str
    dialect: str
    base_url: str = ""  # with ${ENV} already replaced
    identity: str | None = None
    api_key_env: str | None = None  # the NAME of an environment variable
    price: PriceSpec | None = None
    price_as: str | None = None  # "provider/model" of the sheet
    cap_field: str | None = None  # body field of the output cap, where it is not the dialect's
    like: str | None = None  # a known server whose habits it has: "vllm", "deepseek"
    thinking: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # word of `thinking` -> body fields
    reasoning: Reasoning | None = None  # how its cap covers hidden reasoning
    answer: tuple[str, ...] = ()  # rules by which its answers are found, in order; empty: the dialect's
    builtin: bool = False  # served by the sheet
    sheet: str = ""  # its name in the price sheet, where that is not its own

    def switch(self, asked: str | int | None) -> Mapping[str, Any] | None:
        """The body fields of its own table for a way of thinking; None where it has none."""
        return self.thinking.get(str(asked))

    @property
    def key_part(self) -> str:
        """What of a deployment stands in request keys."""
        return self.identity or f"{self.dialect} {self.base_url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as the experiment names it, with the parameters that are really sent."""

    name: str  # the experiment's own name: in conditions, lanes, budgets, gates
    provider: Deployment
    model: str  # the provider's id (for `local`: a folder or package:...)
    lineage: str | None = None
    temperature: float | int | None = None
    max_output_tokens: int | None = None
    thinking: str | int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    dimensions: int | None = None
    instruction: Mapping[str, str] = field(default_factory=dict)  # query, document
    input_type: Mapping[str, str] | bool | None = None
    normalize: bool = False
    max_input_tokens: int | None = None
    stream: bool = False  # the reply is sent in pieces (and read whole)
    tokenizer: str | None = None  # "server", "tiktoken:NAME" or a tokenizer.json: counts tokens for reservations
    lane: Literal["batch"] | None = None  # sent through the provider's batch API, at its discount
    failover: str | None = None  # another chat model of the experiment, asked in its place while it cannot answer

    @property
    def priced_as(self) -> str:
        """The name of its price: `provider/model`."""
        return self.provider.price_as or f"{self.provider.name}/{self.model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt file, already split into messages; each text is a Jinja2 template."""

    name: str
    file: str  # as written, for messages to people
    messages: tuple[tuple[Literal["system", "user", "assistant"], str], ...]
    digest: str  # hex sha256 of the file


@dataclass(frozen=True, slots=True, kw_only=True)
class ParseRule:
    """How a reply becomes a value. `version` names the code of the rule; rules are no part of a request."""

    kind: Literal["choice", "score", "label", "json", "text"]
    low: int | None = None
    high: int | None = None
    take: Literal["first", "last"] = "last"
    values: tuple[str, ...] = ()
    between: tuple[str, str] | None = None
    schema: Mapping[str, Any] | None = None
    value: tuple[str, ...] = ()  # path names taken from a JSON reply; one name gives that value, several a record
    strip: bool = False
    unquote: bool = False
    marker: str | None = None
    version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a condition may come to before it stops; a limit is passed when the lower bound of what is seen passes it, after
    `after` replies.
    """

    limits: Mapping[str, float]  # bad shares: truncated, empty, unparsed, refused, failed, length
    cost: float | None = None  # mean cost of a call, as a multiple of what it was quoted at
    difference: float | None = None  # how much oftener truncated than another condition of its stage, as a share
    after: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """`with.NAME`: what else a prompt sees."""

    name: str
    table: str | None = None  # a data table or a stage
    by: str | None = None  # a field of this row whose value is the other row's id (or the name of a shared field)
    gold: str | None = None  # the best judged document of this gold
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one arm of a chat stage does, after all `at` patterns."""

    parse: ParseRule
    vars: Mapping[str, Any] = field(default_factory=dict)
    draws: int = 1
    orders: tuple[str, ...] = ()  # given reversed shuffled:K rotated:K | ab ba; empty: no order coordinate
    expect: str | None = None
    gold: tuple[str, ...] = ()
    admit: Finishes = ("stop",)
    missing: str = "drop"  # or the name of a field
    where: str | None = None
    sample: int | None = None
    output_tokens_expected: int | None = None
    gate: Gate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One model x prompt of a chat stage, after all `at` patterns; skipped ones are absent."""

    model: Model
    prompt: Prompt
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One variant of a chat stage: what it joins beyond the stage's own joins. The nameless one stands where none is written."""

    name: str = ""
    joins: tuple[Join, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Canaries:
    """Known answers that a chat stage is given beside the real ones: `rate` is the share of rows that they add."""

    rate: float
    reference: str | None = (
        None  # an expression over the row that gives the reference; else it is found: `table.canary`
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What all stages share. `feeds` are the tables named by `from` (or by queries, corpus, fuse), in order."""

    name: str
    kind: str
    feeds: tuple[str, ...]
    joins: tuple[Join, ...] = ()
    where: str | None = None
    sample: int | None = None
    slices: tuple[str, ...] = ()
    gold: tuple[str, ...] = ()
    expect: str | None = None
    admit: Finishes = ("stop",)
    missing: str = "drop"
    write: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat(Stage):
    """judge solve grade rewrite generate: one call per row x arm x variant x order x draw."""

    arms: tuple[Arm, ...] = ()
    variants: tuple[Variant, ...] = (Variant(),)
    canaries: Canaries | None = None

    @property
    def all_joins(self) -> tuple[Join, ...]:
        """The stage's own joins, then those of each variant."""
        return (*self.joins, *(join for variant in self.variants for join in variant.joins))


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOf:
    """A text made from the rows of one table: `problems.text`, or an expression over it."""

    table: str
    expression: str  # over the row's fields under the table's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed(Stage):
    """One vector per distinct text and model."""

    models: tuple[Model, ...] = ()
    queries: tuple[TextOf, ...] = ()
    corpus: TextOf | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieve(Stage):
    """Local ranking: dense, bm25, rrf, lexical."""

    method: Literal["dense", "bm25", "rrf", "lexical"] = "dense"
    k: int = 10
    metrics: tuple[str, ...] = ()
    queries: tuple[TextOf, ...] = ()  # bm25
    corpus: TextOf | None = None  # bm25
    options: Mapping[str, Any] = field(default_factory=dict)  # bm25 settings
    query: str | None = None  # lexical: a field of the row
    candidate: str | None = None  # lexical: a field of the candidate
    vocabulary: frozenset[str] | None = None  # lexical: the words that count; None: all
    stopwords: frozenset[str] = frozenset()  # lexical: words that do not
    depth: int = 100  # rrf
    rrf_k: int = 60  # rrf


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplodeRows:
    """One kind of row that an explode stage makes: the first path of `each` that is present, and fields added."""

    each: tuple[str, ...]
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explode(Stage):
    """One parsed reply -> many rows with ids `<id>/<role>.<n>`."""

    rows: tuple[ExplodeRows, ...] = ()
    at_most: int | None = None  # over all kinds of one reply; else the schema's maxItems say


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair(Stage):
    """Rows of one `by`, two by two: a and b."""

    by: str = "id"
    of: str = "condition"  # a coordinate
    against: str = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold(Stage):
    """Many rows -> one."""

    over: str = "draw"  # draw order model round, or rows; `solve.draw` says which stage's
    by: str | None = None  # a field: the group of `rows` where it is not the explode's source
    value: str | tuple[str, ...] = "value"
    rule: Literal["agree", "any", "all", "majority", "mean", "median", "list"] = "majority"
    at_least: int | None = None
    otherwise: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Stage):
    """Rows -> rows in Python."""

    call: str = ""
    whole: bool = False
    rows_max: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What will be reported, fixed before the first reply."""

    name: str
    feed: str
    value: str
    compare: tuple[str, tuple[str, ...]] | None = None  # coordinate (or "conditions") and its values
    against: str | None = None  # a field
    test: Literal["mcnemar", "paired-bootstrap", "wilcoxon", "kappa", "tau"] | None = None
    only: tuple[Literal["all", "complete"], ...] = ("all",)
    unconcluded: Literal["drop", "false"] = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What a person wrote, whole."""

    name: str
    folder: str
    seed: int
    study: str | None = None
    data: tuple[DataSpec, ...] = ()
    golds: tuple[str, ...] = ()
    models: tuple[Model, ...] = ()
    stages: tuple[Stage, ...] = ()  # in an order in which every feed comes before its reader
    questions: tuple[Question, ...] = ()
    digest: str = ""  # hex sha256 of experiment.toml

    def remodelled(self, change: Callable[[Model], Model]) -> Experiment:
        """The same experiment with every model, wherever it stands, replaced by what `change` makes of it."""

        def again(stage: Stage) -> Stage:
            if isinstance(stage, Chat):
                return replace(stage, arms=tuple(replace(arm, model=change(arm.model)) for arm in stage.arms))
            if isinstance(stage, Embed):
                return replace(stage, models=tuple(map(change, stage.models)))
            return stage

        return replace(self, models=tuple(map(change, self.models)), stages=tuple(map(again, self.stages)))

    def stage(self, name: str) -> Stage:
        """The stage of that name; KeyError when there is none."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(name)
