"""Turns the study's raw files into rows: `python prompts/trajectories/prepare.py` reads $JUDGERUN_DATA/trajectories and writes
rows/ beside itself (ignored by git): corpus.jsonl (336), queries.jsonl (118) and one gold per tier definition.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from judgerun.studies.trajectories import Label, elsewhere, gold, lenient, sibling, strict, text

ROWS = Path(__file__).parent / "rows"
CORPUS, RELEASED, GOALS = 336, 40, 78
TIERS = {"strict": strict, "ii": elsewhere, "sibling": sibling, "lenient": lenient}


def read(folder: Path, name: str) -> Any:
    """One JSON file of the study."""
    return json.loads((folder / name).read_text(encoding="utf-8"))


def corpus(folder: Path, labels: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All trajectories with their text, the task by which judges are shown them, and the labels."""
    rows = [
        {
            "id": one["task_instance_id"],
            "text": text(one),
            "task_description": one["task_description"].strip(),
            **labels["corpus"][one["task_instance_id"]],
        }
        for one in read(folder, "agentinstruct_trajectories.json")["trajectories"]
    ]
    if len(rows) != CORPUS:
        raise SystemExit(f"expected {CORPUS} trajectories, found {len(rows)}")
    return rows


def queries(folder: Path, labels: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The 40 released queries, then the 78 goals as new_0 ... new_77; texts checked against the labels."""
    released = [(one["query_id"], one["query_text"]) for one in read(folder, "query_bank.json")["queries"]]
    lines = (folder / "goals_78.txt").read_text(encoding="utf-8").splitlines()
    goals = [(f"new_{n}", goal.strip()) for n, goal in enumerate(filter(str.strip, lines))]
    if (len(released), len(goals)) != (RELEASED, GOALS):
        raise SystemExit(f"expected {RELEASED} queries and {GOALS} goals, found {len(released)} and {len(goals)}")
    rows = []
    for id_, query in released + goals:
        label = labels["queries"][id_]
        if label["text"].strip() != query.strip():
            raise SystemExit(f"{id_}: the labels are of another text")
        part = "new" if id_.startswith("new_") else id_.split("_")[0]
        rows.append({"id": id_, "text": query, "part": part, "task_type": label["task_type"]})
    return rows


def write(name: str, lines: Iterable[str]) -> int:
    """One file of rows/; how many lines it has."""
    kept = list(lines)
    (ROWS / name).write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
    return len(kept)


def main() -> None:
    """Write rows/ anew."""
    data = os.environ.get("JUDGERUN_DATA", "")
    folder = Path(data) / "trajectories"
    if not data or not folder.is_dir():
        raise SystemExit("set JUDGERUN_DATA to the folder that holds trajectories/")
    labels = read(folder, "derived_labels_118.json")
    rows, asked = corpus(folder, labels), queries(folder, labels)
    ROWS.mkdir(exist_ok=True)
    write("corpus.jsonl", (json.dumps(row, ensure_ascii=False) for row in rows))
    write("queries.jsonl", (json.dumps(row, ensure_ascii=False) for row in asked))
    goals = {id_: Label.of(label) for id_, label in labels["queries"].items()}
    done = {id_: Label.of(label) for id_, label in labels["corpus"].items()}
    counts: dict[str, int] = {}
    for tier, rule in TIERS.items():
        grades = gold(goals, done, rule)
        lines = [f"{row['id']}\t{document}\t1" for row in asked for document in grades[row["id"]]]
        counts[tier] = write(f"{tier}.tsv", ["query-id\tcorpus-id\tscore", *lines]) - 1
    print(json.dumps({"corpus": len(rows), "queries": len(asked), "gold": counts}), file=sys.stderr)


if __name__ == "__main__":
    main()
