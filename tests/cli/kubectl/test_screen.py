from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support.plan_api import Terminal

ASK = """
import asyncio
from evenkeel.cli.kubectl.screen import _ask

async def main():
    _ask("sure? ")

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_a_question_at_once() -> None:
    words = [sys.executable, "-c", ASK]
    with subprocess.Popen(
        words,
        env={"PYTHONPATH": ":".join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert process.stderr.read(6) == b"sure? "
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b"interrupted\n"


@pytest.mark.parametrize(
    ("answer", "sure"), [("y", True), ("YES \n", True), ("n\n", False), ("yesterday", False), ("", False)]
)
def test_only_yes_is_yes(answer: str, sure: bool) -> None:  # noqa: FBT001 - of a table
    assert Terminal(answer).screen.confirms("sure?") is sure


def test_where_nobody_sits_nobody_is_asked() -> None:
    assert Terminal().screen.confirms("sure?")
