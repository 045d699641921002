"""Request keys: one canonical form, and every field of a request in it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from judgerun.model.request import build, canonical

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)
json_values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)

PAYLOAD: dict[str, Any] = {
    "model": "glm-5.2-fp8",
    "messages": [{"role": "user", "content": "Wähle 1-10 é \U0001f600\u2028"}],
    "temperature": 0,
    "max_output_tokens": 16,
    "extra": {"seed": 7, "top_p": 0.95},
}


@given(json_values)
def test_the_fast_path_agrees_with_rfc_8785(value: Any) -> None:
    """Whatever writer served, the canonical bytes are those of RFC 8785."""
    assert canonical(value) == rfc8785.dumps(value)


@given(json_values)
def test_canonical_bytes_read_back(value: Any) -> None:
    """Canonical JSON is JSON of the same value, numbers compared as the doubles that they are."""
    assert json.loads(canonical(value), parse_int=float) == json.loads(json.dumps(value), parse_int=float)


def _mutations() -> list[tuple[str, dict[str, Any]]]:
    base = {"kind": "chat", "payload": PAYLOAD, "deployment": "openai http://a/v1", "adapter": "openai/1", "draw": 1}
    out = []
    for name, new in [("kind", "embed"), ("deployment", "openai http://b/v1"), ("adapter", "openai/2"), ("draw", 2)]:
        out.append((name, {**base, name: new}))
    for name, new in [
        ("model", "x"),
        ("temperature", 0.5),
        ("max_output_tokens", 17),
        ("extra", {"seed": 8, "top_p": 0.95}),
    ]:
        out.append((name, {**base, "payload": {**PAYLOAD, name: new}}))
    for name, new in [("role", "system"), ("content", "Wähle 1-10 é \U0001f600\u2028 ")]:
        payload = copy.deepcopy(PAYLOAD)
        payload["messages"][0][name] = new
        out.append((name, {**base, "payload": payload}))
    payload = copy.deepcopy(PAYLOAD)
    del payload["temperature"]
    out.append(("absent temperature", {**base, "payload": payload}))
    return out


@pytest.mark.parametrize(("name", "fields"), _mutations(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_field_changes_the_key(name: str, fields: dict[str, Any]) -> None:
    """A request that differs in any one field has another key."""
    base = build("chat", PAYLOAD, deployment="openai http://a/v1", adapter="openai/1", draw=1)
    other = build(
        fields["kind"],
        fields["payload"],
        deployment=fields["deployment"],
        adapter=fields["adapter"],
        draw=fields["draw"],
    )
    assert other.key != base.key, name


def test_the_key_does_not_depend_on_the_order_of_fields() -> None:
    """The same request written in another order has the same key, of 32 bytes."""
    turned = dict(reversed(PAYLOAD.items()))
    a = build("chat", PAYLOAD, deployment="d", adapter="a", draw=1)
    b = build("chat", turned, deployment="d", adapter="a", draw=1)
    assert a.key == b.key
    assert len(a.key) == 32


def test_a_key_is_for_ever() -> None:
    """The key of a known request never changes: caches that people paid for depend on it."""
    request = build("chat", PAYLOAD, deployment="openai http://a/v1", adapter="openai/1", draw=1)
    assert request.key.hex() == "464ace924f0c8fce587a1b4a0602a1473c54c296cbbad84cb8cd43406e1761a0"
