"""Starting points: the files that `init` and `judge` write for a person; nothing is sent from here."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from judgerun.errors import EXPERIMENT, Problem, Refused
from judgerun.files.readers import Record, Unreadable, form_of, records
from judgerun.model.money import parse_usd

RENAMED = {"gitignore": ".gitignore"}
"""Example files whose names would have a meaning inside the package."""

TABLES = (".csv", ".tsv")


def init(folder: Path) -> list[Path]:
    """Write the example workspace into `folder`; the files written. Refused when one of them is already there."""
    wanted = list(_example(files("judgerun.cli") / "example"))
    there = [folder / name for name, _ in wanted if (folder / name).exists()]
    if there:
        raise Refused(
            [Problem(str(path), "", "is already there", "init writes into a folder without it") for path in there]
        )
    for name, text in wanted:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [folder / name for name, _ in wanted]


def _example(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _example(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith((".toml", ".md", ".jsonl", "gitignore")):
            yield prefix + RENAMED.get(entry.name, entry.name), entry.read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What `judgerun judge` was asked."""

    file: Path
    prompt: Path
    model: str  # "provider/model id", or the id of a model at `base_url`
    labels: tuple[str, ...]
    score: str | None  # "1-5"
    schema: Path | None
    id: str | None
    draws: int
    cap: str
    name: str | None
    base_url: str | None
    key_env: str | None
    price: str | None  # "input,output", USD per million tokens
    max_output_tokens: int
    temperature: float | None
    thinking: str | None

    @property
    def experiment(self) -> str:
        """The experiment's name: as asked, else from the file's."""
        return self.name or re.sub(r"[^A-Za-z0-9._-]+", "-", self.file.stem).strip("-.") or "judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What `judge` wrote: the experiment's file, the budget's, and those of all files that were not there before."""

    experiment: Path
    budget: Path
    new: tuple[Path, ...]

    def undo(self) -> None:
        """Take the new files away, so that the mended command can write them again."""
        for path in self.new:
            path.unlink()
        for folder in {path.parent for path in self.new}:
            if not any(folder.iterdir()):
                folder.rmdir()


def write_task(workspace: Path, task: Task) -> Written:
    """Write the experiment and the budget of a task. The same task again writes the same bytes.

    Raises Refused when something of the task is wrong or when files of other content stand where it would write.
    """
    problems = list(_wrong(task))
    if problems:
        raise Refused(problems)
    folder = workspace / "prompts" / task.experiment
    budget = workspace / "budgets" / f"{task.experiment}.toml"
    wanted = {
        folder / "rows.csv": _rows(task),
        folder / "judge.md": _text(task.prompt),
        folder / EXPERIMENT: _experiment(task),
    }
    if task.schema is not None:
        wanted[folder / "schema.json"] = _text(task.schema)
    wanted[budget] = f'# Hard cap for the life of this budget in this cache.\ntotal = "{task.cap}"\n'
    there = [p for p, text in wanted.items() if p != budget and p.exists() and p.read_text(encoding="utf-8") != text]
    if there:
        right = (
            f"--name for a new experiment; `judgerun run {task.experiment}` for the one that is there, edited as you like; "
            f"or remove {folder} and begin anew"
        )
        raise Refused([Problem(str(path), "", "is there with other content", right) for path in there])
    new = tuple(path for path in wanted if not path.exists())
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Written(experiment=folder / EXPERIMENT, budget=budget, new=new)


def _wrong(task: Task) -> Iterator[Problem]:
    if not re.fullmatch(r"[A-Za-z0-9._-]+", task.experiment):
        yield Problem("command line", "--name", f"{task.name!r} is no name", "letters, digits, dot, _ and - only")
    for path in (task.file, task.prompt, *([task.schema] if task.schema else [])):
        if not path.is_file():
            yield Problem(str(path), "", "no such file")
    kinds = sum((bool(task.labels), task.score is not None, task.schema is not None))
    if kinds != 1:
        yield Problem(
            "command line",
            "--labels --score --json-schema",
            f"{kinds} of them given",
            "exactly one says how to read a reply",
        )
    if task.score is not None and not re.fullmatch(r"\d+-\d+", task.score):
        yield Problem("command line", "--score", f"{task.score!r} is no range", "for example --score 1-5")
    if len(task.labels) == 1:
        yield Problem("command line", "--labels", "only one label", "for example --labels GOOD,BAD")
    try:
        parse_usd(task.cap)
    except ValueError as error:
        yield Problem("command line", "--cap", str(error), "for example --cap 2.00")
    if task.base_url is None and "/" not in task.model:
        yield Problem(
            "command line",
            "--model",
            f"{task.model!r} names no provider",
            "provider/model, or --base-url for a server of your own",
        )
    if task.base_url is not None and task.price is None:
        yield Problem(
            "command line",
            "--price",
            "a server of your own has no known price",
            "--price INPUT,OUTPUT in USD per million tokens; 0,0 is a price",
        )
    if task.price is not None and len(task.price.split(",")) != 2:
        yield Problem("command line", "--price", f"{task.price!r} is no pair", "for example --price 0.25,1.50")


