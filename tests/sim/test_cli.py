"""The commands as a person runs them, on the simulated provider: exit codes, refusals, money, secrets."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import judgerun
from fakes.simulator import JUDGERUN, Simulator, simulator

CANARY = "sk-canary-0123456789abcdef"

EXPERIMENT = """
name = "tone"
seed = 3
[data.rows]
path = "rows.jsonl"
[providers.sim]
dialect = "openai"
base_url = "${SIM_URL}"
identity = "sim"
api_key_env = "SIM_KEY"
price = { input = "0.50", output = "2.00" }
[models.one]
provider = "sim"
model = "sim-one"
temperature = 0
max_output_tokens = 256
thinking = "off"
[models.two]
provider = "sim"
model = "sim-two"
temperature = 0
max_output_tokens = 256
thinking = "off"
[[stage]]
name = "tone"
kind = "judge"
from = "rows"
models = ["one", "two"]
prompts = ["tone"]
parse = { kind = "label", values = ["POSITIVE", "NEGATIVE"] }
"""
PROMPT = "Review {{ id }}: {{ text }}\nAnswer with one word: POSITIVE or NEGATIVE\n"
LANES = "[sim]\nconcurrency = 6\nattempts_max = 3\ntimeout_s = 5\n"
ROWS = 30


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace with one experiment of 60 cells and a budget of one dollar."""
    folder = tmp_path / "w" / "prompts" / "tone"
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(EXPERIMENT)
    (folder / "tone.md").write_text(PROMPT)
    rows = [
        json.dumps({"id": f"r{n}", "text": f"It was {'good' if n % 2 else 'bad'}, all told, number {n}."})
        for n in range(ROWS)
    ]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    (tmp_path / "w" / "budgets").mkdir()
    (tmp_path / "w" / "budgets" / "main.toml").write_text('total = "1.00"\n')
    (tmp_path / "w" / "budgets" / "lanes.toml").write_text(LANES)
    return tmp_path / "w"


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Simulator]:
    """A provider without faults."""
    with simulator(tmp_path / "provider.bill.jsonl", seed=1) as running:
        yield running


