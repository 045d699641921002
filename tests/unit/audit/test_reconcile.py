"""What a statement and a ledger make of each other: every planted fault is named, alone and mixed, and the parts add up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.billed import (
    DAY,
    GRAINS,
    HOLD,
    PRICE,
    START,
    attempt,
    blurred,
    calls,
    gathered,
    ledger,
    line,
    moment,
    names,
    told,
)
from judgerun.audit.matching import Booked, State, name_of
from judgerun.audit.reconcile import page
from judgerun.ledger.statement import Charge, Line
from judgerun.model.reply import Usage

TOLD = pytest.mark.parametrize("grain", GRAINS)


def uncached(one: Booked) -> Usage:
    """Its usage, as if no cache had been read."""
    used = one.usage or Usage()
    return Usage(input_fresh=used.input, cache_read=0, output_visible=used.output)


def cost(one: Booked, usage: Usage | None = None) -> int:
    """What it costs at the usual price."""
    found = PRICE.cost(usage or one.usage or Usage())
    assert found is not None
    return found


@TOLD
def test_an_honest_statement_reconciles_to_zero(grain: str) -> None:
    """At every grain the statement of the ledger itself leaves nothing, and forfeits that are not on it are told unbilled."""
    booked = ledger(forfeits=3)
    found = told(gathered(calls(booked), grain), booked)
    assert (names(found), found.residual, found.verdict) == ({"forfeits not billed": 0}, 0, "reconciled")
    assert [(one.booked.attempt, one.nanos) for one in found.resolves] == [(60, 0), (61, 0), (62, 0)]
    assert found.doubt == 3 * HOLD


@TOLD
def test_calls_that_the_ledger_lacks_are_missing_attempts(grain: str) -> None:
    """Two calls on the statement of which the ledger has nothing are named, with what they cost."""
    booked = ledger()
    lost = [attempt(number) for number in (900, 901)]
    found = told(gathered(calls([*booked, *lost]), grain), booked)
    assert names(found) == {"missing attempts": sum(one.settled for one in lost)}
    assert found.reconciled


@TOLD
def test_a_billed_forfeit_is_named_with_its_amount(grain: str) -> None:
    """One forfeit that was billed is told with its exact amount, at every grain, and can be resolved."""
    booked = ledger(forfeits=1)
    charged = cost(booked[-1], Usage(input_fresh=400, output_visible=100))
    found = told(gathered([*calls(booked), line(booked[-1])], grain), booked)
    assert names(found) == {"forfeits billed": charged}
    assert [(one.booked.attempt, one.nanos) for one in found.resolves] == [(60, charged)]


def test_billed_and_unbilled_forfeits_are_told_apart_call_by_call() -> None:
    """Where lines carry our numbers each forfeit is resolved; where they sum days it is not said which was billed."""
    booked = ledger(forfeits=4)
    booked = [
        replace(one, models=frozenset({"model-a"}), at=START + 60) if one.attempt >= 60 else one for one in booked
    ]
    lines = [*calls(booked), line(booked[60]), line(booked[62])]
    found = told(lines, booked)
    assert sorted((one.booked.attempt, one.nanos > 0) for one in found.resolves) == [
        (60, True), (61, False), (62, True), (63, False),
    ]  # fmt: skip
    days = told(gathered(lines, "day"), booked)
    assert names(days)["forfeits billed"] == names(found)["forfeits billed"]
    assert not [one for one in days.resolves if one.booked.at < START + DAY]
    assert "not told" in days.components[0].evidence[0]


@TOLD
def test_other_money_for_the_same_tokens_is_a_price_error(grain: str) -> None:
    """A model that is billed a tenth dearer than it was booked is a price error of exactly that."""
    booked = ledger()
    lines = [replace(one, amount=(one.amount or 0) * Decimal("1.1")) for one in calls(booked)]
    found = told(gathered(lines, grain), booked)
    assert set(names(found)) == {"price error"}
    assert abs(names(found)["price error"] - found.residual) <= found.tolerance
    assert found.residual > found.tolerance


@TOLD
def test_tokens_that_came_from_a_cache_unseen_are_a_cache_discount(grain: str) -> None:
    """Where the statement has cached tokens that the replies did not tell, what they saved is told as that."""
    booked = ledger()
    blind = [replace(one, usage=uncached(one), settled=cost(one, uncached(one))) for one in booked]
    found = told(gathered(calls(booked), grain), blind)
    assert set(names(found)) == {"cache discount"}
    assert names(found)["cache discount"] < 0
    assert abs(names(found)["cache discount"] - found.residual) <= found.tolerance


def test_a_cache_discount_that_was_not_given_is_named_from_money_alone() -> None:
    """Where no tokens are told, the full price of cached tokens fits exactly, and is named."""
    booked = ledger()
    lines = [line(one, nanos=cost(one, uncached(one))) for one in booked]
    found = told(blurred(gathered(lines, "period"), usage=Usage()), booked)
    assert set(names(found)) == {"cache discount"}


@TOLD
@pytest.mark.parametrize("tagged", [True, False])
def test_a_batch_discount_that_one_side_lacks_is_named(grain: str, tagged: bool) -> None:
    """Jobs booked at half price and billed in full, or the other way round, are a batch discount, not a price error."""
    booked = ledger(jobs=20)
    kind = Charge.BATCH if tagged else Charge.TOKENS
    lines = [line(one, nanos=cost(one), kind=kind if one.job else Charge.TOKENS) for one in booked]
    found = told(gathered(lines, grain), booked)
    assert set(names(found)) == {"batch discount"}
    assert names(found)["batch discount"] > 0
    full = [replace(one, settled=cost(one)) if one.job else one for one in booked]
    halved = told(gathered(blurred(calls(booked), kind=Charge.TOKENS), grain), full)
    assert set(names(halved)) == {"batch discount"}
    assert names(halved)["batch discount"] < 0


@TOLD
def test_models_and_keys_that_were_never_used_here_are_foreign_traffic(grain: str) -> None:
    """A colleague's model is foreign, and so is a colleague's key where ours is named."""
    booked = ledger()
    other = [
        line(attempt(number), model="gpt-of-somebody", numbered=False, call=f"x{number}") for number in range(900, 905)
    ]
    found = told(gathered([*calls(booked), *other], grain), booked)
    assert names(found) == {"foreign traffic": sum(attempt(number).settled for number in range(900, 905))}
    ours = blurred(calls(booked), key="ours")
    theirs = [replace(one, model="model-a", key="theirs") for one in other]
    found = told(gathered([*ours, *theirs], grain), booked, keys=("ours",))
    assert set(names(found)) == {"foreign traffic"}


def test_amounts_in_cents_leave_rounding_and_no_more() -> None:
    """A statement that tells cents may be off by a cent a line: that is rounding, and reconciled; two cents are not."""
    booked = ledger(400)
    exact = gathered(calls(booked), "day")
    lines = [replace(one, amount=(one.amount or Decimal(0)).quantize(Decimal("0.01"))) for one in exact]
    found = told(lines, booked, unit=Decimal("0.01"))
    assert names(found) == {}
    assert found.residual == sum(one.amount for one in found.components) != 0
    wrong = [replace(lines[0], amount=(lines[0].amount or Decimal(0)) + Decimal("0.05")), *lines[1:]]
    assert set(names(told(wrong, booked, unit=Decimal("0.01")))) == {"price error"}


@pytest.mark.parametrize("hours", [-8, 8, 3])
def test_days_of_another_time_zone_are_found(hours: int) -> None:
    """Days that are not UTC fit at one offset alone, which is named; nothing else is claimed."""
    booked = ledger(400, days=6)
    # the provider's day begins `-hours` after ours, and the importer took it for a day of UTC
    lines = [
        replace(one, start=one.start + timedelta(hours=hours), end=one.end + timedelta(hours=hours))
        for one in gathered(calls(booked), "day", zone_s=-hours * 3600)
    ]
    found = told(lines, booked)
    assert found.zone == f"{'+' if hours > 0 else '-'}{abs(hours):02d}:00"
    assert set(names(found)) == {"time zone"}
    assert found.reconciled


@pytest.mark.parametrize("length", [60.0, DAY])
def test_calls_over_a_boundary_are_no_faults(length: float) -> None:
    """A call that began before a minute, or a day, ended may be counted in the next one: nothing is missing, nothing lacks."""
    late = [replace(attempt(number), models=frozenset({"model-a"}), at=START + DAY - 0.5) for number in (3, 4)]
    early = [replace(attempt(number), models=frozenset({"model-a"}), at=START + DAY + 1.0) for number in (5, 6)]
    before = [replace(attempt(number), models=frozenset({"model-a"}), at=START + DAY - 5.0) for number in (7, 8)]
    counted = [*calls(before), *(line(one, start=moment(START + DAY + 0.2)) for one in late), *calls(early)]
    grain = "day" if length == DAY else "minute"
    found = told(gathered(counted, grain), [*before, *late, *early])
    assert (names(found), found.reconciled, found.zone) == ({}, True, "")


def test_what_a_grain_cannot_tell_apart_is_said_and_not_guessed() -> None:
    """Money alone, with forfeits about, may be a billed forfeit, a missing attempt or a price error: it stays unexplained."""
    booked = ledger(forfeits=2)
    lines = blurred(gathered([*calls(booked), line(booked[60])], "period"), usage=Usage(), requests=None)
    found = told(lines, booked)
    assert set(names(found)) - {"forfeits not billed"} == {"cannot be told apart"}
    assert found.verdict.startswith("unexplained 0.0")
    assert not found.reconciled
    (unclear,) = [one for one in found.components if one.name == "cannot be told apart"]
    assert "forfeits billed" in unclear.evidence[0]
    assert told(lines, booked, tolerance=HOLD).reconciled


def test_settled_calls_that_the_statement_lacks_are_told() -> None:
    """A call that was booked and is on no line is not on the statement; one outside of its days is left out of the comparison."""
    booked = ledger()
    early = replace(attempt(70), at=START - 10 * DAY)
    found = told(calls(booked)[:-1], [*booked, early])
    assert names(found) == {"not on the statement": -booked[-1].settled}
    assert found.outside == (1, early.settled)


def test_voids_and_open_holds_that_were_billed_are_told() -> None:
    """A call that the ledger thought free, and one that it still holds, are named for what they are; none is resolved."""
    free, held = replace(attempt(60), state=State.VOID, settled=0), replace(attempt(61), state=State.OPEN, settled=0)
    booked = [*ledger(), free, held]
    found = told([*calls(booked), line(free), line(held)], booked)
    assert names(found) == {"voids billed": cost(free), "open holds billed": cost(held)}
    assert found.resolves == ()


def test_charges_beside_tokens_and_other_experiments_are_named() -> None:
    """A web search, and what another budget of the same cache bought, are parts of their own."""
    booked = [replace(one, experiment="other", budget="side") if one.attempt % 5 == 0 else one for one in ledger()]
    search = replace(line(attempt(900)), model=None, kind=Charge.OTHER, attempt=None, call=None, amount=Decimal("0.01"))
    found = told([*gathered(calls(booked), "day"), search], booked, scope=lambda one: one.budget == "main")
    away = sum(one.settled for one in booked if one.budget == "side")
    assert names(found) == {"other charges": 10_000_000, "outside the scope": away}
    assert found.settled == sum(one.settled for one in booked) - away


def test_every_fault_at_once_is_named_call_by_call() -> None:
    """A missing attempt, billed and unbilled forfeits, a price error, an unseen cache, a job in full and a stranger, together."""
    booked = ledger(forfeits=2, jobs=4)
    blind = Usage(input_fresh=600, cache_read=0, output_visible=10)
    booked[5] = replace(booked[5], usage=blind, settled=cost(booked[5], blind))
    lines = {one.attempt or 0: one for one in calls(booked)}
    lines[0] = line(booked[0], nanos=cost(booked[0]))
    seen = Usage(input_fresh=88, cache_read=512, output_visible=10)
    lines[5] = line(booked[5], usage=seen, nanos=cost(booked[5], seen))
    lines[6] = line(booked[6], nanos=booked[6].settled * 2)
    lines[60] = line(booked[60])
    lines[900] = line(attempt(900))
    lines[901] = line(attempt(901), model="else")
    found = told(list(lines.values()), booked)
    assert names(found) == {
        "missing attempts": attempt(900).settled,
        "forfeits billed": cost(booked[60], Usage(input_fresh=400, output_visible=100)),
        "forfeits not billed": 0,
        "price error": booked[6].settled,
        "cache discount": -512 * 750,
        "batch discount": cost(booked[0]) - booked[0].settled,
        "foreign traffic": attempt(901).settled,
    }
    assert found.residual == sum(names(found).values())


def test_faults_on_other_days_and_models_are_told_apart_by_day() -> None:
    """At the grain of days a price error of one model and a missing attempt of the other do not mix."""
    booked = ledger()
    dear = [
        replace(one, amount=(one.amount or Decimal(0)) * 2) if one.model == "model-a" else one for one in calls(booked)
    ]
    lost = attempt(901)  # of model-b
    found = told(gathered([*dear, line(lost)], "day"), booked)
    error = sum(one.settled for one in booked if "model-a" in one.models)
    assert names(found) == {"price error": error, "missing attempts": lost.settled}


def test_tokens_without_requests_name_a_billed_forfeit_and_resolve_none() -> None:
    """Where nothing counts requests (Anthropic), the surplus of tokens within a hold is told as that forfeit, but not applied."""
    booked = ledger(forfeits=1)
    found = told(blurred(gathered([*calls(booked), line(booked[60])], "day"), requests=None), booked)
    assert names(found)["forfeits billed"] == cost(booked[60], Usage(input_fresh=400, output_visible=100))
    assert found.resolves == ()


def test_lines_without_our_numbers_find_their_calls_by_the_providers_id() -> None:
    """An id in the answer is enough; a forfeit, which never got one, is met by its model and day."""
    booked = ledger(forfeits=1)
    lines = [*calls(booked, numbered=False), line(booked[60], numbered=False)]
    found = told(lines, booked)
    assert found.grains == {"lab": "call"}
    assert names(found) == {"forfeits billed": cost(booked[60], Usage(input_fresh=400, output_visible=100))}


def test_names_of_models_meet_across_spellings() -> None:
    """Makers, dates, `preview` and the order of words do not keep a model from its own lines."""
    assert name_of("anthropic/claude-4.5-sonnet-20250929") == name_of("Claude Sonnet 4.5")
    assert name_of("gpt-4o-mini-2024-07-18") == name_of("gpt-4o-mini")
    assert name_of("gemini-3-flash") == name_of("gemini-3-flash-preview")
    assert name_of("gpt-4o") != name_of("gpt-4o-mini")


def test_the_page_has_every_part_and_escapes_what_others_wrote() -> None:
    """The Markdown names the verdict, each part with its evidence, each forfeit; a model's name brings no markup."""
    booked = ledger(forfeits=1)
    text = page("june", told([*calls(booked), line(attempt(900), model="<b>|x")], booked)).decode()
    assert "# Reconciliation june: reconciled" in text
    assert "forfeits not billed" in text
    assert "<b>" not in text
    assert "| 60 | 0.003 | 0.00 | no |" in text


