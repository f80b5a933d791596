"""`evenkeel COMMAND ARGS`: finds the command, imports only what it needs, and turns errors into sentences.

Exit codes: 0 done or nothing to do, 1 failure, 2 bad input, 3 refused for a reason.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import cast

from evenkeel import __version__
from evenkeel.errors import EvenkeelError, InputError

OK, FAILURE, BAD_INPUT, REFUSED = 0, 1, 2, 3
INTERRUPTED = 130

COMMANDS: dict[str, tuple[str, str, str]] = {
    # name: (module:function, extra, what it does)
    "snapshot": ("evenkeel.cli.snapshot:main", "control", "measure a Kafka cluster, print it as JSON"),
    "doctor": ("evenkeel.cli.doctor:main", "control", "say what a Kafka cluster allows and what to do next"),
    "plan": (
        "evenkeel.cli.plan:main",
        "control",
        "plan routes or moves from a snapshot, without any cluster",
    ),
    "execute": ("evenkeel.cli.execute:main", "control", "run a plan of moves on a Kafka cluster"),
    "crds": ("evenkeel.cli.crds:main", "control", "print the custom resource definitions"),
    "acl": ("evenkeel.cli.acl:main", "control", "print the rights that each principal needs"),
    "operator": ("evenkeel.controller.main:main", "control", "run the operator"),
    "uninstall": ("evenkeel.cli.uninstall:main", "control", "remove what the operator made (Helm runs this)"),
    "keeper": ("evenkeel.keeper.main:main", "control", "run the keeper of one Kafka cluster"),
    "producer": ("evenkeel.ingest.main:producer_main", "data", "job: read a source into Kafka"),
    "sealer": ("evenkeel.ingest.main:sealer_main", "data", "job: verify and seal a revision"),
    "loader": ("evenkeel.loader.main:main", "data", "job: bring a revision to a node"),
    "node-cache": ("evenkeel.nodecache.main:cache_main", "data", "run the cache of a node"),
    "node-mounter": ("evenkeel.nodecache.main:mounter_main", "data", "run the mounter of a node"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    if not words or words[0] not in COMMANDS:
        parser.parse_args(words or ["--help"])  # help, version, or an error with exit code 2
        return BAD_INPUT
    name = words[0]
    return run_command(lambda: _find(name)(words[1:]), name, COMMANDS[name][1])


def run_command(command: Callable[[], int], name: str, extra: str, program: str = "evenkeel") -> int:
    """The exit code of a command; its errors become one sentence.

    Args:
        command: what to run.
        name: how it is called.
        extra: what has to be installed for it.
        program: whose command it is.
    """
    try:
        return command()
    except InputError as error:
        return _say(f"{error.message} ({error.reason})", BAD_INPUT, program)
    except EvenkeelError as error:
        return _say(f"{error.message} ({error.reason})", FAILURE, program)
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as error:
        return _say(_name_extra(name, extra, error), FAILURE, program)


def _parser() -> argparse.ArgumentParser:
    lines = [f"  {name:<13}{what}" for name, (_, _, what) in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog="evenkeel",
        description="Keeps the storage of a Kafka cluster level and feeds training data to GPU nodes.",
        epilog="commands:\n" + "\n".join(lines) + "\n\n`evenkeel COMMAND --help` says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"evenkeel {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of those below")
    return parser


def _find(command: str) -> Callable[[list[str]], int]:
    module, function = COMMANDS[command][0].split(":")
    return cast("Callable[[list[str]], int]", getattr(importlib.import_module(module), function))


def _name_extra(command: str, extra: str, error: ModuleNotFoundError) -> str:
    if (error.name or "").split(".")[0] == "evenkeel":
        return f"{command} is not part of this installation: {error}"
    return f'{command} needs the module {error.name}: pip install "evenkeel[{extra}]"'


def _say(what: str, code: int, program: str) -> int:
    sys.stderr.write(f"{program}: {what}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