class Outcome:
    """What a command printed and how it ended."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self) -> Any:
        """The object on stdout."""
        return json.loads(self.out)


def environ(url: str) -> dict[str, str]:
    """The environment of a run against a provider."""
    return {**os.environ, "SIM_URL": url, "SIM_KEY": CANARY, "COLUMNS": "200"}


def command(place: Path, url: str, *words: str) -> Outcome:
    """Run one command in a workspace."""
    done = subprocess.run(
        [str(JUDGERUN), *words, "--workspace", str(place)],
        capture_output=True,
        text=True,
        env=environ(url),
        timeout=120,
        check=False,
    )
    return Outcome(done)


def budget(place: Path, text: str) -> None:
    """Rewrite the budget."""
    (place / "budgets" / "main.toml").write_text(text)


def edit(place: Path, old: str, new: str) -> None:
    """Change the experiment file."""
    path = place / "prompts" / "tone" / "experiment.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_run_from_start_to_seal(place: Path, provider: Simulator) -> None:
    """check, plan, run, status, audit, seal, report, verify, export, bundle work in turn, and the ledger equals the bill."""
    url = provider.url
    assert command(place, url, "check", "tone").code == 0
    quoted = command(place, url, "plan", "tone", "--json").json
    assert (quoted["cells"], quoted["to_send"]) == (60, 60)
    assert not provider.rows()

    ran = command(place, url, "run", "tone", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["cells"] == {"planned": 60, "done": 60, "failed": 0, "pending": 0, "cached": 0, "shared": 0}
    assert ran.json["state"] == "complete"
    assert Decimal(ran.json["spend"]["settled_usd"]) * 10**9 == provider.nanos()
    assert Decimal(ran.json["spend"]["high_usd"]) <= Decimal(quoted["bound_usd"])
    assert len(provider.rows()) == ran.json["attempts"] == 60

    assert command(place, url, "run", "tone").code == 0
    assert len(provider.rows()) == 60, "a second run sent something"
    assert command(place, url, "status", "tone", "--json").json["spend"] == ran.json["spend"]

    assert command(place, url, "audit", "tone").code == 0
    assert json.loads((place / "audits" / "tone" / "audit.json").read_text())["verdict"] == "pass"
    assert command(place, url, "verify", "tone").code == 2, "there is no seal yet"
    assert command(place, url, "seal", "tone").code == 0
    for _ in range(2):
        assert command(place, url, "report", "tone").code == 0
        assert command(place, url, "verify", "tone").code == 0
    assert json.loads((place / "results" / "tone" / "estimates.json").read_text())
    assert command(place, url, "export", "tone").code == 0
    assert command(place, url, "bundle", "tone").code == 0
    bundle = place / "results" / "tone" / "tone.judgerun.zip"
    checked = subprocess.run(
        [str(JUDGERUN), "verify", str(bundle)],
        capture_output=True,
        text=True,
        cwd=place.parent,
        env={"PATH": os.environ["PATH"]},
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert command(place, url, "show", "tone", "--item", "r3", "--json").json["cells"][0]["value"] in (
        "POSITIVE",
        "NEGATIVE",
    )
    assert command(place, url, "sheet", "tone", "--n", "5").code == 0


def test_results_are_the_same_bytes_from_the_same_seal(place: Path, provider: Simulator) -> None:
    """results/ and audits/ made twice from one sealed cache are byte for byte the same."""
    for words in (("run", "tone"), ("seal", "tone")):
        assert command(place, provider.url, *words).code == 0

    def made() -> dict[str, bytes]:
        for folder in ("results", "audits"):
            shutil.rmtree(place / folder, ignore_errors=True)
        for word in ("audit", "report", "export", "bundle"):
            assert command(place, provider.url, word, "tone").code == 0
        files = [path for folder in ("results", "audits") for path in (place / folder).rglob("*") if path.is_file()]
        return {str(path.relative_to(place)): path.read_bytes() for path in files}

    first = made()
    assert len(first) > 15
    assert made() == first


def test_an_exhausted_budget_stops_and_a_raised_one_goes_on(place: Path, provider: Simulator) -> None:
    """A cap too small ends with 3 and is never passed; raised, the same command buys only what is missing."""
    budget(place, 'total = "0.0012"\n')
    ran = command(place, provider.url, "run", "tone", "--json")
    assert ran.code == 3
    assert ran.json["state"] == "stopped"
    assert "exhausted" in ran.json["reason"]
    assert 0 < ran.json["cells"]["done"] < 60
    assert Decimal(ran.json["spend"]["high_usd"]) <= Decimal("0.0012")
    done = [line["done"] for line in ran.json["conditions"]]
    assert max(done) - min(done) <= 12, "conditions ended more than twice the slots apart"
    before = len(provider.rows())
    assert command(place, provider.url, "run", "tone").code == 3, "the same cap stops again"
    assert len(provider.rows()) - before <= 1

    budget(place, 'total = "1.00"\n')
    assert command(place, provider.url, "run", "tone", "--json").json["cells"]["done"] == 60
    assert len(provider.rows()) == 60, "something was bought twice"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('total = "1.00"\n[calls]\ntotal = 20\n', "calls"),
        ('total = "1.00"\n[provider]\nsim = "0.0010"\n', "provider sim"),
        ('total = "1.00"\n[stage]\ntone = "0.0010"\n', "stage tone"),
        ('total = "1.00"\n[experiment]\ntone = "0.0010"\n', "experiment tone"),
        ('total = "1.00"\n[condition]\n"tone/one" = "0.0008"\n', "condition tone/one"),
        ('total = "1.00"\n[day]\ntotal = "0.0010"\n', "day"),
        ('total = "1.00"\n[tokens]\ntotal = 1000\n', "tokens"),
    ],
)
def test_every_kind_of_cap_holds(place: Path, provider: Simulator, text: str, word: str) -> None:
    """A cap by calls, tokens, provider, stage, experiment, condition or day ends the run with 3 and says which it was."""
    budget(place, text)
    ran = command(place, provider.url, "run", "tone", "--json")
    assert ran.code == 3
    assert word in ran.json["reason"]
    if word == "calls":
        assert len(provider.rows()) == 20
    if word == "condition tone/one":
        by_model = {line["condition"].split("/")[1]: line for line in ran.json["conditions"]}
        assert by_model["two"]["done"] == ROWS, "the other condition went on"
        assert Decimal(by_model["one"]["spend_usd"]) <= Decimal("0.0008")


def test_consent_is_asked_for_before_anything_is_sent(place: Path, provider: Simulator) -> None:
    """Above confirm_above the run is refused with 2, names --yes, and makes no call; with --yes it runs."""
    budget(place, 'total = "1.00"\nconfirm_above = "0.001"\n')
    refused = command(place, provider.url, "run", "tone")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert not provider.rows()
    assert command(place, provider.url, "run", "tone", "--yes").code == 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('prompts = ["tone"]', 'prompt = ["tone"]', ["stage", "prompt", "prompts"]),
        ('models = ["one", "two"]', 'models = ["one", "too"]', ["too", "two"]),
        ('price = { input = "0.50", output = "2.00" }', "", ["price"]),
        ("max_output_tokens = 256", "", ["max_output_tokens"]),
        ('dialect = "openai"', 'dialect = "opnai"', ["opnai", "openai"]),
        ('thinking = "off"', 'thinking = "little"', ["thinking", "little"]),
        ("seed = 3", "seed = 3\nseeds = 4", ["seeds", "seed"]),
        ('path = "rows.jsonl"', 'path = "rowz.jsonl"', ["rowz.jsonl"]),
        ('from = "rows"', 'from = "row"', ["row"]),
    ],
)
def test_a_bad_file_is_refused_before_any_call(
    place: Path, provider: Simulator, old: str, new: str, words: list[str]
) -> None:
    """A mistake in the experiment ends with 2, names file and key, and makes no call."""
    edit(place, old, new)
    refused = command(place, provider.url, "run", "tone", "--json")
    assert refused.code == 2, refused.err
    told = json.dumps(refused.json["error"]["problems"])
    assert "experiment.toml" in told or "budgets" in told
    assert all(word in told for word in words), told
    assert not provider.rows()


def test_all_problems_are_told_at_once(place: Path, provider: Simulator) -> None:
    """Mistakes in several files are the problems of one refusal."""
    edit(place, 'models = ["one", "two"]', 'models = ["one", "too"]')
    edit(place, 'path = "rows.jsonl"', 'path = "rowz.jsonl"')
    edit(place, "temperature = 0", "temprature = 0")
    (place / "budgets" / "lanes.toml").write_text("[home]\nconcurency = 4\n")
    (place / "budgets" / "prices.toml").write_text("['sim/sim-one']\nimput = '1'\n")
    refused = command(place, provider.url, "check", "tone", "--json")
    assert refused.code == 2
    told = json.dumps(refused.json["error"]["problems"])
    assert all(word in told for word in ("too", "rowz.jsonl", "temprature", "concurency", "imput"))
    (place / "budgets" / "second.toml").write_text('total = "1.00"\n')
    again = ("--condition", "tone", "--max-output-tokens", "1O00")
    for words in (["plan"], ["run"], ["run", "--rehearse"], ["run", "--risk", "0.1"], ["probe"], ["escalate", *again]):
        refused = command(place, provider.url, words[0], "tone", "--json", *words[1:])
        told = json.dumps(refused.json["error"]["problems"])
        assert all(word in told for word in ("several budgets", "too", "rowz.jsonl", "temprature")), words
    assert "1O00" in told


def test_a_prompt_that_names_nothing_is_refused(place: Path, provider: Simulator) -> None:
    """A name that the rows do not have is told with the prompt's file, before any call."""
    (place / "prompts" / "tone" / "tone.md").write_text("{{ txt }}\nAnswer POSITIVE or NEGATIVE\n")
    refused = command(place, provider.url, "run", "tone", "--json")
    assert refused.code == 2
    assert "tone.md" in refused.out
    assert "txt" in refused.out
    assert not provider.rows()


