from __future__ import annotations

import os
import signal
import socket

import pytest

from evenkeel.cli.stop import SIGNALS, Stop
from evenkeel.keeper.moving.settings import Control


def test_the_first_press_finishes_the_second_cancels_the_third_leaves() -> None:
    stop = Stop()
    found = [stop.control]
    for _ in range(2):
        stop.press()
        found.append(stop.control)
    assert found == [Control.RUN, Control.FINISH, Control.CANCEL]
    with pytest.raises(KeyboardInterrupt):
        stop.press()


@pytest.mark.parametrize("number", SIGNALS)
def test_signals_are_presses(number: signal.Signals) -> None:
    with Stop.listening() as stop:
        signal.raise_signal(number)
        assert stop.control is Control.FINISH
        stop.wait(60)  # returns at once: it was pressed
        signal.raise_signal(number)
        assert stop.control is Control.CANCEL
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_the_handlers_of_before_are_put_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with socket.socket() as other:
        other.setblocking(False)
        earlier = signal.set_wakeup_fd(other.fileno())
        try:
            with Stop.listening():
                assert signal.getsignal(signal.SIGINT) is not before[0]
            assert [signal.getsignal(number) for number in SIGNALS] == before
        finally:
            assert signal.set_wakeup_fd(earlier) == other.fileno()


def test_two_presses_that_come_to_one_call_of_the_handler_are_two() -> None:
    with Stop.listening() as stop:
        bell = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(bell)
        # As Python does while a client library keeps the main thread.
        os.write(bell, bytes([signal.SIGINT] * 2))
        stop.hear()
        assert stop.control is Control.CANCEL
