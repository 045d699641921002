"""The limit on open files, in processes that are given a small one."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from fakes.processes import Place

BUDGET = 'total = "1.00"\nconfirm_above = "1.00"\n'
RAISED = """
import json, resource, sys
from judgerun.api.project import Workspace
from judgerun.api.sockets import ready, wanted
project = Workspace(root=__import__("pathlib").Path(sys.argv[1])).open("chain")
ready(project)
print(json.dumps([wanted(project), *resource.getrlimit(resource.RLIMIT_NOFILE)]))
"""


def limited(soft: int, hard: int) -> Callable[[], None]:
    """What gives a process these limits before it begins."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def wide(folder: Path, width: int) -> Place:
    """A workspace whose one provider has so many slots."""
    return Place(folder / "wide", rows=4, budget=BUDGET, lanes=f"[sim]\nconcurrency = {width}\n")


def test_a_run_that_the_system_cannot_hold_open_is_refused_before_any_call(tmp_path: Path) -> None:
    """Two thousand calls in flight under a hard limit of 300 files end with 2, with advice, and without a cache."""
    place = wide(tmp_path, 2000)
    process = place.start("run", "chain", before=limited(200, 300))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2, err
    (problem,) = json.loads(out)["error"]["problems"]
    assert (problem["file"], problem["place"]) == ("budgets/lanes.toml", "concurrency")
    assert "2000 calls in flight need 2128 open files, and the system allows 300" in problem["wrong"]
    assert "ulimit -Hn 2128" in problem["right"]
    assert "concurrency of 172" in problem["right"]
    assert not place.cache.exists()


def test_the_doctor_tells_it(tmp_path: Path) -> None:
    """What a run would be refused for stands among the signs of its experiment."""
    place = wide(tmp_path, 2000)
    process = place.start("doctor", before=limited(200, 300))
    out, err = process.communicate(timeout=120)
    assert "2000 calls in flight need 2128 open files, and the system allows 300: ulimit" in out, err


def test_the_soft_limit_is_raised_to_what_lanes_may_need(tmp_path: Path) -> None:
    """A soft limit is raised towards the hard one, for lanes may be widened in mid-run; one above that stays."""
    place = wide(tmp_path, 500)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for soft, hard, after in ((200, 640, 640), (200, most, min(most, 8_192)), (most, most, most)):
        done = subprocess.run(
            [sys.executable, "-c", RAISED, str(place.folder)],
            preexec_fn=limited(soft, hard),
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout) == [628, after, hard]
