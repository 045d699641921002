"""Forms: a vector as a body asks for it: floats, whole numbers of 8 bits, or bytes in base64; pure."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence

from judgerun.simulate.ask import Wrong

FORMS = ("float", "int8", "base64", "base64_int8")


def known(form: str) -> str:
    """The form itself. Raises Wrong for one that this provider does not make."""
    if form not in FORMS:
        raise Wrong(f"vectors come as {', '.join(FORMS[:3])}, not as {form}")
    return form


def written(vector: Sequence[float], form: str) -> list[float] | list[int] | str:
    """The vector as JSON has it."""
    if form == "float":
        return list(vector)
    if form == "base64":
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    rounded = [round(value * 127) for value in vector]
    return rounded if form == "int8" else base64.b64encode(struct.pack(f"{len(rounded)}b", *rounded)).decode()
