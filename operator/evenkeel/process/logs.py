"""Logs as one JSON object per line on standard error."""

from __future__ import annotations

import contextvars
import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

current_object: contextvars.ContextVar[str] = contextvars.ContextVar("current_object", default="")
"""`Kind/namespace/name` of what this task reconciles; every log line of it carries that."""


class JsonFormatter(logging.Formatter):
    """time, level, logger, message, and where known object and error."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if current_object.get():
            line["object"] = current_object.get()
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(level: int, quieter: Mapping[str, int]) -> None:
    """Send all logs of this process to standard error as JSON.

    Args:
        level: of all loggers.
        quieter: levels of libraries' loggers that say too much.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name, least in {"aiohttp.access": logging.WARNING, **quieter}.items():
        logging.getLogger(name).setLevel(least)
