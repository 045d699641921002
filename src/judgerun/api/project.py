"""Project: one experiment of a workspace with all that its files say, and the flows that can be made of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

import numpy as np

from judgerun.api.tables import stage_table
from judgerun.errors import EXPERIMENT, Problem, Refused, both
from judgerun.files.budgets import load_lanes
from judgerun.files.deployments import sheet_name
from judgerun.files.experiment import Loaded, load_experiment
from judgerun.files.prices import load_prices
from judgerun.files.sheet import builtin_sheet
from judgerun.files.toml import pointing
from judgerun.files.workspace import find_experiment, list_experiments
from judgerun.ledger.prices import SERVICES, Price, PriceSheet
from judgerun.model.experiment import Chat, Deployment, Embed, Experiment, Model, PriceSpec
from judgerun.model.kept import Kept, Lost
from judgerun.model.lane import LaneSpec, lanes_in_force
from judgerun.model.profile import Profile
from judgerun.model.request import RequestKey
from judgerun.model.rows import Table
from judgerun.model.setting import Setting
from judgerun.plan.desk import Buys, Lookups
from judgerun.plan.flow import Flow
from judgerun.plan.ladder import Escalation, in_force
from judgerun.plan.requests import Count
from judgerun.providers.local import PROFILE as local_profile
from judgerun.providers.open import profile, unable, unsent
from judgerun.providers.tokens import counter
from judgerun.store.schema import made
from judgerun.store.snapshot import Snapshot
from judgerun.store.upkeep import renew

FREE = PriceSpec(input=0, output=0)
WEIGHTS = "weights of "
"""How the pins of local models begin; those of files are the files' names."""

