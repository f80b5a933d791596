"""Ctrl-C, counted: what it asks a run of moves for."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

from evenkeel.keeper.moving.settings import Control

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Presses of Ctrl-C: the first finishes the batch, the second cancels, the third leaves."""

    def __init__(self) -> None:
        self.presses = 0
        self._pressed = threading.Event()
        self._bell: socket.socket | None = None

    @classmethod
    @contextmanager
    def listening(cls) -> Iterator[Self]:
        """Take Ctrl-C (and SIGTERM as one more) until the end of the block; main thread only.

        A handler is called once for however many signals came while a client library kept the main thread, for seconds
        where brokers do not answer. The bytes that Python writes for each of them at once tell how many.
        """
        stop = cls()
        bell, sender = socket.socketpair()
        with bell, sender:
            bell.setblocking(False)
            sender.setblocking(False)
            stop._bell = bell
            fd_before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
            before = {one: signal.signal(one, stop.hear) for one in SIGNALS}
            try:
                yield stop
            finally:
                for one, handler in before.items():
                    signal.signal(one, handler)
                signal.set_wakeup_fd(fd_before)
                stop._bell = None

    def hear(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Count what was pressed since.

        Raises:
            KeyboardInterrupt: for the third time.
        """
        try:
            rung = b"" if self._bell is None else self._bell.recv(16)
        except BlockingIOError:
            return
        for _ in rung:
            self.press()

    def press(self) -> None:
        """Once more; raises as `hear`."""
        self.presses += 1
        self._pressed.set()
        if self.presses > 2:  # noqa: PLR2004 - finish, cancel, leave
            raise KeyboardInterrupt

    @property
    def control(self) -> Control:
        """What that means."""
        self.hear()
        return (Control.RUN, Control.FINISH, Control.CANCEL)[min(self.presses, 2)]

    def wait(self, seconds: float) -> None:
        """Until pressed, at most."""
        self._pressed.wait(seconds)
        self._pressed.clear()
