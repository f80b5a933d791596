"""Results on disk: one JSON per benchmark with the facts of the machine, and the parameters of the run."""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
FOLDER = Path(__file__).resolve().parents[1] / "results"
_LIBRARIES = ("confluent-kafka", "kafka-python", "numpy", "scipy")


def machine_facts() -> dict[str, Any]:
    """What a reader needs to judge the numbers; nothing that names the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memoryBytes": memory,
        "processor": _processor(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": _java(),
        "kafka": "4.3.1",
        "libraries": {name: version(name) for name in _LIBRARIES},
        "loadAverage": [round(value, 2) for value in os.getloadavg()],
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


@functools.cache
def _java() -> str:
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)  # noqa: S607
    return done.stderr.partition("\n")[0].strip()


def build_result(
    benchmark: str,
    parameters: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    bars: Sequence[Mapping[str, Any]] = (),
    **more: Any,
) -> dict[str, Any]:
    """The JSON form: `rows` one per run, `bars` what was demanded and whether it was reached."""
    return {
        "schemaVersion": SCHEMA_VERSION,
        "benchmark": benchmark,
        "finishedAt": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine_facts(),
        "parameters": dict(parameters),
        "rows": [dict(row) for row in rows],
        "bars": [dict(bar) for bar in bars],
        **more,
    }


def check_result(result: Mapping[str, Any]) -> None:
    """Refuse what a reader of results could not use.

    Raises:
        ValueError: a field is missing or of the wrong kind.
    """
    kinds = {
        "schemaVersion": int,
        "benchmark": str,
        "finishedAt": str,
        "machine": dict,
        "parameters": dict,
        "rows": list,
        "bars": list,
    }
    for name, kind in kinds.items():
        if not isinstance(result.get(name), kind):
            # What was read from a file is bad input, whatever its type.
            raise ValueError(  # noqa: TRY004
                f"result.{name} is {result.get(name)!r:.40}, must be a {kind.__name__}"
            )
    for number, bar in enumerate(result["bars"]):
        if set(bar) != {"name", "limit", "value", "holds"}:
            raise ValueError(f"result.bars[{number}] has {sorted(bar)}, must have name, limit, value, holds")


def bar(name: str, limit: str, value: float | None, *, holds: bool) -> dict[str, Any]:
    """One demand and what was found."""
    return {"name": name, "limit": limit, "value": value, "holds": holds}


def save_result(result: Mapping[str, Any], folder: Path = FOLDER, name: str | None = None) -> Path:
    """Write it as `<name or benchmark>.json`, whole or not at all.

    Raises:
        ValueError: as `check_result`.
    """
    check_result(result)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name or result['benchmark']}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)
    return path


def read_other_rows(path: Path, field: str, made: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of the last result, if there is one, that are not made again: their `field` is none of `made`."""
    if not path.exists():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))
    return [row for row in found["rows"] if row[field] not in made]


class Ledger:
    """Rows of a running benchmark, on disk after each: what was measured outlives an early end.

    Args:
        rows: of earlier runs that stay.
        build: the whole result of all rows.
        folder: where the result goes.
        name: of its file, without `.json`.
    """

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        build: Callable[[list[Mapping[str, Any]]], Mapping[str, Any]],
        folder: Path,
        name: str,
    ) -> None:
        self._rows = list(rows)
        self._build = build
        self._folder = folder
        self._name = name
        self._lock = threading.Lock()

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep a row; callable from any thread."""
        with self._lock:
            self._rows.append(row)
            save_result(self._build(self._rows), self._folder, self._name)
