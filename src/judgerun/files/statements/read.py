"""Read: from the files that a person names to one Statement; which provider's export a file is, is seen from its columns."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from judgerun.errors import Problem, Refused
from judgerun.files.faults import hint
from judgerun.files.statements import anthropic, deepinfra, deepseek, google, mapping, openai, openrouter
from judgerun.files.statements.mapping import MappingShape
from judgerun.files.statements.rows import Row, Sheet
from judgerun.files.toml import read_text
from judgerun.ledger.statement import ZONES, File, Line, Statement
from judgerun.model.reply import Usage

Flat = Callable[[Any], list[tuple[str, dict[str, Any]]] | None]


class Format(NamedTuple):
    """One form of export: how its JSON documents become rows (None: it is CSV), how it is told, how it is read."""

    provider: str
    flat: Flat | None
    fits: Callable[[set[str]], bool]
    read: Callable[[Sheet], None]


FORMATS: Mapping[str, Format] = {
    "openai-usage": Format("openai", openai.flat, openai.is_usage, openai.read_usage),
    "openai-costs": Format("openai", openai.flat, openai.is_costs, openai.read_costs),
    "openai-usage-csv": Format("openai", None, openai.is_usage, openai.read_usage),
    "openai-costs-csv": Format("openai", None, openai.is_costs, openai.read_costs),
    "anthropic-usage": Format("anthropic", anthropic.flat, anthropic.is_usage, anthropic.read_usage),
    "anthropic-costs": Format("anthropic", anthropic.flat, anthropic.is_costs, anthropic.read_costs),
    "anthropic-usage-csv": Format("anthropic", None, anthropic.is_usage_csv, anthropic.read_usage_csv),
    "anthropic-costs-csv": Format("anthropic", None, anthropic.is_costs_csv, anthropic.read_costs_csv),
    "google-console": Format("google", None, google.is_console, google.read_console),
    "google-detailed": Format("google", None, google.is_detailed, google.read_detailed),
    "openrouter-generations": Format(
        "openrouter", openrouter.flat, openrouter.is_generation, openrouter.read_generations
    ),
    "openrouter-log": Format("openrouter", None, openrouter.is_log, openrouter.read_log),
    "openrouter-activity": Format("openrouter", openrouter.flat, openrouter.is_activity, openrouter.read_activity),
    "openrouter-activity-csv": Format("openrouter", None, openrouter.is_activity_csv, openrouter.read_activity_csv),
    "deepseek-amount": Format("deepseek", None, deepseek.is_amount, deepseek.read_amount),
    "deepseek-cost": Format("deepseek", None, deepseek.is_cost, deepseek.read_cost),
    "deepinfra": Format("deepinfra", None, deepinfra.is_usage, deepinfra.read_usage),
}


def read(
    paths: Sequence[Path], *, format: str | None = None, zone: str | None = None, provider: str | None = None
) -> Statement:
    """The statement in these files. `format` is one of FORMATS, or the path of a mapping file; without it each file is known by its
    columns. `zone` stands in the place of the provider's own billing day, `provider` in that of its name. Raises Refused with every
    problem at once.
    """
    shape = mapping.load_mapping(Path(format)) if format is not None and format.endswith(".toml") else None
    if shape is None and format is not None and format not in FORMATS:
        right = f"{hint(format, FORMATS)}, or a mapping file (.toml)"
        raise Refused(Problem("command line", "--format", f"there is no format {format!r}", right))
    problems: list[Problem] = []
    files: list[File] = []
    lines: list[Line] = []
    for path in paths:
        try:
            file, found = _file(path, shape, format, _zone(zone))
        except Refused as error:
            problems += error.problems
            continue
        if any(held.digest == file.digest for held in files):
            problems.append(Problem(str(path), "", "is the same file as another one"))
        if any(held.name == file.name for held in files):
            problems.append(Problem(str(path), "", f"another file is called {file.name}, too", "rename one of them"))
        files.append(file)
        lines += (replace(line, provider=provider) for line in found) if provider else found
    if not problems:
        lines, problems = _once(lines, {file.name: file.format for file in files})
    if not problems and not any(line.amount is not None for line in lines):
        wrong = "no line tells any money: this is usage alone"
        problems.append(
            Problem(", ".join(file.name for file in files), "", wrong, "give the provider's cost export, too")
        )
    if problems:
        raise Refused(problems)
    return Statement(files=tuple(files), lines=tuple(lines))


def _zone(name: str | None) -> ZoneInfo | None:
    try:
        return None if name is None else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        wrong = f"there is no time zone {name!r}"
        raise Refused(Problem("command line", "--timezone", wrong, "UTC, US/Pacific, Europe/Berlin")) from None


def _file(path: Path, shape: MappingShape | None, name: str | None, zone: ZoneInfo | None) -> tuple[File, list[Line]]:
    text, digest = read_text(path)
    documents = _documents(path, text)
    own = ZoneInfo(shape.timezone) if shape is not None else ZoneInfo("UTC")
    if shape is not None:
        found, label = _sheet(path.name, text, documents, openrouter.flat, zone or own), "mapping"
        mapping.read(found, shape)
    else:
        label = name or _known(path, text, documents)
        form = FORMATS[label]
        found = _sheet(path.name, text, documents, form.flat, zone or ZoneInfo(ZONES[form.provider]))
        names = set(found.header)
        if not form.fits(names):
            raise Refused(Problem(str(path), "", f"is no {label}", f"it has {', '.join(sorted(names)) or 'nothing'}"))
        form.read(found)
    if found.problems:
        order = {row.where: place for place, row in enumerate(found.rows)}
        raise Refused(sorted(found.problems, key=lambda problem: order[problem.place]))
    file = File(name=path.name, digest=digest, format=label, zone=str(found.zone), unit=found.unit)
    return file, found.lines


def _documents(path: Path, text: str) -> list[Any] | None:
    """The JSON value of a file, or those of its lines; None for CSV. Refused where it is neither."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return [json.loads(text, parse_float=Decimal)]
    except json.JSONDecodeError as error:
        whole = error
    documents: list[Any] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                documents.append(json.loads(line, parse_float=Decimal))
            except json.JSONDecodeError as error:
                problems.append(Problem(str(path), f"line {number}", f"not JSON: {error.msg}"))
    if problems and not documents:
        raise Refused(Problem(str(path), f"line {whole.lineno}", f"not JSON: {whole.msg}"))
    if problems:
        raise Refused(problems)
    return [documents]


