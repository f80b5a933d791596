"""What a watcher sees while the demo runs: a live table on a terminal, a line per change elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from e2e.demo.state import State
from scripts.provision import steps

LINE_SECONDS = 5.0
"""A line at most so often where there is no terminal."""
DATASETS = ("clipart", "digits")
JOB = "digits-training"


@dataclass(frozen=True)
class Picture:
    """What is shown."""

    fills: Mapping[int, float] = field(default_factory=dict)
    """Empty: not measured."""
    texts: Mapping[str, str] = field(default_factory=dict)
    percents: Mapping[str, int] = field(default_factory=dict)


def build_picture(state: State, fills: Mapping[int, float]) -> Picture:
    """What to show of a state and the disks. Pure."""
    texts, percents = {}, {}
    for name in DATASETS:
        seen = state.find("TrainingDataset", name)
        ingest, preload = seen.status.get("ingest", {}), seen.status.get("preload", {})
        percents[name] = int(ingest.get("percent") or 0)
        words = [f"{ingest.get('acknowledgedRecords', 0)} of {ingest.get('plannedRecords', '?')} records"]
        if revision := seen.status.get("revision"):
            words.append(f"sealed {str(revision['digest']).removeprefix('sha256:')[:12]}")
        if preload.get("wantedNodes"):
            words.append(f"warm {preload.get('warmNodes', 0)} of {preload['wantedNodes']} nodes")
        ready = seen.conditions.get("Ready")
        if ready is not None and ready.status != "True":
            words.append(f"{ready.reason}: {ready.message}")
        texts[name] = ", ".join(words)
    texts["training"] = _tell_job(state)
    return Picture(fills, texts, percents)


def build_line(picture: Picture) -> str:
    """The picture as one line. Pure."""
    parts = [f"disks {' '.join(f'{fill:.1%}' for fill in picture.fills.values())}"] if picture.fills else []
    parts += [f"{name}: {text}" for name, text in picture.texts.items()]
    return " | ".join(parts)


class View:
    """Shows pictures as they come."""

    def __init__(self, live: Live | None) -> None:
        self._live = live
        self._line, self._said_at = "", 0.0

    def show(self, picture: Picture) -> None:
        """Show a picture, if it is news."""
        if self._live is not None:
            self._live.update(_build_table(picture))
            return
        line, now = build_line(picture), time.monotonic()
        if line != self._line and now - self._said_at >= LINE_SECONDS:
            steps.say(f"  {line}")
            self._line, self._said_at = line, now


@contextlib.contextmanager
def open_view() -> Iterator[View]:
    """A live view where standard error is a terminal; lines of steps are printed above it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield View(None)
        return
    with Live(console=console, refresh_per_second=4, transient=True, redirect_stdout=False) as live:
        yield View(live)
        sys.stderr.flush()


def _build_table(picture: Picture) -> Group:
    disks = Table.grid(padding=(0, 1))
    for broker, fill in picture.fills.items():
        disks.add_row(f"disk of broker {broker}", ProgressBar(100, fill * 100, width=40), f"{fill:.1%}")
    work = Table.grid(padding=(0, 1))
    for name, text in picture.texts.items():
        bar = ProgressBar(100, picture.percents[name], width=20) if name in picture.percents else ""
        work.add_row(name, bar, text)
    return Group(disks, work)


def _tell_job(state: State) -> str:
    pods = state.pods_of(JOB)
    if not pods:
        return "not there yet"
    waiting = sum(
        1
        for pod in pods
        if (found := pod.conditions.get("PodScheduled")) is not None and found.reason == "SchedulingGated"
    )
    phases = sorted(str(pod.status.get("phase")) for pod in pods)
    text = ", ".join(f"{phases.count(phase)} {phase.lower()}" for phase in dict.fromkeys(phases))
    return f"{text}, {waiting} held until a node is warm" if waiting else text
