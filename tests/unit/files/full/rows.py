"""Tags for answers."""


def tag(row: dict) -> list[dict]:
    """One row: how long the answer is."""
    return [{"length": len(row["solve"].reply)}]
