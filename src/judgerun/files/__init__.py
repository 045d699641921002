"""Reads what people wrote (TOML, rows, prompts, gold) into model values; the only room that opens their files."""
