"""The journal: what a run told, on disk, a line of JSON each, in files that are rotated by size; never a key, no line per call."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, MutableMapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import orjson
import structlog

from judgerun.api.notify import scrubbed

BYTES_MAX = 10 << 20
KEPT = 5
"""Older files beside the one that is written."""


class _File(RotatingFileHandler):
    """The file. A disk that is full is told once; lines that it did not take are lost to the journal, and to nothing else."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        super().__init__(path, maxBytes=BYTES_MAX, backupCount=KEPT, encoding="utf-8", delay=True)
        self._tell = tell
        self._told = False

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exception()
        if not isinstance(error, OSError):
            raise
        if not self._told:
            self._told = True
            self._tell(f"the log {self.baseFilename} cannot be written ({error.strerror}); the run goes on")

    def close(self) -> None:
        try:
            super().close()
        except OSError:  # what could not be written before cannot be written now, and was told
            self.stream = None  # so that nothing flushes it again
            super().close()


class Journal:
    """Lines with the time in UTC, the process and the kind of each: `start`, `told`, `end`."""

    def __init__(self, path: Path, *, scrub: Callable[[str], str], tell: Callable[[str], None]) -> None:
        self._file = _File(path, tell)
        logger = logging.Logger("judgerun.journal")
        logger.addHandler(self._file)

        def clean(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
            return dict(scrubbed(event, scrub))

        self._lines = structlog.wrap_logger(
            logger,
            processors=[
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
                clean,
                structlog.processors.JSONRenderer(lambda event, **_: orjson.dumps(event).decode()),
            ],
            wrapper_class=structlog.BoundLogger,
            pid=os.getpid(),
        )

    def write(self, kind: str, **told: Any) -> None:
        """One line."""
        self._lines.info(kind, **told)

    def close(self) -> None:
        """Nothing more is written."""
        self._file.close()
