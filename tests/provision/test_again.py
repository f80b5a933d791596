from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from scripts.provision import again, steps
from scripts.provision.steps import StepFailed

BROKEN = "pip: exit 1\nIncompleteRead(12 bytes read, 7 more expected)"
REFUSED = "pip: exit 1\nno matching distribution"


def build_call(failures: Sequence[str]) -> Callable[[], str]:
    """Fails with one message after the other, then answers."""
    left = list(failures)

    def call() -> str:
        if left:
            raise StepFailed(left.pop(0))
        return "done"

    return call


def run_again(failures: Sequence[str], seconds: float = 60.0) -> tuple[str, float]:
    """What came of it, and after how many seconds of pauses."""
    clock = [0.0]

    def pause(length: float) -> None:
        clock[0] += length

    found = again.again(
        build_call(failures),
        again.is_broken_transfer,
        seconds=seconds,
        monotonic=lambda: clock[0],
        pause=pause,
    )
    return found, clock[0]


def test_what_passes_is_tried_again_with_a_pause() -> None:
    assert run_again([BROKEN, BROKEN]) == ("done", 2 * again.PAUSE_SECONDS)


def test_what_does_not_pass_is_raised_at_once() -> None:
    with pytest.raises(StepFailed, match="no matching distribution"):
        run_again([REFUSED])


def test_what_never_passes_is_raised_when_time_is_over() -> None:
    with pytest.raises(StepFailed, match="IncompleteRead"):
        run_again([BROKEN] * 100, seconds=10)


def test_each_failure_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run_again([BROKEN])
    assert "IncompleteRead(12 bytes read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "said",
    [
        "go: github.com/x/y@v1: Get https://proxy: net/http: TLS handshake timeout",
        "E: Failed to fetch http://deb.debian.org/x.deb  Connection reset",
        "[ERROR] Could not transfer artifact a:b:jar:1 from/to central",
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'ProtocolError'",
    ],
)
def test_broken_transfers_are_known_by_what_the_tools_say(said: str) -> None:
    assert again.is_broken_transfer(said)


@pytest.mark.parametrize("said", ["./main.go:3: undefined: x", "not started, we are stopping", "timed out"])
def test_other_failures_are_not_taken_for_them(said: str) -> None:
    assert not again.is_broken_transfer(said)


def test_a_download_hands_its_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def run(command: list[str], **options: object) -> str:
        seen.append((command, options))
        return "fetched"

    monkeypatch.setattr(steps, "run", run)
    assert again.download(["go", "build"], timeout=5) == "fetched"
    assert seen == [(["go", "build"], {"timeout": 5})]
