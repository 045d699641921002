"""Faults: what is wrong in one file, gathered so that a person sees all of it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from rapidfuzz import fuzz, process

from judgerun.errors import Problem, Refused
from judgerun.files.lines import Path as KeyPath
from judgerun.files.lines import find

Shape = TypeVar("Shape", bound=BaseModel)

_NEAR = 65  # similarity (0..100) from which a key counts as a misspelling


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The most similar of the known words, or None when none is near."""
    found = process.extractOne(word, list(known), scorer=fuzz.ratio, score_cutoff=_NEAR)
    return str(found[0]) if found else None


def hint(word: str, known: Iterable[str]) -> str:
    """What a message says of an unknown word: the nearest right one, else all of them."""
    words = sorted(set(known))
    near = nearest(word, words)
    if near:
        return f"did you mean {near!r}?"
    return "known: " + ", ".join(words) if words else "there is none"


@dataclass(slots=True)
class Faults:
    """Problems and warnings of one file, each with its key path and line. Not frozen: it gathers."""

    file: str
    raw: Mapping[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    strayed: Callable[[KeyPath], str] = lambda path: ""  # advice for a key that a table head further up took in

    def add(self, path: KeyPath, wrong: str, right: str = "") -> None:
        """Note a problem at a key path."""
        problem = Problem(self.file, self.place(path), wrong, right)
        if problem not in self.problems:
            self.problems.append(problem)

    def warn(self, path: KeyPath, wrong: str, right: str = "") -> None:
        """Note what is allowed but probably not meant."""
        problem = Problem(self.file, self.place(path), wrong, right)
        if problem not in self.warnings:
            self.warnings.append(problem)

    def unknown(self, path: KeyPath, what: str, word: str, known: Iterable[str]) -> None:
        """Note a name that nothing has."""
        self.add(path, f"there is no {what} {word!r}", hint(word, known))

    def place(self, path: KeyPath) -> str:
        """`stage.pick.parse.kind (line 31)`: tables of an array go by their `name`."""
        line = find(self.places, path)
        words = self.words(path)
        return words if line is None else f"{words} (line {line})"

    def words(self, path: KeyPath) -> str:
        """`stage.pick.parse.kind`: a key path in words."""
        words: list[str] = []
        here: Any = self.raw
        for key in path:
            here = _child(here, key)
            if isinstance(key, int):
                name = here.get("name") if isinstance(here, Mapping) else None
                words[-1:] = [f"{words[-1]}.{name}" if isinstance(name, str) else f"{words[-1]}[{key + 1}]"]
            else:
                words.append(key if key.replace("_", "").replace("-", "").isalnum() else f'"{key}"')
        return ".".join(words)

    def read(self, shape: type[Shape], value: object, path: KeyPath = (), *, mend: bool = False) -> Shape | None:
        """`value` as a pydantic model, or None with every problem noted. With `mend` the keys that are wrong are left out
        (and noted all the same), so that what else is wrong with the table can be told in one go.
        """
        try:
            return shape.model_validate(value)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        for found in errors:
            self._translate(shape, path, found)
        if not mend or not isinstance(value, Mapping):
            return None
        wrong = {found["loc"][0] for found in errors}
        try:
            return shape.model_validate({key: held for key, held in value.items() if key not in wrong})
        except ValidationError:
            return None  # a key that must be there is wrong or missing

    def _translate(self, shape: type[BaseModel], path: KeyPath, found: Any) -> None:
        loc: KeyPath = (*path, *found["loc"])
        match found["type"]:
            case "extra_forbidden":
                self.add(loc, f"unknown key {found['loc'][-1]!r}", self._key_hint(shape, path, found["loc"]))
            case "missing":
                self.add(loc[:-1], f"the key {loc[-1]!r} is missing")
            case "literal_error":
                self.add(loc, f"{found['input']!r} is none of its values", f"one of {found['ctx']['expected']}")
            case "model_type" | "dict_type":
                self.add(loc, "this must be a table", "[...] or { ... }")
            case _:
                right = str(found.get("ctx", {}).get("right", ""))
                message = found["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
                wrong = message if right else f"{_shown(found['input'])} should be {message}"
                self.add(loc, wrong, right.strip())

    def _key_hint(self, shape: type[BaseModel], path: KeyPath, loc: KeyPath) -> str:
        """The nearest right key of the table; or, where the key belongs to a table further up, that."""
        known = keys_of(shape, loc[:-1])
        word = str(loc[-1])
        above = self.strayed((*path, *loc))
        if above and word not in known:
            return above
        return hint(word, known)


def keys_of(shape: type[BaseModel], loc: KeyPath) -> set[str]:
    """The keys, as written, of the model that stands at `loc` inside `shape`."""
    here: Any = shape
    for key in loc:
        if isinstance(here, type) and issubclass(here, BaseModel):
            field_of = {(info.alias or name): info for name, info in here.model_fields.items()}
            here = _model_in(field_of[str(key)].annotation) if str(key) in field_of else here
    if not (isinstance(here, type) and issubclass(here, BaseModel)):
        return set()
    return {info.alias or name for name, info in here.model_fields.items()}


def _model_in(annotation: Any) -> Any:
    """The pydantic model inside `dict[str, M]`, `list[M]`, `M | None`; the annotation itself when there is none."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        inside = _model_in(part)
        if isinstance(inside, type) and issubclass(inside, BaseModel):
            return inside
    return annotation


def _child(here: Any, key: str | int) -> Any:
    if isinstance(here, Mapping):
        return here.get(key)
    if isinstance(here, list) and isinstance(key, int) and key < len(here):
        return here[key]
    return None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def settle(*gathered: Faults) -> None:
    """Raise `Refused` with the problems of all, in the order given; return when there is none."""
    problems = [problem for faults in gathered for problem in faults.problems]
    if problems:
        raise Refused(problems)
