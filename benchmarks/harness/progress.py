"""Runs side by side, told as they end, and an end in good order at Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from confluent_kafka import KafkaException
from kafka.errors import KafkaError
from rich.console import Console

from benchmarks.harness.order import Estimate
from integration.processes import ServerError

T = TypeVar("T")
R = TypeVar("R")
stop = threading.Event()
"""Set when the benchmark is to end early."""


class StoppedError(Exception):
    """The benchmark was told to end."""


def check_stop() -> None:
    """Raise where an end was asked for.

    Raises:
        StoppedError: it was.
    """
    if stop.is_set():
        raise StoppedError("ended early")


def build_console() -> Console:
    """Wide where nobody looks at a terminal: a log has room for tables."""
    console = Console()
    return console if console.is_terminal else Console(width=160)


class Teller:
    """Prints each run with the time that is left for the others."""

    def __init__(self, total: int, each_seconds: float, lanes: int = 1) -> None:
        """`total` runs of about `each_seconds`, `lanes` of them side by side."""
        self.console = build_console()
        self._estimate = Estimate(total, each_seconds / lanes)
        self._total = total
        self._lock = threading.Lock()
        self.console.print(f"{total} runs, about {_minutes(self._estimate.seconds_left)}")

    def tell(self, text: str) -> None:
        """A run is done."""
        with self._lock:
            self._estimate.finish()
            place = f"{self._estimate.done}/{self._total}"
            self.console.print(f"{place:>9}  {_minutes(self._estimate.seconds_left)} left  {text}")


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def try_again(run: Callable[[], R], teller: Teller, what: str, times: int = 3) -> R:
    """What `run` gives; a run that a busy machine spoils is made again, and said to be.

    Raises:
        ServerError, AssertionError, KafkaException, KafkaError: the last try's.
    """
    for attempt in range(1, times + 1):
        try:
            return run()
        except (ServerError, AssertionError, KafkaException, KafkaError) as error:
            if attempt == times or stop.is_set():
                raise
            teller.console.print(f"{what}: again, because {str(error)[:300]}")
    raise AssertionError("times is below 1")


def run_side_by_side(work: Callable[[T], None], items: Sequence[T], lanes: int) -> None:
    """`work` of each item in threads, `lanes` at once.

    An interrupt or a failure sets `stop` and waits until the others have cleaned up.
    """
    with ThreadPoolExecutor(lanes) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            stop.set()
            for future in futures:
                future.cancel()
            raise


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