def test_a_missing_key_is_refused_and_named(place: Path, provider: Simulator) -> None:
    """Without the variable that holds the key a run ends with 2 before any call; plan and status need none."""
    env = {name: value for name, value in environ(provider.url).items() if name != "SIM_KEY"}
    words = [str(JUDGERUN), "run", "tone", "--workspace", str(place)]
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.returncode == 2
    assert "SIM_KEY" in done.stderr
    assert not provider.rows()
    for word in ("plan", "status"):
        words[1] = word
        assert subprocess.run(words, capture_output=True, env=env, timeout=60, check=False).returncode == 0


def test_a_bill_above_its_hold_freezes_the_budget(place: Path, tmp_path: Path) -> None:
    """An overrun is booked in full, ends with 4, stays frozen for every later run, and is reopened only on the record."""
    with simulator(tmp_path / "bill.jsonl", seed=2, faults="overrun=0.2") as provider:
        ran = command(place, provider.url, "run", "tone", "--json")
        assert ran.code == 4
        assert Decimal(ran.json["spend"]["settled_usd"]) * 10**9 == provider.nanos()
        calls = len(provider.rows())
        assert command(place, provider.url, "run", "tone").code == 4
        assert len(provider.rows()) == calls
        assert command(place, provider.url, "unfreeze", "tone", "--because", " ").code == 2
        assert command(place, provider.url, "unfreeze", "tone", "--because", "the invoice says so").code == 0
        assert command(place, provider.url, "run", "tone").code in (0, 4)
        assert len(provider.rows()) > calls


