"""Bundles: the files of a sealed run gathered for packing, and the check of a bundle without a workspace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from judgerun.api.evidence import gather
from judgerun.api.offline import audit, excluded_since, report, view
from judgerun.api.project import Project, Workspace
from judgerun.api.remaking import made_again
from judgerun.api.resting import changes, code, resting
from judgerun.errors import Problem, Refused
from judgerun.files.workspace import list_budgets
from judgerun.report.bundle import Checked, Contents, placed, verify_bundle, write_bundle
from judgerun.store.extract import extract
from judgerun.store.snapshot import Snapshot

ENDING = ".judgerun.zip"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleVerified:
    """What `verify BUNDLE` found."""

    seal: str
    notes: tuple[str, ...]
    wrong: tuple[str, ...]


def make(project: Project, out: Path | None = None, *, digests_only: bool = False) -> Path:
    """Pack the newest seal of an experiment with its files and results, which are made anew first. Refused without a seal."""
    with view(project) as held:
        if not held.seals(project.name):
            raise Refused(Problem(project.name, "bundle", "there is no seal", f"judgerun seal {project.name}"))
        if excluded_since(project, held):
            wrong = "what is left out changed since the seal"
            raise Refused(Problem(project.name, "bundle", wrong, f"judgerun seal {project.name}"))
    audit(project, present=False)
    report(project)
    target = out or project.workspace.root / "results" / project.name / f"{project.name}{ENDING}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with view(project) as held, TemporaryDirectory(prefix="judgerun-", dir=target.parent) as folder:
        gathered = gather(project, held)
        if gathered.sealed is None:
            raise Refused(Problem(project.name, "bundle", "there is no seal", f"judgerun seal {project.name}"))
        cache = Path(folder) / "cache.db"
        if not digests_only:
            extract(held, cache, experiments=[project.name], keys=gathered.keys)
        files, data = _files(project)
        contents = Contents(
            experiment=project.name,
            seal=gathered.sealed,
            files=files,
            data=frozenset(data) if digests_only else frozenset(),
            cache=None if digests_only else cache,
        )
        write_bundle(target, contents, form="digests" if digests_only else "whole")
    return target


def _files(project: Project) -> tuple[dict[str, Path | bytes], set[str]]:
    """The files of a bundle by their path in it, and which of them are data (under a licence, perhaps)."""
    root, folder = project.workspace.root, Path(project.experiment.folder)
    named = placed(
        project.loaded.inputs.digests, experiment=project.name, folder=folder, data_root=project.workspace.data_root
    )
    files: dict[str, Path | bytes] = dict(named)
    files[f"prompts/{project.name}/experiment.toml"] = project.loaded.path
    own = {path for path in named if path.endswith((".md", ".py", ".json")) and _beside(named[path], folder)}
    data = set(named) - own
    files |= {f"budgets/{path.name}": path for path in _budgets(root)}
    for kind in ("audits", "results"):
        for path in sorted((root / kind / project.name).rglob("*")):
            name = path.relative_to(root).as_posix()
            if (
                path.is_file()
                and not path.name.endswith((ENDING, ".part"))
                and "/export/" not in name
                and "/judgerun-" not in name
            ):
                files[name] = path
                data |= {name} if kind == "results" and path.name == "sheet.csv" else set()
    waivers = root / "audits" / "waivers.toml"
    return files | ({"audits/waivers.toml": waivers} if waivers.is_file() else {}), data


def _beside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _budgets(root: Path) -> Iterator[Path]:
    yield from list_budgets(root)
    for name in ("prices.toml", "lanes.toml"):
        if (root / "budgets" / name).is_file():
            yield root / "budgets" / name


def verify(path: Path, *, trust: bool = False) -> BundleVerified:
    """Check a bundle without a workspace, a key or the network. SealBroken when it is no bundle at all."""
    checked: Checked = verify_bundle(path, recompute=_recompute, trust=trust)
    notes = [f"results: {checked.results}"] if checked.results else []
    notes += checked.old
    notes += [f"{name} is known by its digest alone" for name in checked.skipped]
    return BundleVerified(seal=checked.seal, notes=tuple(notes), wrong=checked.wrong)


def _recompute(folder: Path) -> tuple[list[str], list[str]]:
    """What of an unpacked bundle comes out otherwise, and what is only old. Whether rows are missing in the ledger can be told in
    the whole cache alone: where that was a finding, pages may differ.
    """
    (name,) = (path.parent.name for path in (folder / "prompts").glob("*/experiment.toml"))
    project = Workspace(root=folder, environ={}).open(name)
    with Snapshot.open(project.workspace.cache) as held:
        gathered = gather(project, held, part=True)
        told = {} if gathered.sealed is None else gathered.sealed.stated
        moved = list(changes(told.get("rests", {}), resting(gathered.evidence)))
        if told.get("code") != code():
            moved.append(f"the program is now {code()}, was {told.get('code')} when sealed")
        wrong, old = made_again(project, gathered.evidence, moved=bool(moved) or _gaps(folder, name))
    return wrong, [*moved, *old]


def _gaps(folder: Path, name: str) -> bool:
    """Whether the audit in a bundle found that rows are missing."""
    path = folder / "audits" / name / "audit.json"
    return path.exists() and any(one["check"] == "gaps" for one in orjson.loads(path.read_bytes())["findings"])
