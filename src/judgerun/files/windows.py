"""Windows: how many tokens a model's context holds, as the price package tells it; nothing else of a model may stand here."""

from __future__ import annotations

from functools import cache

from judgerun.files.deployments import sheet_name
from judgerun.model.experiment import Model


def context_window(model: Model) -> int | None:
    """Input and output tokens that fit into a call, where the package knows the model by its exact id; else None."""
    place = model.provider
    return _windows().get(sheet_name(model.priced_as)) if place.builtin or place.price_as else None


@cache
def _windows() -> dict[str, int]:
    from genai_prices.data import providers

    return {
        f"{provider.id}/{model.id}": model.context_window
        for provider in providers
        for model in provider.models
        if model.context_window
    }