@pytest.mark.parametrize("fault", ["quota", "401"])
def test_a_dead_provider_ends_with_9(place: Path, tmp_path: Path, fault: str) -> None:
    """Out of credit, or a key that is not accepted: cells stay pending and the run ends at once."""
    with simulator(tmp_path / "bill.jsonl", seed=2, faults=f"{fault}=1") as provider:
        ran = command(place, provider.url, "run", "tone", "--json")
        assert ran.code == 9
        assert ran.json["cells"]["pending"] == 60
        assert ran.json["cells"]["failed"] == 0
        assert len(provider.rows()) <= 6
        assert ran.json["spend"]["high_usd"] == "0.00"


def test_every_gate_and_a_closed_provider_are_told_to_a_command(place: Path, tmp_path: Path) -> None:
    """Two gates that fire as a run ends, and a provider that is out of credit before the first second is over: a notice of each,
    then how it ended, with what the cache has as JSON readable at once.
    """
    kept = tmp_path / "kept.jsonl"
    notify = ("--notify", f"sh -c 'cat >> {kept}'")
    edit(place, 'prompts = ["tone"]', 'prompts = ["tone"]\ngate = { truncated = 0.2, after = 20 }')
    with simulator(tmp_path / "cut.jsonl", faults="no_parts=1") as provider:
        assert command(place, provider.url, "run", "tone", *notify).code == 7
    told = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [one["event"] for one in told] == ["gate", "gate", "stop"]
    assert all(one["detail"]["why"].startswith(one["detail"]["limit"]) for one in told[:2])
    kept.unlink()
    path = place / "prompts" / "tone" / "tone.md"
    path.write_text("Once more. " + path.read_text())
    with simulator(tmp_path / "poor.jsonl", faults="quota=1") as provider:
        assert command(place, provider.url, "run", "tone", *notify).code == 9
    told = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [one["event"] for one in told] == ["closed", "stop"]


def test_a_gate_stops_its_condition(place: Path, tmp_path: Path) -> None:
    """Unparsed replies beyond the limit stop the condition; the run ends with 7 and money is saved."""
    edit(place, 'prompts = ["tone"]', 'prompts = ["tone"]\ngate = { unparsed = 0.05, after = 10 }')
    with simulator(tmp_path / "bill.jsonl", seed=2, faults="empty=0.6") as provider:
        ran = command(place, provider.url, "run", "tone", "--json")
        assert ran.code == 7
        assert ran.json["cells"]["pending"] > 0
        assert "unparsed" in ran.json["reason"]
        calls = len(provider.rows())
        assert command(place, provider.url, "run", "tone").code == 7
        assert len(provider.rows()) == calls, "a rerun judges the gate from the cache before it sends"


def test_failed_cells_make_a_complete_run_end_with_8(place: Path, tmp_path: Path) -> None:
    """A provider that answers 500 for ever: every cell fails with its reason, the run is complete, 8; the audit agrees."""
    with simulator(tmp_path / "bill.jsonl", seed=2, faults="500=1") as provider:
        edit(place, 'path = "rows.jsonl"', 'path = "rows.jsonl"\nsample = 2')
        ran = command(place, provider.url, "run", "tone", "--json")
        assert ran.code == 8
        assert ran.json["state"] == "complete"
        assert ran.json["cells"]["failed"] == 4
        assert ran.json["attempts"] == len(provider.rows()) == 12
        assert ran.json["spend"]["high_usd"] == "0.00"
        assert command(place, provider.url, "audit", "tone").code == 8
        assert command(place, provider.url, "seal", "tone").code == 8
    with simulator(tmp_path / "bill2.jsonl", seed=2) as provider:
        assert command(place, provider.url, "run", "tone").code == 0, "a rerun tries failed cells anew"


