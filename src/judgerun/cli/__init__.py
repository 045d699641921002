"""Wiring and words: the commands, their printing, and nothing that decides."""
