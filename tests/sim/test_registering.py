"""register and exclude, by command: on record, in the audit, in every report."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

from fakes.place import Place, lines, stated

TEXT = """
[data.t]
path = "t.jsonl"
[[stage]]
name = "j"
kind = "judge"
from = "t"
models = ["one", "two"]
prompts = ["p"]
parse = { kind = "json", value = "v" }
gate = { truncated = 0.10, after = 20 }
[[question]]
name = "ones"
from = "j"
value = "value == 1"
compare = { model = ["one", "two"] }
test = "mcnemar"
"""
FILES = {
    "t.jsonl": lines(*({"id": f"r{n}", "text": f"thing {n}"} for n in range(8))),
    "p.md": "{{ id }} {{ text }}\n" + stated(v=1),
}


def findings(place: Place, check: str) -> list[dict[str, Any]]:
    """The findings of one name."""
    return [finding for finding in place.do("audit", fine=(0, 8)).json["findings"] if finding["check"] == check]


def told(place: Place) -> list[dict[str, Any]]:
    """The lines of the question in estimates.json."""
    place.do("report")
    found = json.loads((place.root / "results" / "x" / "estimates.json").read_text())
    return [line for line in found if line["question"] == "ones"]


def test_what_was_registered_before_the_first_reply_is_told_from_late_edits(place: Place) -> None:
    """Registered, run, reported as such; a threshold and a question that are edited after it are post hoc, with what changed."""
    place.write(TEXT, FILES)
    first = place.do("register", "--because", "the plan of the spring").json
    assert (first["replies"], first["known"], len(first["items"])) == (0, False, 5)
    assert place.do("register").json["known"] is True
    place.do("run")
    assert [finding["value"] for finding in findings(place, "registered")] == [5]
    assert not findings(place, "post hoc")
    assert "5 of 5 questions, gates and rules before the first reply" in _page(place)
    place.write(TEXT.replace("truncated = 0.10", "truncated = 0.30").replace("value == 1", "value == 2"))
    (late,) = findings(place, "post hoc")
    assert (late["severity"], late["value"]) == ("warning", 3)
    assert any("truncated" in line and "0.3" in line for line in late["evidence"])
    assert all("post hoc: it was registered otherwise: value was" in line["note"] for line in told(place))
    again = place.do("register", "--because", "a typo").json
    assert again["replies"] == 16
    place.do("audit", fine=(0, 8))
    tables = {table["name"]: table["rows"] for table in _audited(place)["tables"]}
    assert [(row["replies"], row["because"]) for row in tables["registrations"]] == [
        (0, "the plan of the spring"),
        (16, "a typo"),
    ]
    assert "gate of j/one/p" in tables["registrations"][1]["items changed"]
    assert {row["standing"] for row in tables["registration"]} == {"registered", "post hoc"}
    assert "limits was" in _page(place)
    assert {item["standing"] for item in again["items"]} == {"registered", "post hoc"}


def test_what_was_never_registered_is_said_so(place: Place) -> None:
    """An audit and a report without a registration say so, once."""
    place.write(TEXT, FILES)
    place.do("run")
    place.do("audit", fine=(0, 8))
    (table,) = [table for table in _audited(place)["tables"] if table["name"] == "registration"]
    assert [row["standing"] for row in table["rows"]] == ["never registered"]
    assert "never" in _page(place)


def _audited(place: Place) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((place.root / "audits" / "x" / "audit.json").read_text())
    return held


def _page(place: Place) -> str:
    place.do("report")
    return (place.root / "results" / "x" / "report.md").read_text()


def test_what_is_left_out_is_never_silently_gone(place: Place) -> None:
    """An excluded condition is listed with its reason and compared with nothing; an excluded item is in no number; both are
    banners and findings, and undone on record.
    """
    place.write(TEXT, FILES)
    place.do("run")
    n = {line["coords"].get("model"): line["n"] for line in told(place) if line["coords"]["measure"] == "mean"}
    assert n == {"one": 8, "two": 8}
    assert place.do("exclude", "j/two", "--because", "its key was shared").json["replies"] == 16
    place.do("exclude", "--item", "r3", "--because", "it is a duplicate")
    lines_ = told(place)
    assert {line["n"] for line in lines_ if line["coords"]["measure"] == "mean"} == {7}
    two = next(line for line in lines_ if line["coords"].get("model") == "two")
    assert two["note"].startswith("EXCLUDED: j/two is left out of every comparison: its key was shared")
    compared = [line for line in lines_ if line["coords"]["measure"] in ("p", "difference", "b", "c")]
    assert compared
    assert all(line["value"] is None and "EXCLUDED" in line["note"] for line in compared)
    page = _page(place)
    assert "Excluded: j/two is left out" in page
    assert "Excluded: item r3 is left out" in page
    assert [finding["severity"] for finding in findings(place, "excluded")] == ["warning", "warning"]
    place.do("exclude", "j/two", "--because", "a mistake", "--undo")
    assert all(line["value"] is not None for line in told(place) if line["coords"]["measure"] == "p")


def test_what_cannot_be_left_out_is_refused(place: Place) -> None:
    """No reason, no such condition, no such item, nothing or two things named, twice, undone before: 2 each, with a remedy."""
    place.write(TEXT, FILES)
    place.do("run")
    for words in (
        ["j/two"], ["j/three", "--because", "x"], ["--item", "r99", "--because", "x"], ["--because", "x"],
        ["j/two", "--item", "r1", "--because", "x"], ["j/two", "--because", "x", "--undo"],
    ):  # fmt: skip
        assert place.do("exclude", *words, fine=(2,)).problems, words
    place.do("exclude", "j/two", "--because", "x")
    assert "--undo" in place.do("exclude", "j/two", "--because", "y", fine=(2,)).problems[0]


def test_a_seal_names_what_its_pages_and_numbers_rest_on(place: Place) -> None:
    """A changed word in the report or the audit breaks the seal with file and line; a later waiver is told, and breaks nothing."""
    place.write(TEXT, FILES)
    place.do("run")
    place.do("seal")
    place.do("report")
    first = place.do("verify").json
    assert (first["whole"], first["notes"]) == (True, [])
    sealed = (place.root / "audits" / "x" / "audit.html").read_bytes()
    place.do("audit", fine=(0, 8))
    assert (place.root / "audits" / "x" / "audit.html").read_bytes() == sealed
    page, audited = place.root / "results" / "x" / "report.md", place.root / "audits" / "x" / "audit.md"
    for path in (page, audited):
        whole = path.read_text()
        path.write_text(whole.replace("j/one", "j/another", 1))
        broken = place.do("verify", fine=(5,)).json
        assert any(path.name in line and "first in line" in line for line in broken["differences"])
        path.write_text(whole)
    waiver = '[[waiver]]\nexperiment = "x"\ncheck = "constant"\nbecause = "the simulator says what it is told"\n'
    (place.root / "audits" / "waivers.toml").write_text(waiver)
    told = place.do("verify").json
    assert told["whole"]
    assert any("waivers: constant is now the simulator says" in note for note in told["notes"])


def test_what_is_left_out_after_a_seal_is_in_every_report(place: Place) -> None:
    """The seal holds and tells of it; a report is a draft with the banner, and no bundle is made, until it is sealed anew."""
    place.write(TEXT, FILES)
    place.do("run")
    first = place.do("seal").json["seal"]
    place.do("report")
    place.do("exclude", "j/two", "--because", "its key was shared")
    told = place.do("verify").json
    assert told["whole"]
    assert any("j/two" in note and "exclude" in note for note in told["notes"])
    page = _page(place)
    assert "DRAFT" in page
    assert "Excluded: j/two is left out" in page
    assert place.do("bundle", fine=(2,)).problems
    second = place.do("seal").json["seal"]
    assert second != first
    page = _page(place)
    assert "DRAFT" not in page
    assert "Excluded: j/two is left out" in page
    assert place.do("verify").json["notes"] == []


def test_a_changed_page_in_a_bundle_is_found(place: Place) -> None:
    """Every page of a bundle is made again: one that was changed and packed anew is named by its line."""
    place.write(TEXT, FILES)
    place.do("run")
    place.do("exclude", "--item", "r3", "--because", "it is a duplicate")
    place.do("register")
    place.do("seal")
    path = Path(place.do("bundle").json["file"])
    whole = place.say("verify", str(path), "--json")
    assert (whole.code, json.loads(whole.out)["notes"]) == (0, ["results: equal"]), whole.out
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    name = "audits/x/audit.md"
    held[name] = held[name].replace(b"it is a duplicate", b"it is too hard", 1)
    manifest = json.loads(held["manifest.json"])
    manifest["files"][name] |= {"bytes": len(held[name]), "sha256": hashlib.sha256(held[name]).hexdigest()}
    held["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for one, content in held.items():
            archive.writestr(one, content)
    broken = place.say("verify", str(path), "--json")
    assert broken.code == 5
    (line,) = json.loads(broken.out)["differences"]
    assert line.startswith(f"{name}: differs from what the cache gives, first in line ")