def _known(path: Path, text: str, documents: list[Any] | None) -> str:
    """The one format that a file has, by its columns. Refused when none, or more than one, fits."""
    found = []
    for label, form in FORMATS.items():
        if (form.flat is None) == (documents is None):
            sheet = _sheet(path.name, text, documents, form.flat, ZoneInfo("UTC"))
            if form.fits(set(sheet.header)):
                found.append(label)
    if len(found) != 1:
        wrong = f"fits several formats: {', '.join(found)}" if found else "is no export that judgerun knows"
        right = f"--format with one of {', '.join(found or FORMATS)}, or with a mapping file (.toml)"
        raise Refused(Problem(str(path), "", wrong, right))
    return found[0]


def _sheet(name: str, text: str, documents: list[Any] | None, flat: Flat | None, zone: ZoneInfo) -> Sheet:
    """The rows of a file, in the way of one format."""
    if documents is not None:
        held = flat(documents[0]) if flat is not None else None
        sheet = Sheet(file=name, zone=zone, header=tuple({key: None for _, cells in held or () for key in cells}))
        sheet.rows = [Row(sheet, where, cells) for where, cells in held or ()]
        return sheet
    rows = list(_cells(text))
    top = next((place for place, (_, cells) in enumerate(rows) if _heads(cells)), 0)
    preamble = {cells[0]: cells[1] for _, cells in rows[:top] if len(cells) > 1}
    header = tuple(cell.strip() for cell in rows[top][1]) if rows else ()
    sheet = Sheet(file=name, zone=zone, header=header, preamble=preamble)
    for number, cells in rows[top + 1 :]:
        row = Row(sheet, f"line {number}", dict(zip(header, cells, strict=False)))
        if len(cells) != len(header) and len(cells) > 1:
            row.fault(f"has {len(cells)} cells under {len(header)} columns")
        sheet.rows.append(row)
    return sheet


def _cells(text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text))
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield reader.line_num, cells


def _heads(cells: Sequence[str]) -> bool:
    """Whether a line is the head of a table, and not one of the name-value lines that Google puts above it."""
    return len([cell for cell in cells if cell.strip()]) > 2


def _once(lines: list[Line], formats: Mapping[str, str]) -> tuple[list[Line], list[Problem]]:
    """The lines, with tokens told once: where one export of a provider counts requests, those of its others are not used. Two
    exports that tell the same money, or tokens, are a problem.
    """
    problems: list[Problem] = []
    money: dict[str, set[str]] = defaultdict(set)
    tokens: dict[str, set[str]] = defaultdict(set)
    counting: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        form = formats[line.file].removesuffix("-csv")
        if line.amount is not None:
            money[line.provider].add(form)
        if line.usage != Usage():
            tokens[line.provider].add(form)
        if line.requests is not None:
            counting[line.provider].add(form)
    usual: dict[str, str] = {}
    for provider, forms in tokens.items():
        best = counting[provider] & forms or {form for form in forms if "usage" in form} or forms
        usual[provider] = min(best)
        if len(best) > 1:
            problems.append(_twice(provider, "tokens", best))
    problems += [_twice(provider, "money", forms) for provider, forms in money.items() if len(forms) > 1]
    return [_untold(line, formats, usual) for line in lines], problems


def _untold(line: Line, formats: Mapping[str, str], usual: Mapping[str, str]) -> Line:
    own = formats[line.file].removesuffix("-csv") == usual.get(line.provider)
    return line if own or line.usage == Usage() else replace(line, usage=Usage())


def _twice(provider: str, what: str, forms: set[str]) -> Problem:
    wrong = f"{' and '.join(sorted(forms))} both tell the {what} of {provider}"
    return Problem("command line", "FILE", wrong, "give one of them")
