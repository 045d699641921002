"""When and how fast: lanes, attempts, retry, scheduler, recovery; the only concurrent room."""