LINES = st.builds(
    lambda number, model, nanos, start, length, requests, tokens, single, kind: Line(
        file="bill.csv",
        where=f"line {number}",
        provider="lab",
        model=model,
        start=moment(START + start),
        end=moment(START + start + (0 if single else length)),
        amount=None if nanos is None else Decimal(nanos).scaleb(-10),
        usage=Usage(input_fresh=tokens, output_visible=tokens) if tokens is not None else Usage(),
        requests=requests,
        kind=kind,
        attempt=number if single else None,
    ),
    st.integers(0, 12),
    st.sampled_from([None, "model-a", "model-b", "alien"]),
    st.none() | st.integers(-(10**7), 10**8),
    st.integers(0, int(2 * DAY)),
    st.sampled_from([3600.0, DAY]),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 4000),
    st.booleans(),
    st.sampled_from(list(Charge)),
)
STATES = st.lists(st.sampled_from(list(State)), min_size=1, max_size=10)


@settings(max_examples=300, deadline=None)
@given(lines=st.lists(LINES, min_size=1, max_size=12), states=STATES, seed=st.integers(0, 9))
def test_the_parts_add_up_whatever_the_statement_says(lines: list[Line], states: list[State], seed: int) -> None:
    """The components of any statement and ledger add up to statement minus settled, to the nano; no forfeit is resolved twice."""
    booked = [attempt(number, state=state, seed=seed) for number, state in enumerate(states)]
    found = told(lines, booked)
    assert sum(one.amount for one in found.components) == found.residual
    numbers = [one.booked.attempt for one in found.resolves]
    assert len(numbers) == len(set(numbers))
    assert all(one.booked.state is State.FORFEITED for one in found.resolves)


