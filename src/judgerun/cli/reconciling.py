"""The command that holds the ledger against what providers say that they charged: reconcile."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from judgerun.api.project import Workspace
from judgerun.api.reconcile import Asked, Reconciled
from judgerun.api.reconcile import reconcile as run
from judgerun.audit.matching import Period
from judgerun.cli.options import HERE, Here, Json, listed
from judgerun.cli.words import Words
from judgerun.errors import Exit, Problem, Refused
from judgerun.ledger.statement import Rate, parse_rate
from judgerun.model.money import format_usd, parse_usd


def register(app: typer.Typer) -> None:
    """Add this command."""
    app.command()(reconcile)


def reconcile(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Exports of one or several providers.")],
    form: Annotated[
        str | None, typer.Option("--format", metavar="F", help="How to read them, or a mapping file (.toml).")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="B", help="Compare this budget's money alone.")
    ] = None,
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="EXP", help="Compare this experiment's money alone.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option("--provider", metavar="P", help="The deployment whose bill this is.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", metavar="TZ", help="Of bare dates; else the provider's billing day.")
    ] = None,
    rate: Annotated[
        list[str] | None, typer.Option("--rate", metavar="EUR=1.08@DAY", help="What a currency was worth in dollars.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Compare from this moment (UTC).")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Compare up to this moment (UTC).")
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option("--key", metavar="NAME,...", help="API keys, as the statement names them, that are ours."),
    ] = None,
    tolerance: Annotated[
        str | None, typer.Option("--tolerance", metavar="USD", help="May be unexplained; else what rounding may bring.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Of the report; else the file's.")] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Adjust the forfeits that the statement resolves.")] = False,
    workspace: Here = HERE,
    json: Json = False,
) -> Exit:
    """Hold the ledger against providers' statements -> audits/reconcile-NAME/. Exit 8 when too much of it is unexplained."""
    problems: list[Problem] = []
    asked = Asked(
        format=form,
        zone=timezone,
        provider=provider,
        rates=tuple(_rates(rate or [], problems)),
        period=Period(_moment("--since", since, problems), _moment("--until", until, problems)),
        keys=listed(keys),
        budget=budget,
        experiment=experiment,
        tolerance=_amount(tolerance, problems),
        name=name,
        apply=apply,
    )
    if problems:
        raise Refused(problems)
    done = run(Workspace(root=workspace), files, asked)
    _tell(Words(json=json), done, apply=apply)
    return Exit.DONE if done.told.reconciled else Exit.FINDINGS


def _rates(texts: list[str], problems: list[Problem]) -> list[Rate]:
    found = []
    for text in texts:
        try:
            found.append(parse_rate(text))
        except ValueError as error:
            problems.append(Problem("command line", "--rate", str(error), "EUR=1.08@2026-11-30"))
    return found


def _moment(option: str, text: str | None, problems: list[Problem]) -> float | None:
    if text is None:
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        problems.append(Problem("command line", option, f"{text!r} is no time", "2026-11-30, or 2026-11-30T08:00"))
        return None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def _amount(text: str | None, problems: list[Problem]) -> int | None:
    try:
        return None if text is None else parse_usd(text)
    except ValueError as error:
        problems.append(Problem("command line", "--tolerance", str(error), "0.01"))
        return None


def _tell(words: Words, done: Reconciled, *, apply: bool) -> None:
    told = done.told
    rows = [(one.name, format_usd(one.amount), one.count) for one in told.components]
    words.table(("part", "USD", "cells"), [*rows, ("statement minus settled", format_usd(told.residual), "")])
    for one in told.components:
        for text in one.evidence[:3]:
            words.say(f"{one.name}: {text}")
    words.say(f"statement {format_usd(told.statement)}, settled {format_usd(told.settled)} USD: {told.verdict}")
    if told.outside[0]:
        words.say(f"the statement does not speak of {told.outside[0]} attempts ({format_usd(told.outside[1])} USD)")
    for name in done.unpriced:
        words.say(f"the prices of {name} are not known here: its files, or some of its models, are gone")
    for budget in sorted(done.frozen):
        words.say(f"budget {budget} is frozen: an attempt was billed above its hold (judgerun unfreeze)")
    waiting = sum(not one.booked.resolved for one in told.resolves) - len(done.applied)
    if apply:
        words.say(f"{len(done.applied)} forfeits resolved, each citing its line")
    elif waiting:
        words.say(f"{waiting} forfeits can be resolved: --apply")
    words.say(f"written to {done.folder}")
    words.result(told.record() | {"applied": list(done.applied), "folder": str(done.folder)})
