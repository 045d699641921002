"""Commands that write or check what people write: init, judge, check, sheet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from judgerun.api.project import Workspace
from judgerun.api.reading import check as check_project
from judgerun.api.reading import make_sheet
from judgerun.cli.options import HERE, Here, Json, Name, Yes, listed
from judgerun.cli.runs import go
from judgerun.cli.start import Task, write_task
from judgerun.cli.start import init as write_example
from judgerun.cli.words import Words
from judgerun.errors import Exit, Refused

TAKEN_AWAY = "nothing was sent, and what was written is taken away: mend this, then give the same command again"


def register(app: typer.Typer) -> None:
    """Add these commands."""
    for command in (init, judge, check, sheet):
        app.command()(command)


def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to make the workspace.")] = HERE,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """A workspace with a small working example."""
    words = Words(json=json)
    files = write_example(workspace / folder)
    for path in files:
        words.say(f"wrote {path}")
    words.say("next: judgerun simulate --port 8399 (in another terminal), then judgerun run example")
    words.result({"files": [str(path) for path in files]})
    return Exit.DONE


def judge(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Your rows, with a header line.")],
    prompt: Annotated[Path, typer.Option("--prompt", metavar="P.md", help="A Jinja2 prompt over the columns.")],
    model: Annotated[str, typer.Option("--model", metavar="M", help="provider/model, or a model at --base-url.")],
    cap: Annotated[str, typer.Option("--cap", metavar="USD", help="Hard cap, for example 2.00.")],
    labels: Annotated[str | None, typer.Option("--labels", metavar="A,B", help="The answers are labels.")] = None,
    score: Annotated[str | None, typer.Option("--score", metavar="1-5", help="The answers are whole numbers.")] = None,
    json_schema: Annotated[
        Path | None,
        typer.Option(
            "--json-schema", metavar="SCHEMA", help="The answers are JSON of this schema; also --json SCHEMA."
        ),
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", metavar="COL", help="The column of ids; else rows are numbered.")
    ] = None,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Independent answers per row.")] = 1,
    name: Annotated[str | None, typer.Option("--name", help="The experiment's name; else the file's.")] = None,
    base_url: Annotated[str | None, typer.Option("--base-url", help="An OpenAI-compatible server of your own.")] = None,
    key_env: Annotated[str | None, typer.Option("--key-env", help="NAME of the variable with its key.")] = None,
    price: Annotated[
        str | None, typer.Option("--price", metavar="IN,OUT", help="Its price, USD per million tokens.")
    ] = None,
    max_output_tokens: Annotated[int, typer.Option("--max-output-tokens", min=1)] = 1024,
    temperature: Annotated[float | None, typer.Option("--temperature", min=0)] = None,
    thinking: Annotated[str | None, typer.Option("--thinking", metavar="LEVEL", help="off low medium high.")] = None,
    yes: Yes = False,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Judge your own rows: writes the experiment and its budget, shows the quote; runs with --yes."""
    words = Words(json=json)
    task = Task(
        file=file,
        prompt=prompt,
        model=model,
        labels=listed(labels),
        score=score,
        schema=json_schema,
        id=id,
        draws=draws,
        cap=cap,
        name=name,
        base_url=base_url,
        key_env=key_env,
        price=price,
        max_output_tokens=max_output_tokens,
        temperature=temperature,
        thinking=thinking,
    )
    written = write_task(workspace, task)
    try:
        check_project(Workspace(root=workspace).open(task.experiment))
        words.say(f"wrote {written.experiment} and {written.budget}")
        return go(words, workspace, task.experiment, budget=written.budget.stem, yes=yes, quote_only=not yes)
    except Refused:
        if written.new:
            written.undo()
            words.log(TAKEN_AWAY)
        raise


def check(name: Name, workspace: Here = HERE, json: Json = False) -> Exit:
    """Parse everything, render every prompt of the first items, name every problem at once."""
    words = Words(json=json)
    checked = check_project(Workspace(root=workspace).open(name))
    rows = [
        (v.name, v.kind, v.rows_max, len(v.conditions), v.waits or "streams", " ".join(v.columns))
        for v in checked.views
    ]
    words.table(("table", "kind", "rows at most", "conditions", "waits for", "columns"), rows)
    for problem in checked.warnings:
        words.log(f"warning: {problem}")
    words.say(f"{checked.experiment}: {checked.rendered} prompts of the first items rendered, no problem")
    words.result(checked.document())
    return Exit.DONE


def sheet(
    name: Name,
    n: Annotated[int, typer.Option("--n", min=1, help="How many replies to draw.")] = 20,
    condition: Annotated[str | None, typer.Option("--condition", metavar="COND")] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Show the judge's value; it leads the labeller's hand.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.csv")] = None,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """A stratified sample to CSV for human labels; they come back through `expect`."""
    words = Words(json=json)
    project = Workspace(root=workspace).open(name)
    content = make_sheet(project, n=n, condition=condition, show_value=values)
    path = out or workspace / "results" / project.name / "sheet.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    words.say(
        f'wrote {path}: fill the column `human`, then make it the data of an experiment with expect = "human" (docs/guide.md)'
    )
    words.result({"file": str(path)})
    return Exit.DONE
