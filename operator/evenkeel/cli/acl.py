"""`evenkeel acl`: print the rights that each principal needs, as commands for kafka-acls.sh or as JSON."""

from __future__ import annotations

import argparse
import json
import shlex
import sys

from evenkeel.kafka.rights import Principal, ResourceKind, Right, list_rights


def main(arguments: list[str]) -> int:
    """Print; returns the exit code."""
    options = _parse(arguments)
    wanted = [Principal(options.principal)] if options.principal else list(Principal)
    rights = {
        principal: list_rights(principal, options.dataset_uid)
        for principal in wanted
        if principal is not Principal.DATASET or options.dataset_uid
    }
    if options.output == "json":
        sys.stdout.write(json.dumps(_build_json(rights), indent=2) + "\n")
        return 0
    for principal, entries in rights.items():
        user = f"User:{options.user or principal.value}"
        sys.stdout.write(f"# {principal.value}\n")
        sys.stdout.writelines(f"{build_command(user, right)}\n" for right in entries)
    return 0


def build_command(user: str, right: Right) -> str:
    """The kafka-acls.sh call that grants one right; add --bootstrap-server and --command-config."""
    words = ["kafka-acls.sh", "--add", "--allow-principal", user, "--operation", right.operation]
    if right.kind is ResourceKind.CLUSTER:
        words.append("--cluster")
    else:
        words += [f"--{right.kind.value}", right.name]
    if right.prefixed:
        words += ["--resource-pattern-type", "prefixed"]
    return shlex.join(words)


def _build_json(rights: dict[Principal, tuple[Right, ...]]) -> dict[str, list[dict[str, str]]]:
    return {
        principal.value: [
            {
                "resource": right.kind.value,
                "name": right.name,
                "pattern": "prefixed" if right.prefixed else "literal",
                "operation": right.operation,
            }
            for right in entries
        ]
        for principal, entries in rights.items()
    }


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evenkeel acl", description=__doc__)
    parser.add_argument("--principal", choices=[one.value for one in Principal], help="default: all")
    parser.add_argument("--user", help="its name in Kafka; default: the principal's own")
    parser.add_argument("--dataset-uid", default="", help="UID of the TrainingDataset, for its jobs' rights")
    parser.add_argument("-o", "--output", choices=["commands", "json"], default="commands")
    options = parser.parse_args(arguments)
    if options.principal == Principal.DATASET and not options.dataset_uid:
        parser.error("--dataset-uid is needed with --principal dataset")
    if options.user and not options.principal:
        parser.error("--principal is needed with --user")
    return options
