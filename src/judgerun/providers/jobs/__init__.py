"""Batch APIs: one driver that speaks HTTP, and a pure codec for each API: requests to a job's bytes, and what a job left back."""
