from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from evenkeel import __version__
from evenkeel.cli import main as cli
from evenkeel.errors import ConfigurationError, EvenkeelError, InputError, RetryableError
from evenkeel.reasons import Reason


def raising(error: BaseException) -> object:
    def command(_: list[str]) -> int:
        raise error

    return lambda _name: command


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InputError("a: must be b", reason=Reason.INVALID_SPEC), 2, "a: must be b (InvalidSpec)"),
        (ConfigurationError("no file", reason=Reason.SECRET_MISSING), 2, "no file (SecretMissing)"),
        (RetryableError("no answer", reason=Reason.BROKERS_UNREACHABLE), 1, "no answer (BrokersUnreachable)"),
        (EvenkeelError("odd"), 1, "odd (InternalError)"),
        (KeyboardInterrupt(), 130, ""),
        (ModuleNotFoundError("no", name="scipy.sparse"), 1, 'scipy.sparse: pip install "evenkeel[control]"'),
        (ModuleNotFoundError("no", name="evenkeel.x"), 1, "not part of this installation"),
    ],
)
def test_errors_become_one_sentence_and_a_code(
    error: BaseException,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(cli, "_find", raising(error))
    assert cli.main(["plan"]) == code
    shown = capsys.readouterr().err
    assert text in shown
    assert shown.count("\n") <= 1


def test_arguments_reach_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def find(name: str) -> Callable[[list[str]], int]:
        def command(words: list[str]) -> int:
            seen.append([name, *words])
            return 3

        return command

    monkeypatch.setattr(cli, "_find", find)
    assert cli.main(["plan", "routes", "-o", "json"]) == 3
    assert seen == [["plan", "routes", "-o", "json"]]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [(["--version"], 0, __version__), (["--help"], 0, "node-cache"), ([], 0, "plan")],
)
def test_help_and_version(words: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == code
    assert text in capsys.readouterr().out


def test_an_unknown_command_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["dance"])
    assert caught.value.code == 2
    assert "dance" in capsys.readouterr().err


def test_the_dispatcher_itself_needs_only_the_standard_library() -> None:
    code = "import sys, evenkeel.cli.main; print(sorted({m.split('.')[0] for m in sys.modules}))"
    path = ":".join(sys.path)
    found = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, check=True
    )
    for heavy in ("scipy", "numpy", "rich", "confluent_kafka", "kubernetes", "pydantic"):
        assert f"'{heavy}'" not in found.stdout.decode()
