"""Audits of runs of other programs: each check one function from a foreign Run to Findings; nothing here knows our own ledger."""