def test_unknown_finish_is_unknown_and_a_finding(place: Path, tmp_path: Path) -> None:
    """A finish reason never seen before is counted as unknown, is no verdict, and is found by the audit."""
    with simulator(tmp_path / "bill.jsonl", seed=4, faults="finish_new=1") as provider:
        edit(place, 'path = "rows.jsonl"', 'path = "rows.jsonl"\nsample = 3')
        ran = command(place, provider.url, "run", "tone", "--json")
        assert sum(line["finish"].get("unknown", 0) for line in ran.json["conditions"]) == 6
        assert sum(line["concluded"] for line in ran.json["conditions"]) == 0
        audited = command(place, provider.url, "audit", "tone", "--json")
        assert audited.code == 8
        assert any(finding["check"] == "finish" for finding in audited.json["findings"])


def test_what_may_have_been_billed_is_forfeited(place: Path, tmp_path: Path) -> None:
    """Connections that drop after the work: the bill lies between settled and settled + forfeited."""
    with simulator(
        tmp_path / "bill.jsonl", seed=5, faults="drop_after=0.15,drop_before=0.1,usage_missing=0.1"
    ) as provider:
        ran = command(place, provider.url, "run", "tone", "--json")
        assert ran.code in (0, 8)
        low, high = (int(Decimal(ran.json["spend"][name]) * 10**9) for name in ("low_usd", "high_usd"))
        assert low <= provider.nanos() <= high
        assert low < high


def test_interrupt_drains_and_resume_buys_nothing_twice(place: Path, tmp_path: Path) -> None:
    """SIGINT once: what is in flight finishes, exit 130, nothing is held; the next run completes without buying twice."""
    with simulator(tmp_path / "bill.jsonl", seed=6, pace=40.0) as provider:
        words = [str(JUDGERUN), "run", "tone", "--json", "--workspace", str(place)]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ(provider.url)
        )
        _wait(lambda: len(provider.rows()) >= 6)
        running = command(place, provider.url, "status", "tone", "--json").json
        assert running["state"] == "running"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        ended = json.loads(out)
        assert process.returncode == 130
        assert ended["spend"]["held_usd"] == ended["spend"]["forfeited_usd"] == "0.00"
        assert 0 < ended["cells"]["done"] < 60
        assert command(place, provider.url, "run", "tone").code == 0
        assert len(provider.rows()) == 60


def test_stop_from_another_terminal_drains(place: Path, tmp_path: Path) -> None:
    """`judgerun stop` makes the running process end with 130 and its calls finished; with none running it says so."""
    with simulator(tmp_path / "bill.jsonl", seed=6, pace=40.0) as provider:
        words = [str(JUDGERUN), "run", "tone", "--json", "--workspace", str(place)]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ(provider.url)
        )
        _wait(lambda: len(provider.rows()) >= 6)
        assert command(place, provider.url, "stop", "tone", "--json").json["asked"] == 1
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        assert json.loads(out)["spend"]["held_usd"] == "0.00"
        assert command(place, provider.url, "stop", "tone", "--json").json["asked"] == 0


def _wait(holds: Any, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.05)


def test_a_canary_key_appears_nowhere(place: Path, tmp_path: Path) -> None:
    """After a run full of faults, and after every command, no file, no output and no traceback holds the key."""
    faults = "drop_after=0.05,drop_mid=0.05,500=0.1,garbage=0.05,error_200=0.05,401=0.02,429=0.1"
    said = []
    with simulator(tmp_path / "bill.jsonl", seed=7, faults=faults) as provider:
        for words in (
            ("run", "tone"),
            ("run", "tone", "--json"),
            ("status", "tone"),
            ("audit", "tone"),
            ("seal", "tone", "--because", "tried"),
            ("report", "tone"),
            ("export", "tone"),
            ("show", "tone", "--failed"),
            ("doctor",),
            ("bundle", "tone"),
        ):
            done = command(place, provider.url, *words)
            said.append(done.out + done.err)
    assert CANARY not in "".join(said)
    for path in place.rglob("*"):
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), path
    with sqlite3.connect(place / "cache.db") as cache:
        for (blob,) in cache.execute("select raw from attempt where raw is not null"):
            assert CANARY.encode() not in _unzip(blob)


