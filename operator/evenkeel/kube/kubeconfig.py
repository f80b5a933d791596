"""A person's way to the API server: kubeconfig, context and namespace as kubectl reads them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import yaml
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException

from evenkeel.errors import ConfigurationError
from evenkeel.kube.client import Kube
from evenkeel.reasons import Reason

DEFAULT_PATH = "~/.kube/config"
DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class UserAccess:
    """A connection, and the namespace that the context names."""

    kube: Kube
    namespace: str


async def connect_user(path: str | None, context: str | None, *, manager: str) -> UserAccess:
    """Connect as a kubeconfig says.

    Args:
        path: the file; None: those of `KUBECONFIG`, else `~/.kube/config`.
        context: one of its contexts; None: the current one.
        manager: name under which changes are recorded.

    Raises:
        ConfigurationError: no file is there, it has no such context, or it cannot be used.
    """
    where = _find_files(path)
    settings = Configuration()
    try:
        loader = await config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=where, context=context, client_configuration=settings, persist_config=False
        )
        chosen = loader.current_context["context"]
    except (ConfigException, OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        wanted = "the current context" if context is None else f"the context {context}"
        raise ConfigurationError(
            f"kubeconfig {where}: {wanted} cannot be used: {error}", reason=Reason.INVALID_SPEC
        ) from error
    return UserAccess(Kube(ApiClient(settings), manager), str(chosen.get("namespace") or DEFAULT_NAMESPACE))


def _find_files(path: str | None) -> str:
    where = path or os.environ.get("KUBECONFIG") or str(Path(DEFAULT_PATH).expanduser())
    if not any(Path(one).expanduser().is_file() for one in where.split(os.pathsep) if one):
        message = f"kubeconfig {where}: there is no such file; name one by --kubeconfig or KUBECONFIG"
        raise ConfigurationError(message, reason=Reason.INVALID_SPEC)
    return where
