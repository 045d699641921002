"""Budget and lane files -> Budget and LaneSpec: what may be spent, and how fast each provider may be asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import Field

from judgerun.errors import InvariantBroken, Problem
from judgerun.files.faults import Faults, hint, settle
from judgerun.files.lines import Path as KeyPath
from judgerun.files.toml import read_toml
from judgerun.files.workspace import find_budget_file
from judgerun.files.written import SLUG, Count, Number, Usd, Written
from judgerun.ledger.budget import Budget, Cap, Leaf, ScopeKind, Unit
from judgerun.model.lane import LaneSpec
from judgerun.model.money import NANOS_PER_USD

_TABLES: tuple[ScopeKind, ...] = ("provider", "stage", "condition", "experiment")
_GPU_MS = 1000


class DayMoney(Written):
    """`[day]`: dollars of one UTC day"""

    total: Usd


class DayCount(Written):
    """`[calls.day]` and its like: a count of one UTC day"""

    total: int = Field(ge=0)


class CountsShape(Written):
    """`[calls]`, `[tokens]`, `[gpu_seconds]`"""

    total: int | None = Field(default=None, ge=0)
    provider: dict[str, int] = Field(default_factory=dict)
    stage: dict[str, int] = Field(default_factory=dict)
    condition: dict[str, int] = Field(default_factory=dict)
    experiment: dict[str, int] = Field(default_factory=dict)
    day: DayCount | None = None


class BudgetShape(Written):
    """`budgets/<name>.toml`"""

    total: Usd
    confirm_above: Usd = NANOS_PER_USD
    provider: dict[str, Usd] = Field(default_factory=dict)
    stage: dict[str, Usd] = Field(default_factory=dict)
    condition: dict[str, Usd] = Field(default_factory=dict)
    experiment: dict[str, Usd] = Field(default_factory=dict)
    day: DayMoney | None = None
    calls: CountsShape | None = None
    tokens: CountsShape | None = None
    gpu_seconds: CountsShape | None = None
    ceiling: dict[str, Count] = Field(default_factory=dict)


class LaneShape(Written):
    """One table of `budgets/lanes.toml`"""

    concurrency: Count = 8
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    requests_per_day: Count | None = None
    timeout_s: Number = 600
    attempts_max: Count = 5
    batch_size: Count = 32
    enqueued_tokens: Count | None = None


def load_budget(path: Path) -> Budget:
    """The budget of a file; its name is the file's. Raises Refused with every problem at once."""
    faults, _ = read_toml(path, strayed=_strayed)
    if not SLUG.fullmatch(path.stem):
        faults.add((), f"{path.stem!r} cannot name a budget", "letters, digits, dot, _ and - only")
    shape = faults.read(BudgetShape, faults.raw)
    if shape is not None:
        _check(faults, shape)
    settle(faults)
    if shape is None:
        raise InvariantBroken("a budget that could not be read left no problem")
    return Budget(
        name=path.stem, caps=tuple(_caps(shape)), confirm_above=shape.confirm_above, ceilings=dict(shape.ceiling)
    )


def find_budget(workspace: Path, name: str | None) -> Budget:
    """The budget that a command means; without a name the only one there is. Raises Refused."""
    return load_budget(find_budget_file(workspace, name))


def load_lanes(workspace: Path) -> Mapping[str, LaneSpec]:
    """The lanes of `budgets/lanes.toml` by `provider` or `provider/model`; none where there is no such file.

    Raises Refused with every problem at once.
    """
    path = workspace / "budgets" / "lanes.toml"
    if not path.is_file():
        return {}
    faults, _ = read_toml(path)
    lanes = {}
    for name, raw in faults.raw.items():
        _check_name(faults, (name,), name)
        shape = faults.read(LaneShape, raw, (name,))
        if shape is None:
            continue
        if shape.timeout_s <= 0:
            faults.add((name, "timeout_s"), f"{shape.timeout_s} seconds are no time", "above 0")
        lanes[name] = LaneSpec(**{**shape.model_dump(), "name": name, "timeout_s": float(shape.timeout_s)})
    settle(faults)
    return lanes


def stray_caps(budget: Budget, leaves: Iterable[Leaf]) -> tuple[Problem, ...]:
    """Caps that cover nothing of an experiment's leaves: a misspelt cap protects nothing. To be told, not refused: a budget
    serves several experiments.
    """
    known = list(leaves)
    return tuple(
        Problem(f"budget {budget.name}", str(cap), "this cap covers nothing here", _near(cap, known))
        for cap in budget.caps
        if cap.key and cap.kind != "experiment" and not any(cap.covers(leaf, leaf.day) for leaf in known)
    )


def _near(cap: Cap, leaves: Iterable[Leaf]) -> str:
    field = {"provider": "provider", "stage": "stage", "condition": "condition"}.get(cap.kind, "condition")
    return hint(cap.key, {str(getattr(leaf, field)) for leaf in leaves})


def _check(faults: Faults, shape: BudgetShape) -> None:
    for name in shape.ceiling:
        if "/" not in name:
            faults.add(("ceiling", name), f"{name!r} names no model", '"provider/model", with the provider\'s own id')
    for unit in ("calls", "tokens", "gpu_seconds"):
        counts = getattr(shape, unit)
        if counts is None:
            continue
        if not counts.model_fields_set:
            faults.add((unit,), f"[{unit}] caps nothing", "total = ...")
        for table in _TABLES:
            for name, limit in getattr(counts, table).items():
                if limit < 0:
                    faults.add((unit, table, name), f"{limit} is no cap", "0 or more")


def _caps(shape: BudgetShape) -> Iterable[Cap]:
    yield Cap("nanos", "total", "", shape.total)
    yield from _scoped("nanos", shape, 1)
    if shape.day is not None:
        yield Cap("nanos", "day", "", shape.day.total)
    for unit, counts, scale in _counts(shape):
        if counts.total is not None:
            yield Cap(unit, "total", "", counts.total * scale)
        yield from _scoped(unit, counts, scale)
        if counts.day is not None:
            yield Cap(unit, "day", "", counts.day.total * scale)


def _counts(shape: BudgetShape) -> Iterable[tuple[Unit, CountsShape, int]]:
    if shape.calls is not None:
        yield "calls", shape.calls, 1
    if shape.tokens is not None:
        yield "tokens", shape.tokens, 1
    if shape.gpu_seconds is not None:
        yield "gpu_ms", shape.gpu_seconds, _GPU_MS


def _scoped(unit: Unit, shape: BudgetShape | CountsShape, scale: int) -> Iterable[Cap]:
    for kind in _TABLES:
        written: Mapping[str, int] = getattr(shape, kind)
        for key, limit in written.items():
            yield Cap(unit, kind, key, limit * scale)


def _check_name(faults: Faults, path: KeyPath, name: str) -> None:
    provider, _, model = name.partition("/")
    if not SLUG.fullmatch(provider) or ("/" in name and not SLUG.fullmatch(model)):
        faults.add(path, f"{name!r} names no lane", '"provider" or "provider/model"')


def _strayed(path: KeyPath) -> str:
    """The advice for `total` or `confirm_above` below a table head."""
    if len(path) > 1 and path[-1] in ("confirm_above", "total"):
        return "this key stands below a table head and so belongs to that table; move it to the top of the file"
    return ""
