"""Evidence: the one value through which the API hands an experiment's state to audit and report; nothing else is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from judgerun.audit.books import Books
from judgerun.ledger.budget import Budget
from judgerun.ledger.prices import Price
from judgerun.model.exclusion import Exclusion
from judgerun.model.experiment import Arm, Chat, Experiment, Model, Stage
from judgerun.model.profile import Profile
from judgerun.model.request import RequestKey
from judgerun.model.rows import Fields
from judgerun.model.study import Study
from judgerun.model.waiver import Waiver
from judgerun.plan.counts import Counts
from judgerun.plan.ladder import Escalation
from judgerun.table.row import Row
from judgerun.table.scope import Scopes, kinds_of


def _unasked(key: RequestKey) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """How the API must fill it, after a survey of the experiment (a Flow with keep=True, taken from until None, finish()):

    - `experiment`: as loaded from its file.
    - `counts`: `flow.counts()`, without the conditions of canaries.
    - `rows`: for every stage `flow.rows(stage)`, by stage name; failed and pending rows are in it.
    - `canaries`: `flow.canaries()`: cells that were given known answers; no rate, question or export of results sees them.
    - `document`: `(ranking stage, document id) -> fields`, for questions that look into a candidate; without it they are refused.
    - `request`: `key -> canonical request` of a call (`payload`, `deployment`, `adapter`, `draw`); None where it was never made.
    - `recounts`: output tokens of replies, counted anew from their texts by a tokenizer of their model.
    - `books`: this experiment's part of a read-only snapshot of the cache (`audit.books`).
    - `prices`: by the experiment's own model name, the dated prices of its single calls (its deployment's own price as one
      Price without dates). A model without an entry is unpriced.
    - `job_prices`: the same of its calls in the batch lane. A model may have attempts in both, whatever its lane is now.
    - `profiles`: by the experiment's own model name.
    - `budgets`: those under which the experiment has spent (named in its entries): their files as they are now, with what was set
      in the place of what they say.
    - `amended`: what was set so, of these budgets and of the experiment's lanes, in words; each is in force.
    - `waivers`: rows of audits/waivers.toml, of any experiment.
    - `today`: the day (UTC) of the seal, without a seal that of now: whether a waiver still holds.
    - `exclusions`: what a person has left out of every comparison, up to the seal.
    - `seal`: hex digest of the seal, None for an unsealed cache (reports then carry the DRAFT banner).
    - `sealed_because`: the reason of a seal over a stopped experiment, else "".
    - `plan`: hex digest of the plan.
    - `lanes`: slot-seconds by lane and cause over the experiment's life, as its seal was told them; without a seal, until now.
    - `plans`: the escalations by which cells were asked again, oldest first.
    - `questions`: functions of questions.py beside the experiment, by name, already loaded by files.
    - `study`: what the study of the experiment brings; None where it names none.
    """

    experiment: Experiment
    counts: tuple[Counts, ...] = ()
    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    canaries: Sequence[Row] = ()
    document: Callable[[str, str], Fields] | None = None
    request: Callable[[RequestKey], Mapping[str, Any] | None] = _unasked
    recounts: Mapping[RequestKey, int] = field(default_factory=dict)
    books: Books = field(default_factory=Books)
    prices: Mapping[str, Sequence[Price]] = field(default_factory=dict)
    job_prices: Mapping[str, Sequence[Price]] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    budgets: tuple[Budget, ...] = ()
    amended: tuple[str, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    today: date | None = None
    exclusions: tuple[Exclusion, ...] = ()
    seal: str | None = None
    sealed_because: str = ""
    plan: str = ""
    lanes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    plans: tuple[Escalation, ...] = ()
    questions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    study: Study | None = None

    def scopes(self) -> Scopes:
        """What expressions see of the rows: as in the survey."""
        return Scopes(kinds_of(self.experiment.stages), self.document or _unknown)

    def model(self, name: str) -> Model | None:
        """The model of that name; None when the experiment no longer has it."""
        return next((model for model in self.experiment.models if model.name == name), None)

    def stage(self, name: str) -> Stage | None:
        """The stage of that name (for pair stages the name before "/"); None when there is none."""
        return next((stage for stage in self.experiment.stages if stage.name == name), None)

    def arm(self, stage: str, model: str | None, prompt: str | None) -> Arm | None:
        """The model x prompt of a chat stage; None for other stages and arms that are no longer planned."""
        found = self.stage(stage)
        if not isinstance(found, Chat):
            return None
        return next((arm for arm in found.arms if (arm.model.name, arm.prompt.name) == (model, prompt)), None)


def _unknown(stage: str, id_: str) -> Fields:
    raise KeyError(f"document {id_} of {stage}")
