"""What happens on the machines themselves: processes that die, files that come and change."""

from __future__ import annotations

import shlex
from pathlib import Path

from e2e.scenarios.user import Object
from scripts.provision import docker

# A process belongs to a pod if its control group says so; the kernel kills it without asking it.
_KILL = """
uid=$1; word=$2; killed=0
for group in /proc/[0-9]*/cgroup; do
  grep -q "pod${uid//-/_}" "$group" 2>/dev/null || grep -q "pod$uid" "$group" 2>/dev/null || continue
  folder=${group%/cgroup}
  tr '\\0' ' ' < "$folder/cmdline" 2>/dev/null | grep -q -- "$word" || continue
  kill -KILL "${folder#/proc/}" && killed=$((killed + 1))
done
echo "$killed"
"""


def kill(pod: Object, word: str) -> int:
    """SIGKILL to every process of the pod whose command line has `word` -> how many there were."""
    return int(run(pod["spec"]["nodeName"], _KILL, pod["metadata"]["uid"], word))


def run(node: str, script: str, *arguments: str) -> str:
    """A bash script as root on a node -> its output; raises StepFailed."""
    words = ("exec", "--interactive", node, "bash", "-s", "--", *arguments)
    return docker.call(*words, stdin=script.encode())


def write(node: str, path: str, content: bytes) -> None:
    """A file that everybody may read, with its folders."""
    quoted = shlex.quote(path)
    docker.call("exec", node, "install", "-d", "-m", "755", str(Path(path).parent))
    docker.call(
        "exec", "--interactive", node, "bash", "-c", f"cat > {quoted} && chmod a+r {quoted}", stdin=content
    )
