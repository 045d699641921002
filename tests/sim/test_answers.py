"""Answers that a server puts elsewhere than into the visible text: a declared rule reads them, and nothing is bought again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fakes.place import HEAD, Place, at_home, lines

JUDGE = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "j"
kind = "judge"
from = "t"
models = ["one"]
prompts = ["p"]
parse = { kind = "score", low = 1, high = 9 }
[[stage]]
name = "k"
kind = "judge"
from = "j"
models = ["one"]
prompts = ["q"]
parse = { kind = "score", low = 1, high = 9 }
"""
FILES = {"t.jsonl": lines({"id": "a"}, {"id": "b"}), "p.md": "Rate {{ id }}\n", "q.md": "{{ id }}: {{ j.reply }}\n"}
TELLS = HEAD.replace("[models.one]", 'answer = ["content", "reasoning"]\n[models.one]')


class Thinker(BaseHTTPRequestHandler):
    """A server whose reasoning parser takes the whole answer for reasoning; `asked` are the texts of its calls."""

    asked: list[str]

    def do_POST(self) -> None:
        """Answer a chat."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(body["messages"][0]["content"])
        message = {"role": "assistant", "content": None, "reasoning_content": "7"}
        told = {
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
        }
        answer = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def asked() -> Iterator[list[str]]:
    """What the server was asked, while it runs."""
    texts: list[str] = []
    handler = type("Handler", (Thinker,), {"asked": texts})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        at_home(f"http://127.0.0.1:{server.server_address[1]}/v1")
        yield texts
        server.shutdown()
        thread.join()


def test_a_rule_declared_after_the_run_finds_the_answers(tmp_path: Path, asked: list[str]) -> None:
    """Without the rule every reply is empty, and nothing flows down. Declared, it reads the same replies: verdicts, the text in
    the next prompt, show, export, audit and report follow, and only what was never asked is bought.
    """
    place = Place(tmp_path)
    place.write(JUDGE, FILES)
    place.do("run", fine=(8,))
    assert sorted(asked) == ["Rate a", "Rate b"]
    assert [one["empty"] for one in place.do("status").json["conditions"]] == [2, 0]
    place.write(JUDGE, FILES, head=TELLS)
    assert place.do("plan").json["to_send"] == 2
    place.do("run")
    assert sorted(asked[2:]) == ["a: 7", "b: 7"]
    rows = place.rows("stages/k")
    assert [(row["k.value"], row["k.reply"], row["k.found"], row["j.found"]) for row in rows] == [
        (7, "7", "reasoning", "reasoning")
    ] * 2
    assert {row["found"] for row in place.rows("replies")} == {"reasoning"}
    assert [cell["found"] for cell in place.do("show").json["cells"]] == ["reasoning"] * 4
    assert "found by reasoning" in place.do("show", json=False).out
    findings = place.do("audit").json["findings"]
    told = {(finding["check"], finding["severity"]) for finding in findings}
    assert ("answer", "note") in told
    assert ("bound tightness", "note") in told
    assert not {check for check, _ in told} & {"usage", "usage unknown", "input bound", "empty"}
    place.do("report")
    page = (tmp_path / "results" / "x" / "report.md").read_text()
    assert "How the answer was found" in page