def _unzip(blob: bytes) -> bytes:
    import zlib

    return zlib.decompress(blob)


@pytest.mark.parametrize("what", ["reply", "entry"])
def test_a_flipped_bit_breaks_the_seal(place: Path, provider: Simulator, what: str) -> None:
    """A reply or an entry changed behind our back is named by `verify`, which ends with 5."""
    for words in (("run", "tone"), ("seal", "tone"), ("report", "tone")):
        assert command(place, provider.url, *words).code == 0
    with sqlite3.connect(place / "cache.db") as cache:
        cache.execute(f"drop trigger {what}_update")
        if what == "reply":
            cache.execute("update reply set text = 'NEGATIVE ' where request = 5")
        else:
            cache.execute("update entry set nanos = nanos + 1 where id = 8")
    broken = command(place, provider.url, "verify", "tone", "--json")
    assert broken.code == 5
    assert broken.json["whole"] is False
    assert broken.json["differences"]


def test_a_changed_number_breaks_the_seal(place: Path, provider: Simulator) -> None:
    """A number changed in the results is found, though the cache is whole."""
    for words in (("run", "tone"), ("seal", "tone"), ("report", "tone")):
        assert command(place, provider.url, *words).code == 0
    path = place / "results" / "tone" / "estimates.json"
    text = path.read_text()
    path.write_text(
        text.replace('"n":', '"n": 1', 1) if '"n": 1' not in text[:400] else text.replace("true", "false", 1)
    )
    assert path.read_text() != text
    assert command(place, provider.url, "verify", "tone").code == 5


def test_pending_cells_are_sealed_only_with_a_reason(place: Path, provider: Simulator) -> None:
    """A stopped experiment is refused a seal, unless it is said why it ends there; the report then carries the reason."""
    budget(place, 'total = "0.0012"\n')
    assert command(place, provider.url, "run", "tone").code == 3
    assert command(place, provider.url, "seal", "tone").code == 2
    assert command(place, provider.url, "seal", "tone", "--because", "the money is spent").code == 0
    assert command(place, provider.url, "report", "tone").code == 0
    assert "the money is spent" in (place / "results" / "tone" / "report.md").read_text()
    assert command(place, provider.url, "verify", "tone").code == 0


def test_a_draft_says_so(place: Path, provider: Simulator) -> None:
    """A report on an unsealed cache carries the banner."""
    assert command(place, provider.url, "run", "tone", "--limit", "5").code == 0
    assert command(place, provider.url, "report", "tone").code == 0
    assert "DRAFT" in (place / "results" / "tone" / "report.md").read_text()
    assert len(provider.rows()) == 10


def test_a_newer_cache_is_refused(place: Path, provider: Simulator) -> None:
    """A cache written by a later version ends with 6 and is left alone."""
    assert command(place, provider.url, "run", "tone", "--limit", "1").code == 0
    with sqlite3.connect(place / "cache.db") as cache:
        cache.execute("pragma user_version = 999")
    refused = command(place, provider.url, "run", "tone")
    assert refused.code == 6, refused.err
    assert len(provider.rows()) == 2


def test_only_and_limit_narrow_a_run(place: Path, provider: Simulator) -> None:
    """--only buys one condition, --limit so many blocks; what is left out stays pending."""
    ran = command(place, provider.url, "run", "tone", "--only", "tone/one", "--limit", "4", "--json")
    assert ran.code == 0
    assert ran.json["cells"]["done"] == 4
    assert ran.json["cells"]["pending"] == 56
    assert len(provider.rows()) == 4


def test_plan_tells_what_changed(place: Path, provider: Simulator) -> None:
    """After a prompt is edited, `plan` names its line and how many replies that costs."""
    assert command(place, provider.url, "run", "tone").code == 0
    path = place / "prompts" / "tone" / "tone.md"
    path.write_text(path.read_text().replace("one word", "a single word"))
    changes = command(place, provider.url, "plan", "tone", "--json").json["changes"]
    assert any("tone.md" in line and "line 2" in line for line in changes), changes
    assert any("30 cached -> 0" in line for line in changes), changes


