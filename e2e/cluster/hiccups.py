"""What a busy API server answers for a moment, and whether a word to it may then be said twice. Pure."""

from __future__ import annotations

from collections.abc import Sequence

HICCUP_SECONDS = 30.0
"""An API server that lost its etcd or its turn on the processor is back within seconds."""
_NOT_HEARD = (
    "connection refused",
    "was refused - did you specify the right host or port",
    "TLS handshake timeout",
)
"""Nothing was asked for yet, so everything may be asked for again."""
_HEARD_OR_NOT = (
    "etcdserver: request timed out",
    "etcdserver: leader changed",
    "Unable to connect to the server",
    "the server is currently unable to handle the request",
    "the server was unable to return a response in the time allotted",
    "the object has been modified",
    "connection reset by peer",
    "client connection lost",
    "server sent GOAWAY",
    "unexpected EOF",
    "Client.Timeout exceeded",
)
"""It may have been done: only what ends the same when it is done twice may be asked for again."""
_SAME_TWICE = frozenset({"get", "wait", "rollout", "logs", "explain", "apply", "patch"})
_UNREACHABLE = "Kubernetes cluster unreachable"


def is_repeatable(words: Sequence[str], said: str) -> bool:
    """Whether `kubectl WORDS` that failed with `said` may be said again, and may well succeed then."""
    if any(mark in said for mark in _NOT_HEARD):
        return True
    same = _verb(words) in _SAME_TWICE or "--ignore-not-found" in words
    return same and any(mark in said for mark in _HEARD_OR_NOT)


def is_repeatable_by_helm(said: str) -> bool:
    """Whether Helm ended before it changed anything: it looks for the API server first."""
    return _UNREACHABLE in said


def _verb(words: Sequence[str]) -> str:
    left = iter(words)
    for word in left:
        if word == "--namespace":
            next(left, None)
        elif not word.startswith("-"):
            return word
    return ""