PLANTED = ("none", "missing", "billed", "unbilled", "price", "cache", "batch", "foreign", "absent")


def planted(number: int, fault: str, seed: int) -> tuple[list[Booked], list[Line], str, int]:
    """One call with one fault: what the ledger and the statement have of it, the name of the part, and its amount."""
    one = attempt(number, job=fault == "batch", seed=seed)
    if fault == "missing":
        return [], [line(one)], "missing attempts", one.settled
    if fault == "foreign":
        return [], [line(one, model="alien")], "foreign traffic", one.settled
    if fault == "absent":
        return [one], [], "not on the statement", -one.settled
    if fault in ("billed", "unbilled"):
        lost = attempt(number, state=State.FORFEITED, seed=seed)
        true = line(lost)
        charged = cost(lost, true.usage)
        return (
            [lost],
            [true] * (fault == "billed"),
            f"forfeits {'' if fault == 'billed' else 'not '}billed",
            charged * (fault == "billed"),
        )
    if fault == "price":
        return [one], [line(one, nanos=one.settled * 3)], "price error", one.settled * 2
    if fault == "batch":
        return [one], [line(one, nanos=cost(one))], "batch discount", cost(one) - one.settled
    if fault == "cache":
        blind = replace(one, usage=Usage(input_fresh=900, cache_read=0, output_visible=5))
        seen = Usage(input_fresh=100, cache_read=800, output_visible=5)
        ours, theirs = cost(blind), cost(blind, seen)
        return [replace(blind, settled=ours)], [line(blind, usage=seen, nanos=theirs)], "cache discount", theirs - ours
    return [one], [line(one)], "", 0


@settings(max_examples=200, deadline=None)
@given(faults=st.lists(st.sampled_from(PLANTED), min_size=1, max_size=25), seed=st.integers(0, 99))
def test_any_mixture_of_faults_is_named_call_by_call(faults: list[str], seed: int) -> None:
    """Whatever faults are planted together, each part has exactly the money of its own."""
    anchors = [attempt(number, seed=seed) for number in (1000, 1001)]  # both models are known
    booked, lines, wanted = [*anchors], calls(anchors), dict[str, int]()
    for number, fault in enumerate(faults):
        ours, theirs, name, amount = planted(number, fault, seed)
        booked, lines = booked + ours, lines + theirs
        if name:
            wanted[name] = wanted.get(name, 0) + amount
    ends = (moment(START), moment(START + 2 * DAY - 1))  # the statement covers both days
    span = [replace(one, start=end, end=end) for one, end in zip(lines, ends, strict=False)]
    assert names(told([*span, *lines[2:]], booked)) == wanted