def test_explain_names_the_first_field_that_differs(place: Path, provider: Simulator) -> None:
    """Two keys of one prompt under two models differ in the model."""
    assert command(place, provider.url, "run", "tone", "--limit", "1").code == 0
    with sqlite3.connect(place / "cache.db") as cache:
        keys = [key.hex() for (key,) in cache.execute("select key from request")]
    told = command(place, provider.url, "cache", "explain", *keys, "--json").json
    assert told["differs"]["path"] == "payload.model"
    assert sorted(told["differs"]["values"]) == ["sim-one", "sim-two"]


def test_judge_goes_from_rows_to_verdicts(tmp_path: Path, provider: Simulator) -> None:
    """`judge` writes the experiment and its budget from a CSV, shows the quote, and runs with --yes; three ways of reading."""
    (tmp_path / "rows.csv").write_text('name,text\na,"good, really"\nb,"bad ""indeed"""\n')
    (tmp_path / "p.md").write_text("{{ text }}\nAnswer POSITIVE or NEGATIVE\n")
    (tmp_path / "s.md").write_text("{{ text }}\nGive one whole number from 1 to 5.\n")
    (tmp_path / "j.md").write_text('{{ text }}\nAnswer with one JSON object: {"verdict": "good" or "bad"}\n')
    schema = {"type": "object", "required": ["verdict"], "properties": {"verdict": {"enum": ["good", "bad"]}}}
    (tmp_path / "v.json").write_text(json.dumps(schema))
    server = ["--model", "sim-one", "--base-url", provider.url, "--price", "1,4", "--cap", "0.50", "--id", "name"]
    rows = str(tmp_path / "rows.csv")

    quoted = command(
        tmp_path,
        provider.url,
        "judge",
        rows,
        "--prompt",
        str(tmp_path / "p.md"),
        *server,
        "--labels",
        "POSITIVE,NEGATIVE",
    )
    assert quoted.code == 0, quoted.err
    assert not provider.rows()
    for name, words in (
        ("labels", ["--prompt", str(tmp_path / "p.md"), "--labels", "POSITIVE,NEGATIVE", "--draws", "3"]),
        ("score", ["--prompt", str(tmp_path / "s.md"), "--score", "1-5"]),
        ("schema", ["--prompt", str(tmp_path / "j.md"), "--json", str(tmp_path / "v.json")]),
    ):
        ran = command(tmp_path, provider.url, "judge", rows, *words, *server, "--name", name, "--yes", "--json")
        assert ran.code == 0, ran.err
        assert ran.json["state"] == "complete"
        assert ran.json["cells"]["done"] == (6 if name == "labels" else 2)
        assert ran.json["cells"]["done"] == sum(line["concluded"] for line in ran.json["conditions"]), name


def test_the_example_workspace_runs(tmp_path: Path, provider: Simulator) -> None:
    """What `init` writes passes check and runs whole."""
    assert command(tmp_path, provider.url, "init", "mine").code == 0
    place = tmp_path / "mine"
    path = place / "prompts" / "example" / "experiment.toml"
    path.write_text(path.read_text().replace("http://127.0.0.1:8399/v1", provider.url))
    assert command(place, provider.url, "check", "example").code == 0
    assert command(place, provider.url, "run", "example").code == 0
    assert command(place, provider.url, "doctor").code == 0
    assert command(tmp_path, provider.url, "init", "mine").code == 2, "it overwrites nothing"


def test_a_wrong_command_line_is_2(place: Path) -> None:
    """Unknown commands and options, and an experiment that is not there, end with 2; --help prints the table of exits."""
    for words in (("nosuch",), ("plan", "tone", "--wat"), ("plan", "tune")):
        assert command(place, "http://127.0.0.1:9/v1", *words).code == 2
    help_text = subprocess.run([str(JUDGERUN), "--help"], capture_output=True, text=True, check=True).stdout
    assert "130 interrupted" in " ".join(help_text.split())