Lookup = Callable[[RequestKey], Kept | Lost | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A folder with prompts/, budgets/, cache.db, audits/, results/."""

    root: Path
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    own_cache: Path | None = None  # in the place of root/cache.db

    @property
    def cache(self) -> Path:
        """The cache of this workspace; it need not exist."""
        return self.own_cache or self.root / "cache.db"

    @property
    def data_root(self) -> Path | None:
        """$JUDGERUN_DATA; None when it is not set."""
        value = self.environ.get("JUDGERUN_DATA", "").strip()
        return Path(value) if value else None

    def ran(self) -> list[str]:
        """The experiments of this workspace that its cache knows."""
        with snapshot(self.cache) as view:
            known = set(view.experiments()) if view is not None else set()
        return [path.parent.name for path in list_experiments(self.root) if path.parent.name in known]

    def open(self, name: str | Path, *, offline: bool = True) -> Project:
        """The experiment of that name or path. Raises Refused with every problem at once.

        `offline` (all but a run): an address whose ${ENV} is not set is no problem, and a local model that is not installed
        is known by what the cache remembers of it.
        """
        path = find_experiment(self.root, str(name))
        opened_ns, escalated = time.time_ns(), self._escalated(path.resolve().parent.name)
        environ = Addresses(self.environ) if offline else self.environ
        loaded, (lanes, sheet) = both(
            lambda: load_experiment(path, data_root=self.data_root, environ=environ, stage_table=self._stage_table),
            lambda: both(lambda: load_lanes(self.root), lambda: load_prices(self.root, builtin_sheet())),
        )
        remembered = self._remembered(loaded.experiment.name) if offline else {}
        with pointing(path):
            profiles = _profiles(loaded.experiment, remembered)
        return Project(
            workspace=self,
            loaded=loaded,
            profiles=profiles,
            lanes=lanes_in_force(lanes, self.settings()),
            sheet=sheet,
            opened_ns=opened_ns,
            escalated=escalated,
        )

    def settings(self) -> tuple[Setting, ...]:
        """What was set in the place of what the budget and lane files say, whether or not it is in force."""
        with snapshot(self.cache) as view:
            return view.settings() if view is not None else ()

    def _stage_table(self, stage: str) -> Table:
        name, _, table = stage.partition("/")
        return stage_table(self.open(name), self.cache, table)

    def _escalated(self, experiment: str) -> int:
        with snapshot(self.cache) as view:
            return int(view.marks(experiment)[0]) if view is not None else 0

    def _remembered(self, experiment: str) -> Mapping[str, str]:
        with snapshot(self.cache) as view:
            return view.pins(experiment) if view is not None else {}


class Addresses(dict[str, str]):
    """An environment in which every address is set: offline work reads experiment files, and calls nobody."""

    def get(self, name: str, default: str | None = None) -> str:  # type: ignore[override]  # no name is absent, so no default is needed
        return self[name]

    def __missing__(self, name: str) -> str:
        return "http://not-set.invalid"


def weights_pin(model: Model) -> str:
    """The name under which a cache remembers a local model."""
    return f"{WEIGHTS}{model.name}"


def weights_pins(profiles: Mapping[str, Profile], models: Sequence[Model]) -> dict[str, str]:
    """What a cache must remember of local models, so that their requests can be named where they are not installed."""
    held = [(weights_pin(model), profiles[model.name]) for model in models]
    return {name: f"{found.weights} {found.input_limit}" for name, found in held if found.weights is not None}


def _profiles(experiment: Experiment, remembered: Mapping[str, str]) -> dict[str, Profile]:
    """The profile of each model. Refused where an adapter cannot send what a model, or an arm of it, asks for."""
    found: dict[str, Profile] = {}
    problems: list[Problem] = []
    for model in experiment.models:
        try:
            found[model.name] = profile(model.provider, model)
        except Refused as error:
            known = remembered.get(weights_pin(model))
            if known is None:
                problems += error.problems
            else:
                weights, limit = known.split(" ", 1)
                found[model.name] = replace(
                    local_profile, weights=weights, input_limit=None if limit == "None" else int(limit)
                )
    problems += _unsent_arms(experiment, found)
    problems += _unable(experiment, found)
    if problems:
        raise Refused(tuple(dict.fromkeys(problems)))
    return found


def _unable(experiment: Experiment, profiles: Mapping[str, Profile]) -> Iterator[Problem]:
    """Models in stages that they cannot serve: embeddings of a provider that has none, and the like."""
    for stage in experiment.stages:
        if isinstance(stage, Chat):
            for arm in stage.arms:
                yield from unable(arm.model, profiles[arm.model.name], "chat") if arm.model.name in profiles else ()
                yield from _stand_ins(arm.model, experiment, profiles)
        elif isinstance(stage, Embed):
            for model in stage.models:
                yield from unable(model, profiles[model.name], "embed") if model.name in profiles else ()
                if model.failover is not None:
                    wrong = "vectors of another model would mean something else"
                    yield Problem(EXPERIMENT, f"models.{model.name}.failover", wrong, "leave it out")


def _stand_ins(model: Model, experiment: Experiment, profiles: Mapping[str, Profile]) -> Iterator[Problem]:
    """Failovers that cannot serve a chat stage."""
    known = {other.name: other for other in experiment.models}
    while model.failover is not None:
        model = known[model.failover]
        yield from unable(model, profiles[model.name], "chat") if model.name in profiles else ()


def _unsent_arms(experiment: Experiment, profiles: Mapping[str, Profile]) -> Iterator[Problem]:
    """What patterns of `at` make of a model, where its adapter cannot send it."""
    plain = {model.name: model for model in experiment.models}
    for stage in experiment.stages:
        for arm in stage.arms if isinstance(stage, Chat) else ():
            name = arm.model.name
            if name in profiles and arm.model != plain[name]:
                for problem in unsent(arm.model, profiles[name]):
                    key = problem.place.rpartition(".")[2]
                    yield replace(problem, place=f"stage.{stage.name}.at: {name}/{arm.prompt.name}: {key}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """An experiment, opened."""

    workspace: Workspace
    loaded: Loaded
    profiles: Mapping[str, Profile]  # by the experiment's model names
    lanes: Mapping[str, LaneSpec]
    sheet: PriceSheet
    opened_ns: int = 0  # Unix time before the first of its files was read
    escalated: int = 0  # number of the last event that enters its plan, then

    def at(self, cache: Path) -> Project:
        """The same project on another cache."""
        return replace(self, workspace=replace(self.workspace, own_cache=cache))

    def remodelled(self, change: Callable[[Model], Model]) -> Project:
        """The same project with every model replaced by what `change` makes of it."""
        experiment = self.experiment.remodelled(change)
        loaded = replace(self.loaded, experiment=experiment)
        return replace(self, loaded=loaded, profiles=_profiles(experiment, {}))

    @property
    def experiment(self) -> Experiment:
        """What its file says."""
        return self.loaded.experiment

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.experiment.name

    @property
    def models(self) -> dict[str, Model]:
        """Its models by name."""
        return {model.name: model for model in self.experiment.models}

    @property
    def deployments(self) -> list[Deployment]:
        """The deployments of its models, each once."""
        return list({model.provider.name: model.provider for model in self.experiment.models}.values())

    def prices(self, model: Model) -> tuple[Price, ...]:
        """The dated prices of a model: its deployment's own, else the sheet's; empty when it has none. Local models cost 0.

        A deployment of one's own never takes another's price by its name: only built-in ones and `price_as` do. What a person
        wrote under its name in prices.toml is its own, and alone counts for a model that asks for another service than the usual
        one. In the batch lane a price is what a token costs there: one of which
        nobody says that is left out.
        """
        usual = self._usual_prices(model)
        if model.lane != "batch":
            return usual
        jobs = self.profiles[model.name].jobs
        batched = (price.batched(None if jobs is None else jobs.factor) for price in usual)
        return tuple(price for price in batched if price is not None)

    def _usual_prices(self, model: Model) -> tuple[Price, ...]:
        place = model.provider
        if place.price is not None:
            return (Price(rates=place.price, source=EXPERIMENT),)
        if place.dialect == "local":
            return (Price(rates=FREE, source="local"),)
        rows = self.sheet.rows.get(sheet_name(model.priced_as), ())
        usual = bool(place.builtin or place.price_as) and not model.extra.keys() & set(SERVICES)
        return tuple(price for price in rows if usual or price.written)

    def price(self, model: Model, day: date) -> Price | None:
        """The price of a model on a day; None when it is not known."""
        return PriceSheet({"": self.prices(model)}).find("", day)

    def count(self) -> Count:
        """What counts the tokens of its models' texts. Raises Refused where a tokenizer that is written is not there."""
        models = self.experiment.models
        with pointing(self.loaded.path):
            return counter(models, folder=Path(self.experiment.folder), data_root=self.workspace.data_root)

    def flow(
        self,
        *,
        lookup: Lookup,
        matrix: Callable[[Sequence[RequestKey]], np.ndarray],
        many: Lookups | None = None,
        count: Count | None = None,
        keep: bool = False,
        only: str | None = None,
        limit: int | None = None,
        plans: Sequence[Escalation] = (),
        buys: Buys = "all",
    ) -> Flow:
        """A flow over this experiment. Without `count` the bytes bound what its cells hold: enough where nothing is sent."""
        with pointing(self.loaded.path):
            return Flow(
                self.experiment,
                self.loaded.inputs,
                profiles=self.profiles,
                lookup=lookup,
                matrix=matrix,
                many=many,
                count=count,
                keep=keep,
                only=only,
                limit=limit,
                plans=plans,
                buys=buys,
            )

    @staticmethod
    def matrix(snapshot: Snapshot | None) -> Callable[[Sequence[RequestKey]], np.ndarray]:
        """The vectors of a cache; of none where there is no cache."""
        return snapshot.matrix if snapshot is not None else lambda keys: np.empty((len(keys), 0), np.float32)

    def plans(self, snapshot: Snapshot | None) -> tuple[Escalation, ...]:
        """The escalations in force in a cache, oldest first."""
        return () if snapshot is None else in_force(snapshot.events(0), self.name)

    def survey(self, snapshot: Snapshot | None, *, keep: bool = False) -> Flow:
        """A finished flow that says how the cells stand in a cache; failed cells are failed. Nothing is sent."""
        flow = self.flow(
            lookup=nothing if snapshot is None else snapshot.lookup,
            many=None if snapshot is None else snapshot.lookup_all,
            matrix=self.matrix(snapshot),
            keep=keep,
            plans=self.plans(snapshot),
            buys="own",
        )
        for _ in flow.survey():
            pass
        return flow


def nothing(_: RequestKey) -> None:
    """The look-up of a cache that does not exist."""
    return None


@contextmanager
def snapshot(path: Path) -> Iterator[Snapshot | None]:
    """A read-only view of a cache; None when there is no cache yet. One that an older judgerun wrote is migrated first."""
    renew(path)
    if not made(path):
        yield None
        return
    with Snapshot.open(path) as view:
        yield view


def load(path: str | Path, *, workspace: str | Path | None = None) -> Project:
    """The experiment at a path (`prompts/<name>/experiment.toml` or its folder), or of a name in the workspace (default:
    the folder above `prompts/` of the path, else the current one). Raises Refused with every problem at once.
    """
    if workspace is None:
        place = Path(path).resolve()
        root = next((parent.parent for parent in (place, *place.parents) if parent.name == "prompts"), Path.cwd())
    else:
        root = Path(workspace)
    return Workspace(root=root).open(path, offline=False)
