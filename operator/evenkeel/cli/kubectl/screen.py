"""Where a command writes and asks."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from rich.console import Console

PIPE_COLUMNS = 120
"""Width of tables where no terminal says its own."""


@dataclass(frozen=True, slots=True)
class Screen:
    """Standard output, standard error, and the keyboard where there is one."""

    out: Console
    err: Console
    ask: Callable[[str], str] | None
    """Asks a question; None: nobody sits there."""

    @classmethod
    def open(cls) -> Self:
        """Those of this process."""
        seated = sys.stdin.isatty() and sys.stderr.isatty()
        return cls(_console(stderr=False), _console(stderr=True), _ask if seated else None)

    def say(self, text: str) -> None:
        """A line of the answer, as it stands."""
        self.out.print(text, markup=False, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """A line beside the answer."""
        self.err.print(text, markup=False, highlight=False, soft_wrap=True)

    def confirms(self, question: str) -> bool:
        """Whether the person says yes; also where there is no person to ask."""
        return self.ask is None or self.ask(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=PIPE_COLUMNS)


def _ask(question: str) -> str:
    # asyncio's own handler would only cancel a task that waits here for a line.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.stderr.write(question)
        sys.stderr.flush()
        return sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, before)