def test_a_caller_that_breaks_leaves_no_hold(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a program's own error ends the event loop in the middle of `judgerun.run`, the loop ends, what was in flight is
    forfeited, and the next run goes on.
    """
    monkeypatch.setenv("SIM_KEY", CANARY)
    with simulator(tmp_path / "bill.jsonl", seed=6, pace=40.0) as provider:
        monkeypatch.setenv("SIM_URL", provider.url)
        experiment = judgerun.load(place / "prompts" / "tone")

        async def main() -> None:
            task = asyncio.create_task(judgerun.run(experiment, budget="main"))
            while len(provider.rows()) < 6:
                assert not task.done()
                await asyncio.sleep(0.05)
            raise RuntimeError("the caller's own error")

        with pytest.raises(RuntimeError, match="the caller's own error"):
            asyncio.run(main())
        after = command(place, provider.url, "status", "tone", "--json").json
        assert after["state"] == "stopped"
        assert after["spend"]["held_usd"] == "0.00"
        assert Decimal(after["spend"]["high_usd"]) * 10**9 >= provider.nanos()
        assert command(place, provider.url, "run", "tone").code == 0


def test_status_ends_with_0_whatever_the_files_say(place: Path, provider: Simulator) -> None:
    """While a file is being edited `status` tells what is wrong with it, and still ends with 0."""
    edit(place, "seed = 3", "seed = ")
    told = command(place, provider.url, "status", "tone", "--json")
    assert told.code == 0
    assert told.json["error"]["problems"]


def test_graders_that_were_never_asked_make_a_run_end_with_8(place: Path, tmp_path: Path) -> None:
    """Where most answers are cut, most graders are never asked: the run is complete, ends with 8, and each has its reason."""
    path = place / "prompts" / "tone" / "experiment.toml"
    path.write_text(
        path.read_text()
        + '\n[[stage]]\nname = "mark"\nkind = "grade"\nfrom = "tone"\nmodels = ["one"]\nprompts = ["mark"]\n'
        + 'parse = { kind = "score", low = 0, high = 7 }\n'
    )
    (place / "prompts" / "tone" / "mark.md").write_text("Verdict: {{ reply }}\nGive one whole number from 0 to 7.\n")
    with simulator(tmp_path / "bill.jsonl", seed=2, faults="empty=1") as provider:
        ran = command(place, provider.url, "run", "tone", "--json")
        assert ran.code == 8
        assert ran.json["state"] == "complete"
        marks = [line for line in ran.json["conditions"] if line["stage"] == "mark"]
        assert [line["reasons"] for line in marks] == [{"upstream empty": ROWS}] * 2
        assert len(provider.rows()) == 60, "nothing was asked of a grader"


def test_status_foresees_how_wide_the_main_number_will_be(place: Path, provider: Simulator) -> None:
    """Amid an experiment with a question, status tells the width of its interval now and at the end of the budget; a budget that
    ends first makes it wider; a complete experiment has no forecast.
    """
    question = (
        '[[question]]\nname = "ones"\nfrom = "tone"\nvalue = "value == \'POSITIVE\'"\n'
        'compare = { model = ["one", "two"] }\ntest = "paired-bootstrap"\n'
    )
    (place / "prompts" / "tone" / "experiment.toml").write_text(EXPERIMENT + question)
    assert command(place, provider.url, "status", "tone", "--json").json["width"]["note"] == "too few complete blocks"
    assert command(place, provider.url, "run", "tone", "--limit", "12").code == 0
    found = command(place, provider.url, "status", "tone", "--json").json
    whole = found["width"]
    assert (whole["question"], whole["measure"], whole["blocks"], whole["blocks_at_end"]) == (
        "ones",
        "difference",
        12,
        30,
    )
    assert (whole["paid"], whole["note"]) == (1.0, "")
    assert "its interval is" in command(place, provider.url, "status", "tone").out
    spent = Decimal(found["spend"]["high_usd"])
    budget(place, f'total = "{spent * 2}"\n')
    short = command(place, provider.url, "status", "tone", "--json").json["width"]
    assert 12 < short["blocks_at_end"] < 30
    assert short["note"] == "the budget ends first"
    assert short["at_end"][1] >= whole["at_end"][1]
    budget(place, 'total = "1.00"\n')
    assert command(place, provider.url, "run", "tone").code == 0
    assert command(place, provider.url, "status", "tone", "--json").json["width"] is None
