"""Work side by side: threads for what waits for other programs. Needs nothing but Python."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self, TypeVar

from scripts.provision import steps

T = TypeVar("T")
WORKERS = 6


class Tasks:
    """A group of calls on threads; leaving the context ends them all.

    When the body fails or is interrupted, commands under way are told to stop and no further one starts,
    so that leaving takes seconds.
    """

    def __init__(self, workers: int = WORKERS) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="task")
        self._futures: list[Future[object]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            steps.stop()
        self._pool.shutdown(wait=True, cancel_futures=error is not None)

    def start(self, call: Callable[[], T]) -> Future[T]:
        """Run `call` on a thread as soon as one is free."""
        future: Future[T] = self._pool.submit(call)
        self._futures.append(future)  # type: ignore[arg-type]
        return future

    def wait_all(self) -> None:
        """Wait for every call so far; the first failure is raised at once, not after the others' ends."""
        done, _ = wait(self._futures, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
