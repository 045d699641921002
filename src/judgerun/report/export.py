"""What `export` writes: every stage table, requests, attempts, replies and entries; and the files that stages `write`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from judgerun.audit.books import Attempt
from judgerun.audit.evidence import Evidence
from judgerun.errors import EXPERIMENT, Problem, Refused
from judgerun.ledger.entry import Entry
from judgerun.model.experiment import Map
from judgerun.report.columns import Record, conditions_of, made, order, records
from judgerun.report.ladder import ways
from judgerun.report.tabular import FORMATS, has_parquet
from judgerun.table.conditions import locate
from judgerun.table.row import Row

_NAME = re.compile(r"\{([^{}]*)\}")


def formats(wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """The formats to write: those wanted, else all that can be written here."""
    unknown = [name for name in wanted if name not in FORMATS]
    if unknown:
        raise Refused(Problem("--format", unknown[0], "is no format", f"one of {', '.join(FORMATS)}"))
    return tuple(wanted) or tuple(name for name in FORMATS if name != "parquet" or has_parquet())


def export(evidence: Evidence, wanted: Sequence[str] = ()) -> Iterator[tuple[str, bytes]]:
    """(path under results/EXP/export/, bytes) of every table in every format, in a fixed order, one at a time."""
    for name, found in tables(evidence):
        for ending in formats(wanted):
            yield f"{name}.{ending}", FORMATS[ending](found)


def tables(evidence: Evidence) -> Iterator[tuple[str, list[Record]]]:
    """Name and records of each table: `stages/NAME`, `canaries` if there are any, then requests, attempts, replies, entries."""
    for stage in evidence.experiment.stages:
        yield f"stages/{stage.name}", records(evidence.rows.get(stage.name, ()))
    if evidence.canaries:
        yield "canaries", records(evidence.canaries)
    yield "requests", _requests(evidence)
    if climbed := ways(evidence):
        yield "ladder", climbed
    yield "attempts", [_attempt(attempt) for attempt in evidence.books.attempts]
    yield "replies", _replies(evidence)
    yield "entries", [_entry(entry) for entry in evidence.books.entries]


def _cells(evidence: Evidence) -> list[Row]:
    """Every row of the stages that send, in order; then the canaries."""
    stages = dict.fromkeys(counts.stage for counts in evidence.counts)
    held = (*(evidence.rows.get(stage, ()) for stage in stages), evidence.canaries)
    return [row for rows in held for row in sorted(rows, key=order)]


def _requests(evidence: Evidence) -> list[Record]:
    """Each cell and the request that it rests on (cells with one key share a call). A cell that was never asked has none."""
    return [_request(row) for row in _cells(evidence)]


def _request(row: Row) -> Record:
    outcome = row.outcome
    return {
        "key": outcome.key.hex() if outcome is not None and outcome.key is not None else None,
        "stage": row.condition.stage,
        "condition": row.condition.name,
        "id": row.id,
        "draws": dict(row.draws),
        "state": "done" if outcome is not None and outcome.kept is not None else row.state,
        "reason": row.reason or None,
    }


def _replies(evidence: Evidence) -> list[Record]:
    """Each reply once, in the order in which cells first rest on it."""
    told: dict[str, Record] = {}
    held = (row.outcome for row in _cells(evidence) if row.outcome is not None)
    for outcome in (one for last in held for one in (*last.below, last)):
        if outcome.key is None or outcome.kept is None or outcome.key.hex() in told:
            continue
        kept = outcome.kept
        reply = kept.reply
        usage = reply.usage
        told[outcome.key.hex()] = {
            "key": outcome.key.hex(),
            "attempt": kept.attempt,
            "experiment": kept.experiment,
            "finish": reply.finish.value,
            "finish_raw": reply.finish_raw,
            "text": reply.text if reply.vector is None else None,
            "found": outcome.found,
            "input_fresh": usage.input_fresh,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "cache_write_1h": usage.cache_write_1h,
            "output_visible": usage.output_visible,
            "reasoning": usage.reasoning,
            "cost_nanos": kept.cost,
            "reported_cost_nanos": reply.reported_cost,
            "input_cut": reply.input_cut,
            "served_model": reply.served_model,
            "fingerprint": reply.fingerprint,
            "raw_digest": reply.raw_digest,
        }
    return list(told.values())


def _attempt(attempt: Attempt) -> Record:
    return {
        "attempt": attempt.id,
        **attempt.leaf._asdict(),
        "model": attempt.model,
        "keys": [key.hex() for key in attempt.keys],
        "hold_nanos": attempt.need.nanos,
        "hold_tokens": attempt.need.tokens,
        "bound_by": attempt.bound_by,
        "open": attempt.open,
        "sent": attempt.sent,
        "status": attempt.status,
        "cause": attempt.cause,
        "detail": attempt.detail,
        "served_by": attempt.served_by,
        "latency_ms": attempt.latency_ms,
        "job": attempt.job,
    }


def _entry(entry: Entry) -> Record:
    amount = entry.amount
    return {
        "attempt": entry.attempt,
        "kind": entry.kind.value,
        **entry.leaf._asdict(),
        "nanos": amount.nanos,
        "calls": amount.calls,
        "tokens": amount.tokens,
        "gpu_ms": amount.gpu_ms,
        "document": entry.document,
    }


def written(evidence: Evidence) -> Iterator[tuple[str, bytes]]:
    """(path under results/EXP/, bytes) of the files that stages ask for with `write`: their live rows, those of conditions
    with the same path in one file. A map's rows are written as its function gave them, since other programs read them; those
    of any other stage as `records`. Refused for a path outside the folder, a name that is no coordinate, an unknown ending.
    """
    for stage in evidence.experiment.stages:
        if stage.write is None:
            continue
        rows = [row for row in evidence.rows.get(stage.name, ()) if row.state == "live"]
        groups: dict[str, list[Row]] = {}
        for row in sorted(rows, key=order):
            groups.setdefault(_path(stage.name, stage.write, row, rows), []).append(row)
        for path in sorted(groups):
            flat = made(groups[path], stage.name) if isinstance(stage, Map) else records(groups[path])
            yield path, FORMATS[path.rpartition(".")[2]](flat)


def _path(stage: str, pattern: str, row: Row, rows: Sequence[Row]) -> str:
    conditions = conditions_of(rows)

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        table = locate(name, conditions)
        held = row.condition.get(name.rpartition(".")[2], table) if table is not None else None
        if held is None:
            raise Refused(Problem(EXPERIMENT, f"stage {stage}: write", f"{name!r} is no coordinate here"))
        return re.sub(r"[^A-Za-z0-9._-]", "_", held)

    path = PurePosixPath(_NAME.sub(value, pattern))
    if path.is_absolute() or ".." in path.parts or path.suffix.removeprefix(".") not in FORMATS:
        wrong = f"{str(path)!r} is no file that can be written"
        right = f"a path under results/, ending in {', '.join(FORMATS)}"
        raise Refused(Problem(EXPERIMENT, f"stage {stage}: write", wrong, right))
    return str(path)
