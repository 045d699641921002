"""The shape of an experiment file above its stages: data, gold, providers, models, questions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from judgerun.files.tariff import TariffShape
from judgerun.files.written import Count, Number, Roles, Texts, Thinking, Written, many
from judgerun.model.profile import Reasoning

Only = Literal["all", "complete"]


class DataShape(Written):
    """`[data.NAME]`"""

    path: str | None = None
    stage: str | None = None
    id: Texts | None = None
    columns: dict[str, str] = Field(default_factory=dict)
    only: str | None = None
    sample: Count | None = None
    block: str | None = None
    condition: str | None = None


class GoldShape(Written):
    """`[gold.NAME]`"""

    path: str


class ProviderShape(Written):
    """`[providers.NAME]`"""

    dialect: str
    base_url: str | None = None
    identity: str | None = None
    api_key_env: str | None = None
    price: TariffShape | None = None
    price_as: str | None = None
    cap_field: str | None = None
    like: str | None = None
    thinking: dict[str, dict[str, Any]] = Field(default_factory=dict)
    reasoning: Reasoning | None = None
    answer: list[str] = Field(default_factory=list)


class InstructionShape(Written):
    """What an embedder puts before a query and before a document."""

    query: str = ""
    document: str = ""


class ParameterShape(Written):
    """The keys of a model that may differ from arm to arm."""

    temperature: Number | None = None
    max_output_tokens: Count | None = None
    thinking: Thinking | None = None
    extra: dict[str, Any] | None = None
    cap_field: str | None = None


class ModelShape(ParameterShape):
    """`[models.NAME]`"""

    provider: str
    model: str
    lineage: str | None = None
    dimensions: Count | None = None
    instruction: InstructionShape | None = None
    input_type: Roles | None = None
    normalize: bool = False
    max_input_tokens: Count | None = None
    stream: bool = False
    tokenizer: str | None = None
    lane: Literal["batch"] | None = None
    failover: str | None = None


class QuestionShape(Written):
    """`[[question]]`"""

    name: str
    from_: str = Field(alias="from")
    value: str
    compare: dict[str, Any] | None = None
    conditions: list[str] | None = None
    against: str | None = None
    test: Literal["mcnemar", "paired-bootstrap", "wilcoxon", "kappa", "tau"] | None = None
    only: Annotated[list[Only], BeforeValidator(many)] = Field(default_factory=lambda: list[Only](["all"]))
    unconcluded: Literal["drop", "false"] = "drop"


class ExperimentShape(Written):
    """The whole file. Stages are read one by one, each by its kind."""

    name: str
    seed: int = 0
    study: str | None = None
    sets: list[str] | None = None
    set: dict[str, dict[str, Any]] = Field(default_factory=dict)
    data: dict[str, Any] = Field(default_factory=dict)
    gold: dict[str, Any] = Field(default_factory=dict)
    providers: dict[str, Any] = Field(default_factory=dict)
    models: dict[str, Any] = Field(default_factory=dict)
    stage: list[dict[str, Any]] = Field(default_factory=list)
    question: list[Any] = Field(default_factory=list)
