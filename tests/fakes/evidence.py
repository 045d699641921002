"""A small finished experiment as Evidence, with whole books: tests plant one fault in it and look for the finding."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from judgerun.audit.books import Attempt, Books, Bought
from judgerun.audit.evidence import Evidence
from judgerun.ledger.account import fold
from judgerun.ledger.budget import Budget, Cap, Leaf
from judgerun.ledger.entry import Amount, Entry, EntryKind
from judgerun.ledger.prices import Price
from judgerun.model.condition import Condition, Segment
from judgerun.model.experiment import (
    Arm,
    Chat,
    Deployment,
    Experiment,
    Gate,
    Model,
    ParseRule,
    PriceSpec,
    Prompt,
    Question,
    Settings,
    Stage,
)
from judgerun.model.kept import Kept
from judgerun.model.reply import Finish, Reply, Usage
from judgerun.plan.counts import Counts
from judgerun.table.row import Outcome, Row, Verdict

PROVIDER = Deployment(name="lab", dialect="openai", base_url="http://127.0.0.1:1/v1")
RATES = PriceSpec(input=1_000_000_000, output=2_000_000_000)  # 1 and 2 dollars a million: 1,000 and 2,000 nanos a token
USAGE = Usage(input_fresh=100, output_visible=10)
COST = 120_000  # nanos of USAGE at RATES
NEED = Amount(nanos=500_000, calls=1, tokens=400)
DAY = "2026-03-01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one cell ended; the default is a concluded "yes"."""

    value: Any = "yes"
    text: str = "yes"
    finish: Finish = Finish.STOP
    finish_raw: str = "stop"
    parsed: bool = True
    state: str = "done"  # done, failed, pending
    reason: str = ""
    served: str | None = "m-id"
    fingerprint: str | None = None
    experiment: str = "exp"
    scores: Mapping[str, float | None] = field(default_factory=dict)
    agrees: bool | None = None
    key: str | None = None  # cells with one key share a reply
    usage: Usage = USAGE
    reported: int | None = None
    fallback: bool = False
    found: str = "content"

    @property
    def concluded(self) -> bool:
        return self.finish is Finish.STOP and bool(self.text.strip()) and self.parsed


Rule = Callable[[str, str, int], Ending]  # (model, id, draw) -> Ending

TRUNCATED = Ending(finish=Finish.LENGTH, finish_raw="length")
FAILED = Ending(state="failed", reason="timed out")
PENDING = Ending(state="pending")


def plain(model: str, id_: str, draw: int) -> Ending:
    """Every cell concluded; one in ten says no, since a judge that always says the same is a finding."""
    return Ending(value="no", text="no") if id_.endswith("9") else Ending()


def ids(n: int) -> list[str]:
    """Row ids in order."""
    return [f"q{place:03d}" for place in range(n)]


def label_rule() -> ParseRule:
    return ParseRule(kind="label", values=("yes", "no"))


def condition(model: str, stage: str = "pick") -> Condition:
    """`stage/model/terse@items`."""
    own = Segment(stage, (("model", model), ("prompt", "terse")))
    return Condition((own, Segment("items", (), separator=":")))


def chat(
    models: Sequence[str] = ("ann", "bob"),
    *,
    stage: str = "pick",
    parse: ParseRule | None = None,
    gate: Gate | None = None,
    slices: tuple[str, ...] = (),
) -> Chat:
    """A judge stage with one prompt."""
    prompt = Prompt(name="terse", file="terse.md", messages=(("user", "{{ text }}"),), digest="00")
    settings = Settings(parse=parse or label_rule(), gate=gate)
    arms = tuple(
        Arm(model=Model(name=name, provider=PROVIDER, model="m-id"), prompt=prompt, settings=settings)
        for name in models
    )
    return Chat(name=stage, kind="judge", feeds=("items",), arms=arms, slices=slices)


def experiment(stages: Sequence[Stage], *, questions: Sequence[Question] = (), seed: int = 7) -> Experiment:
    """`exp`, with the models of its chat stages."""
    models = {arm.model.name: arm.model for stage in stages if isinstance(stage, Chat) for arm in stage.arms}
    return Experiment(
        name="exp",
        folder="/exp",
        seed=seed,
        models=tuple(models.values()),
        stages=tuple(stages),
        questions=tuple(questions),
        digest="e" * 64,
    )


def make_row(
    cond: Condition,
    id_: str,
    ending: Ending,
    *,
    draw: int = 0,
    fields: Mapping[str, Any] | None = None,
    block: str = "",
) -> Row:
    """One row of a chat stage."""
    key = hashlib.sha256((ending.key or f"{cond.name}|{id_}|{draw}").encode()).digest()
    draws = ((cond.stage, draw),) if draw else ()
    outcome = Outcome(key=key, model=dict(cond.segments[0].coordinates).get("model"), fallback=False)
    if ending.state == "done":
        reply = Reply(
            finish=ending.finish,
            finish_raw=ending.finish_raw,
            text=ending.text,
            usage=ending.usage,
            served_model=ending.served,
            fingerprint=ending.fingerprint,
            reported_cost=ending.reported,
        )
        outcome = replace(
            outcome,
            value=ending.value if ending.parsed else None,
            reply=ending.text,
            finish=ending.finish.value,
            concluded=ending.concluded,
            verdict=Verdict(parsed=ending.parsed, value=ending.value, why="" if ending.parsed else "no match"),
            kept=Kept(reply=reply, attempt=0, experiment=ending.experiment, cost=COST),
            found=ending.found,
            scores=ending.scores,
            agrees=ending.agrees,
            prompt="terse",
            draw=draw or None,
        )
    stages = {cond.stage: outcome}
    if ending.fallback:
        stages = {"before": Outcome(fallback=True), **stages}
    return Row(
        id=id_,
        condition=cond,
        block=block or id_,
        draws=draws,
        fields=fields or {"text": f"text of {id_}", "tier": "easy" if id_ < "q005" else "hard"},
        stages=stages,
        state="live" if ending.state == "done" else ending.state,  # type: ignore[arg-type]
        reason=ending.reason,
    )


