"""cache.db: what is on disk, and nothing about why."""