def _rows(task: Task) -> str:
    """The person's rows with an `id` column: theirs, the one named by --id, or the row's number."""
    rows = _read(task.file)
    columns = list(rows[0])
    if task.id is not None and task.id not in columns:
        raise Refused([_lacks(str(task.file), task.id, columns)])
    source = task.id or ("id" if "id" in columns else None)
    kept = [column for column in columns if column not in (source, "id")]
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", *kept])
    for number, row in enumerate(rows, 1):
        own = row[source] if source else f"row-{number:0{len(str(len(rows)))}d}"
        writer.writerow([own, *(row[column] for column in kept)])
    return out.getvalue()


def _read(path: Path) -> list[Record]:
    """The rows of a CSV or TSV file, at least one. Raises Refused with every line that is none."""
    problems, rows = [], []
    try:
        if form_of(path) not in TABLES:
            raise Unreadable(
                "", f"{path.suffix} is no table of cells", f"{' or '.join(TABLES)}; for others, an experiment"
            )
        for where, record in records(path):
            if isinstance(record, Unreadable):
                problems.append(Problem(str(path), where, str(record), record.right))
            else:
                rows.append(record)
    except Unreadable as error:
        problems.append(Problem(str(path), error.where, str(error), error.right))
    if not rows and not problems:
        problems.append(Problem(str(path), "", "has no rows", "a header line and at least one row"))
    if problems:
        raise Refused(problems)
    return rows


def _lacks(file: str, column: str, columns: Sequence[str]) -> Problem:
    """No such column; a header that is one cell was cut by another sign."""
    if len(columns) == 1:
        for sign, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if sign in columns[0]:
                right = "commas between cells" + (", or a name that ends in .tsv" if sign == "\t" else "")
                return Problem(file, "line 1", f"has one column, {columns[0]!r}: its cells stand between {name}", right)
    return Problem(file, "line 1", f"has no column {column!r}", "one of " + ", ".join(columns))


def _text(path: Path) -> str:
    """The text of a file. Raises Refused when it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Refused([Problem(str(path), f"line {line}", "is not UTF-8", "save it as UTF-8")]) from None


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _array(values: Sequence[str]) -> str:
    return "[" + ", ".join(map(_quoted, values)) + "]"


def _parse(task: Task) -> str:
    if task.labels:
        return f'{{ kind = "label", values = {_array(task.labels)} }}'
    if task.score is not None:
        low, high = task.score.split("-")
        return f'{{ kind = "score", low = {low}, high = {high} }}'
    return '{ kind = "json", schema = "schema.json" }'


def _experiment(task: Task) -> str:
    lines = [
        f"# Written by `judgerun judge {task.file.name}`; edit it freely.",
        f"name = {_quoted(task.experiment)}",
        "seed = 1",
        "",
    ]
    lines += ["[data.rows]", 'path = "rows.csv"', ""]
    if task.base_url is not None:
        price_in, price_out = (part.strip() for part in (task.price or "").split(","))
        lines += ["[providers.server]", 'dialect = "openai"', f"base_url = {_quoted(task.base_url)}"]
        lines += [f"api_key_env = {_quoted(task.key_env)}"] if task.key_env else []
        lines += [f"price = {{ input = {_quoted(price_in)}, output = {_quoted(price_out)} }}", ""]
        provider, model = "server", task.model
    else:
        provider, model = task.model.split("/", 1)
    lines += ["[models.judge]", f"provider = {_quoted(provider)}", f"model = {_quoted(model)}"]
    lines += [f"max_output_tokens = {task.max_output_tokens}"]
    lines += [f"temperature = {task.temperature}"] if task.temperature is not None else []
    lines += [f"thinking = {_quoted(task.thinking)}"] if task.thinking is not None else []
    lines += [
        "",
        "[[stage]]",
        'name = "verdict"',
        'kind = "judge"',
        'from = "rows"',
        'models = ["judge"]',
        'prompts = ["judge"]',
    ]
    lines += [
        f"parse = {_parse(task)}",
        f"draws = {task.draws}",
        "gate = { truncated = 0.10, unparsed = 0.02, after = 20 }",
    ]
    if task.draws > 1:
        rule = "mean" if task.score is not None else "majority"
        lines += [
            "",
            "[[stage]]",
            'name = "pooled"',
            'kind = "fold"',
            'from = "verdict"',
            'over = "draw"',
            f'rule = "{rule}"',
        ]
        lines += ['otherwise = "tie"'] if rule == "majority" else []
    return "\n".join(lines) + "\n"
