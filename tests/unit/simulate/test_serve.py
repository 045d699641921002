"""The simulated provider as a process: its ready line, its refusals, its end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from judgerun.simulate.dialects import BASES

START = "import sys; from judgerun.simulate.server import serve; sys.exit(serve(**{}))"


def start(**arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START.format(arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    bill = tmp_path / "bill.jsonl"
    process = start(bill=str(bill), seed=3, pace=0.0, requests_per_minute=2)
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())
    assert ready["ready"] is True
    assert ready["url"] == ready["urls"]["openai"]
    root = ready["url"].removesuffix("/v1")
    assert ready["urls"] == {name: root + bases[0] for name, bases in BASES.items()}
    yield process, ready["url"], bill
    process.kill()
    process.communicate()


def post(url: str, body: object) -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"x-judgerun-attempt": "9"})
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, dict(response.headers), response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read()


def test_it_serves_bills_limits_and_ends_on_a_signal(served: tuple[subprocess.Popen[str], str, Path]) -> None:
    """Two calls are answered, the third is above its limit; the file holds a row for each when the process is gone."""
    process, url, bill = served
    body = {"model": "judge-a", "messages": [{"role": "user", "content": "Answer YES or NO."}], "max_tokens": 4}
    first, second, third = (post(f"{url}/chat/completions", body) for _ in range(3))
    assert first[2] == second[2]
    assert third[0] == 429
    assert 0 < float(third[1]["Retry-After"]) <= 60
    with urllib.request.urlopen(f"{url}/bill", timeout=20) as response:
        totals = json.load(response)
    with urllib.request.urlopen(f"{url}/stats", timeout=20) as response:
        stats = json.load(response)
    assert (totals["came"], totals["calls"]) == (3, 2)
    assert (stats["requests"], stats["worst_minute"], stats["in_flight"]) == (3, 3, 0)
    assert stats["statuses"] == {"200": 2, "429": 1}
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0
    rows = [json.loads(line) for line in bill.read_text().splitlines()]
    assert [(row["n"], row["attempt"], row["billed"], row["fault"]) for row in rows] == [
        (1, "9", True, None),
        (2, "9", True, None),
        (3, "9", False, "limit"),
    ]
    assert sum(row["nanos"] for row in rows) == totals["nanos"] > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"host": "0.0.0.0"}, "serves this machine alone"),
        ({"host": "example.org"}, "serves this machine alone"),
        ({"faults": "nonsense=1"}, "is no fault"),
        ({"prices": "/no/such/file.toml"}, "No such file"),
        ({"bill": "/no/such/folder/bill"}, "No such file"),
    ],
)
def test_what_it_will_not_do_is_exit_2(arguments: dict[str, object], says: str) -> None:
    """Told on stderr; nothing is served."""
    process = start(**arguments)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert says in err
    assert out == ""


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"model": "m"},
        {"model": "m", "messages": []},
        {"model": "m", "messages": [{"role": "user", "content": 3}]},
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 0},
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "n": 2},
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 10**6},
    ],
)
def test_a_body_that_it_cannot_answer_is_a_400_and_free(
    served: tuple[subprocess.Popen[str], str, Path], body: dict[str, object]
) -> None:
    """As a real provider would."""
    _, url, bill = served
    status, _, said = post(f"{url}/chat/completions", body)
    assert status == 400
    assert json.loads(said)["error"]["message"]
    (row,) = [json.loads(line) for line in bill.read_text().splitlines()]
    assert (row["billed"], row["nanos"]) == (False, 0)