def counted(stage: str, rows: Iterable[Row]) -> list[Counts]:
    """Counts of rows as a survey would give them, by condition in order of appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.condition.name, []).append(row)
    return [_counts(stage, name, held) for name, held in groups.items()]


def _counts(stage: str, name: str, rows: Sequence[Row]) -> Counts:
    done = [row.outcome for row in rows if row.outcome is not None and row.outcome.kept is not None]
    finish = Counter(str(outcome.finish) for outcome in done)
    failed = [row for row in rows if row.state == "failed"]
    return Counts(
        condition=name,
        stage=stage,
        planned=len(rows),
        done=len(done),
        failed=len(failed),
        pending=sum(row.state == "pending" for row in rows),
        finish=dict(finish),
        truncated=finish["length"],
        empty=sum(not (outcome.reply or "").strip() for outcome in done),
        unparsed=sum(outcome.verdict is not None and not outcome.verdict.parsed for outcome in done),
        refused=finish["refusal"] + finish["filter"],
        concluded=sum(bool(outcome.concluded) for outcome in done),
        found=dict(Counter(str(outcome.found) for outcome in done)),
        reasons=dict(Counter(row.reason for row in failed)),
    )


def whole_books(rows: Iterable[Row]) -> tuple[Books, list[Row]]:
    """Books in which each reply of the rows was bought by one settled attempt, and the rows with their attempts' numbers."""
    attempts: dict[bytes, int] = {}
    held: list[Attempt] = []
    entries: list[Entry] = []
    bought: list[Bought] = []
    told: list[Row] = []
    for row in rows:
        outcome = row.outcome
        if outcome is None or outcome.kept is None or outcome.key is None:
            told.append(row)
            continue
        if outcome.key not in attempts:
            number = attempts[outcome.key] = len(attempts) + 1
            leaf = Leaf("main", outcome.kept.experiment, row.condition.stage, row.condition.name, "lab", DAY)
            tokens = (outcome.kept.reply.usage.input or 0) + (outcome.kept.reply.usage.output or 0)
            held.append(Attempt(id=number, leaf=leaf, model=outcome.model or "", keys=(outcome.key,), need=NEED))
            entries.append(Entry(attempt=number, kind=EntryKind.RESERVE, leaf=leaf, amount=NEED))
            bill = Amount(nanos=COST, calls=1, tokens=tokens)
            entries.append(Entry(attempt=number, kind=EntryKind.SETTLE, leaf=leaf, amount=bill))
            reply = outcome.kept.reply
            bought.append(
                Bought(key=outcome.key, attempt=number, cost=COST, usage=reply.usage, reported_cost=reply.reported_cost)
            )
        kept = replace(outcome.kept, attempt=attempts[outcome.key])
        told.append(replace(row, stages={**row.stages, row.condition.stage: replace(outcome, kept=kept)}))
    books = Books(attempts=tuple(held), entries=tuple(entries), bought=tuple(bought))
    return rebalanced(books), told


def rebalanced(books: Books) -> Books:
    """The same books with the account that their entries fold to."""
    return replace(books, balances=fold(entry for entry in books.entries if entry.leaf.experiment == "exp"))


def budget(total: int = 10_000_000_000, *, provider: int = 5_000_000_000) -> Budget:
    """A budget with a total and a provider's cap."""
    return Budget(name="main", caps=(Cap("nanos", "total", "", total), Cap("nanos", "provider", "lab", provider)))


def evidence(
    rule: Rule = plain,
    *,
    n: int = 40,
    draws: int = 1,
    stage: Chat | None = None,
    questions: Sequence[Question] = (),
    seal: str | None = "5ea1" * 16,
    **more: Any,
) -> Evidence:
    """A judge stage over `n` items, each cell ended by `rule`; books whole, sealed."""
    stage = stage or chat()
    rows = [
        make_row(condition(arm.model.name, stage.name), id_, rule(arm.model.name, id_, draw), draw=draw)
        for id_ in ids(n)
        for arm in stage.arms
        for draw in (range(1, draws + 1) if draws > 1 else (0,))
    ]
    books, rows = whole_books(rows)
    prices = {arm.model.name: (Price(rates=RATES, source="test"),) for arm in stage.arms}
    return Evidence(
        experiment=experiment([stage], questions=questions),
        counts=tuple(counted(stage.name, rows)),
        rows={stage.name: rows},
        books=books,
        prices=prices,
        budgets=(budget(),),
        seal=seal,
        plan="9" * 64,
        **more,
    )
