"""Reads one experiment whole: the file, its prompts, schemas, code, rows and gold; every problem at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judgerun.errors import Problem, Refused
from judgerun.files.arms import Shelf
from judgerun.files.branch import Branches, columns
from judgerun.files.canaries import check_canaries
from judgerun.files.checks import Bench, check_stage
from judgerun.files.code import CodeWrong, load_function, load_questions, load_study
from judgerun.files.deployments import read_deployments, read_models
from judgerun.files.faults import Faults, settle
from judgerun.files.golds import read_gold
from judgerun.files.kinds import strayed
from judgerun.files.lines import Path as KeyPath
from judgerun.files.names import RESERVED, identifier, slug, unique
from judgerun.files.order import ordered
from judgerun.files.places import Places
from judgerun.files.prompts import ReadPrompt, read_prompt
from judgerun.files.questions import check_question, read_questions
from judgerun.files.schema import DataShape, ExperimentShape, GoldShape
from judgerun.files.stages import Known, read_stage
from judgerun.files.tables import FileTable, read_table
from judgerun.files.toml import read_toml
from judgerun.files.view import read_view
from judgerun.files.walk import waits, walk
from judgerun.files.written import SLUG
from judgerun.model.experiment import Chat, DataSpec, Experiment, Join, Map, Model, Pair, Stage
from judgerun.model.rows import Gold, Inputs, Table
from judgerun.model.study import Study

_LOOKED_AT = 100

StageTable = Callable[[str], Table]
"""Gives the table of `stage = "other-experiment/table"`. Raises Refused when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """What `check` prints of a table: what its rows show, how many there can be, under which conditions, and what it
    waits for ("" when it streams).
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    rows_max: int
    conditions: tuple[str, ...]
    waits: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """An experiment with all that it reads."""

    path: Path
    experiment: Experiment
    inputs: Inputs
    views: tuple[StageView, ...]  # data tables, then stages in order
    warnings: tuple[Problem, ...] = ()


def load_experiment(
    path: Path,
    *,
    data_root: Path | None,
    environ: Mapping[str, str],
    stage_table: StageTable | None = None,
) -> Loaded:
    """The experiment of a file `prompts/<name>/experiment.toml`.

    `data_root` is $JUDGERUN_DATA; `environ` serves ${ENV} in addresses; `stage_table` reads tables of other experiments
    out of the cache. Raises Refused with every problem of every file at once.
    """
    faults, digest = read_toml(path, strayed=strayed)
    return _Reader(path, faults, digest, data_root, environ, stage_table).load()


class _Reader:
    """The steps of `load_experiment`, in order; each leaves its problems in `faults` and the rest goes on."""

    def __init__(
        self,
        path: Path,
        faults: Faults,
        digest: str,
        data_root: Path | None,
        environ: Mapping[str, str],
        stage_table: StageTable | None,
    ) -> None:
        self.path, self.faults, self.digest = path, faults, digest
        self.environ, self.stage_table = environ, stage_table
        self.folder = path.resolve().parent
        self.places = Places(self.folder, data_root)
        self.others: list[Problem] = []  # problems of prompt files, under their own names
        self.prompts: dict[str, ReadPrompt | None] = {}
        self.stage_places: dict[str, KeyPath] = {}
        self.conditions: dict[str, str] = {}  # field that a table names as its condition -> table

    def load(self) -> Loaded:
        faults = self.faults
        shape = faults.read(ExperimentShape, faults.raw, mend=True)
        if shape is None:
            raise Refused(faults.problems)
        self._check_top(shape)
        models = read_models(faults, shape.models, read_deployments(faults, shape.providers, self.environ))
        specs = self._specs(shape)
        tables = self._tables(shape, specs)
        golds = self._golds(shape)
        stages = self._stages(shape, models)
        functions, study = self._functions(stages), self._study(shape.study)
        questions = read_questions(faults, shape.question, {*shape.data, *self.stage_places}, self.conditions)
        experiment = Experiment(
            name=shape.name,
            folder=str(self.folder),
            seed=shape.seed,
            study=shape.study,
            data=tuple(specs.values()),
            golds=tuple(shape.gold),
            models=tuple(model for model in models.values() if model is not None),
            stages=stages,
            questions=questions,
            digest=self.digest,
        )
        self._check_fields(tables, experiment)
        known = self._walk(experiment, tables)
        settle(faults, Faults("", problems=self.others))
        inputs = Inputs(tables=tables, golds=golds, functions=functions, study=study, digests=self.places.digests)
        return Loaded(
            path=self.path,
            experiment=experiment,
            inputs=inputs,
            views=_views(experiment, known),
            warnings=tuple(faults.warnings),
        )

    # --- the top of the file ---

    def _check_top(self, shape: ExperimentShape) -> None:
        faults = self.faults
        slug(faults, ("name",), "experiment", shape.name)
        if shape.name != self.folder.name:
            wrong = f"the name {shape.name!r} is not the folder's, {self.folder.name!r}"
            faults.add(("name",), wrong, f'name = "{self.folder.name}"')
        if not shape.stage:
            faults.add((), "the file has no stage", "[[stage]]")
        if shape.sets is not None or shape.set:
            self._check_sets(shape)
        if shape.study is not None:
            slug(faults, ("study",), "study", shape.study)
        for key, what in (("data", "table"), ("gold", "gold")):
            for name in getattr(shape, key):
                identifier(faults, (key, name), what, name)

    def _check_sets(self, shape: ExperimentShape) -> None:
        names = shape.sets or []
        for name in names:
            slug(self.faults, ("sets",), "set", name)
        for name in shape.set:
            if name not in names:
                self.faults.unknown(("set", name), "set", name, names)
        self.faults.add(("sets",), "sets come later", "they are read and checked now, and run with their own issue")

    # --- data ---

    def _specs(self, shape: ExperimentShape) -> dict[str, DataSpec]:
        specs = {}
        for name, raw in shape.data.items():
            read = self.faults.read(DataShape, raw, ("data", name))
            if read is not None:
                specs[name] = self._spec(name, read)
        return specs

    def _spec(self, name: str, read: DataShape) -> DataSpec:
        here: KeyPath = ("data", name)
        if (read.path is None) == (read.stage is None):
            self.faults.add(here, "a table has a path or a stage", 'path = "rows.jsonl", or stage = "experiment/table"')
        if read.stage is not None:
            if read.stage.count("/") != 1:
                self.faults.add((*here, "stage"), f"{read.stage!r} names no stage", '"other-experiment/table"')
            for key in sorted(read.model_fields_set & {"id", "condition"}):
                self.faults.add((*here, key), f"a stage's table brings its own {key}", "without this key")
        if read.id == []:
            self.faults.add((*here, "id"), "the list is empty", "one field or more")
        if read.condition is not None:
            self.conditions[read.condition] = name
        return DataSpec(
            name=name,
            path=read.path or "",
            stage=read.stage,
            id=tuple(read.id or ("id",)),
            columns=read.columns,
            only=read.only,
            sample=read.sample,
            block=read.block,
            condition=read.condition,
        )

    def _tables(self, shape: ExperimentShape, specs: Mapping[str, DataSpec]) -> dict[str, Table]:
        tables: dict[str, Table] = {}
        for name, spec in specs.items():
            if spec.stage is not None:
                self._stage_table(spec, shape.seed, tables)
            elif spec.path and not (shape.sets and "{" in spec.path):
                default_id = "id" not in (shape.data[name] if isinstance(shape.data[name], Mapping) else {})
                table = read_table(self.faults, spec, seed=shape.seed, places=self.places, default_id=default_id)
                if table is not None:
                    tables[name] = table
        return tables

    def _stage_table(self, spec: DataSpec, seed: int, tables: dict[str, Table]) -> None:
        here: KeyPath = ("data", spec.name, "stage")
        if self.stage_table is None:
            self.faults.add(here, "tables of other experiments are not read here", "a path")
            return
        try:
            found = self.stage_table(spec.stage or "")
        except Refused as error:
            for problem in error.problems:
                self.faults.add(here, problem.wrong, problem.right)
            return
        view = read_view(self.faults, spec, found, seed=seed, places=self.places)
        if view is not None:
            tables[spec.name] = view

    def _golds(self, shape: ExperimentShape) -> dict[str, Gold]:
        golds = {}
        for name, raw in shape.gold.items():
            read = self.faults.read(GoldShape, raw, ("gold", name))
            if read is not None and not (shape.sets and "{" in read.path):
                gold = read_gold(self.faults, name, read.path, places=self.places)
                if gold is not None:
                    golds[name] = gold
        return golds

    def _check_fields(self, tables: Mapping[str, Table], experiment: Experiment) -> None:
        """Fields that a row may not have: names that mean something else in expressions."""
        taken = dict.fromkeys(RESERVED, "reserved")
        taken |= dict.fromkeys(tables, "a table") | {stage.name: "a stage" for stage in experiment.stages}
        for stage in experiment.stages:
            taken |= {join.name: "a join" for join in _joins(stage)}
        for name, table in tables.items():
            for field in sorted(_fields(table) & taken.keys()):
                right = f'columns = {{ {field}_text = "{field}" }} renames it'
                self.faults.add(("data", name), f"the rows have a field {field!r}, which is {taken[field]}", right)

    # --- stages ---

    def _stages(self, shape: ExperimentShape, models: Mapping[str, Model | None]) -> tuple[Stage, ...]:
        self._read_prompts(shape)
        named: list[tuple[str, KeyPath, str]] = [(name, ("data", name), "table") for name in shape.data]
        raw_stages = {}
        for number, raw in enumerate(shape.stage):
            name = raw.get("name")
            here: KeyPath = ("stage", number)
            if not isinstance(name, str):
                self.faults.add(here, "the key 'name' is missing", 'name = "..."')
                continue
            identifier(self.faults, (*here, "name"), "stage", name)
            named.append((name, here, "stage"))
            if name not in raw_stages:
                raw_stages[name] = raw
                self.stage_places[name] = here
        unique(self.faults, named)
        shelf = Shelf(folder=self.folder, models=models, prompts=self.prompts, digests=self.places.digests)
        known = Known(tables={*shape.data, *raw_stages}, golds=shape.gold, shelf=shelf)
        read = {name: read_stage(self.faults, self.stage_places[name], raw, known) for name, raw in raw_stages.items()}
        return self._in_order({name: self._resolved(stage) for name, stage in read.items() if stage is not None})

    def _resolved(self, stage: Stage) -> Stage:
        """A pair names its coordinate by the field that the table calls its condition."""
        if isinstance(stage, Pair) and stage.of in self.conditions:
            return replace(stage, of="condition")
        return stage

    def _in_order(self, stages: Mapping[str, Stage]) -> tuple[Stage, ...]:
        needs = {
            name: (*stage.feeds, *(join.table for join in _joins(stage) if join.table is not None))
            for name, stage in stages.items()
        }
        names, cycles = ordered(needs)
        for cycle in cycles:
            self.faults.add(self.stage_places[cycle[0]], f"the stages go in a circle: {' -> '.join(cycle)}", "a chain")
        return () if cycles else tuple(stages[name] for name in names)

    def _read_prompts(self, shape: ExperimentShape) -> None:
        for number, raw in enumerate(shape.stage):
            names = raw.get("prompts")
            for name in [names] if isinstance(names, str) else names if isinstance(names, list) else ():
                if isinstance(name, str) and name not in self.prompts:
                    slug(self.faults, ("stage", number, "prompts"), "prompt", name)
                    self.prompts[name] = self._prompt(("stage", number, "prompts"), name)

    def _prompt(self, here: KeyPath, name: str) -> ReadPrompt | None:
        file = f"{name}.md"
        if not (self.folder / file).is_file():
            self.faults.add(here, f"there is no prompt file {file!r} beside the experiment file", f"write {file}")
            return None
        try:
            read = read_prompt(self.folder / file, name=name, file=file)
        except Refused as error:
            self.others += error.problems
            return None
        self.places.digests[file] = read.prompt.digest
        return read

    def _functions(self, stages: tuple[Stage, ...]) -> dict[str, Callable[..., Any]]:
        functions: dict[str, Callable[..., Any]] = {}
        for stage in stages:
            if isinstance(stage, Map):
                try:
                    found = load_function(stage.call, self.folder)
                except CodeWrong as error:
                    self.faults.add((*self.stage_places[stage.name], "call"), str(error), error.right)
                    continue
                functions[stage.call] = found.function
                self.places.digests[found.source] = found.digest
        try:
            asked = load_questions(self.folder)
        except CodeWrong as error:
            self.others.append(Problem("questions.py", "", str(error), error.right))
            return functions
        if asked is not None:
            functions |= {f"questions:{name}": function for name, function in asked[0].items()}
            self.places.digests["questions.py"] = asked[1]
        return functions

    def _study(self, name: str | None) -> Study | None:
        if name is None or not SLUG.fullmatch(name):
            return None
        try:
            found = load_study(name)
        except CodeWrong as error:
            self.faults.add(("study",), str(error), error.right)
            return None
        if found is None and not (self.folder / "questions.py").is_file():
            self.faults.warn(("study",), f"this version has no questions of the study {name!r}", "questions.py")
        return found

    # --- the whole ---

    def _walk(self, experiment: Experiment, tables: Mapping[str, Table]) -> Mapping[str, Branches]:
        known = walk(experiment, tables, {name: _fields(table) for name, table in tables.items()})
        bench = Bench(
            faults=self.faults,
            experiment=experiment,
            known=known,
            prompts=self.prompts,
            conditions=self.conditions,
            places=self.stage_places,
        )
        for stage in experiment.stages:
            check_stage(bench, stage)
            check_canaries(bench, stage)
        for number, question in enumerate(experiment.questions):
            check_question(bench, ("question", number), question)
        return known


def _joins(stage: Stage) -> tuple[Join, ...]:
    """Every join of a stage, those of its variants too."""
    return stage.all_joins if isinstance(stage, Chat) else stage.joins


def _fields(table: Table) -> frozenset[str]:
    """The fields that some row of a table has; of another experiment's table, some of its first rows."""
    if isinstance(table, FileTable):
        return frozenset(table.present)
    return frozenset().union(*(table.fields(row) for row in range(min(len(table), _LOOKED_AT))))


def _views(experiment: Experiment, known: Mapping[str, Branches]) -> tuple[StageView, ...]:
    kinds = {spec.name: ("data", "") for spec in experiment.data}
    kinds |= {stage.name: (stage.kind, waits(stage)) for stage in experiment.stages}
    return tuple(
        StageView(
            name=name,
            kind=kind,
            columns=columns(known[name]),
            rows_max=sum(branch.rows for branch in known[name]),
            conditions=tuple(condition.name for branch in known[name] for condition in branch.conditions),
            waits=wait,
        )
        for name, (kind, wait) in kinds.items()
    )
