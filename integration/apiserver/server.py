"""A Kubernetes API server without kubelets: etcd, kube-apiserver, kube-controller-manager as processes.

What it has: every API, RBAC, admission, CEL, garbage collection, Job and namespace controllers. What
it lacks: scheduling, pods that run, node leases. A pod's status can be patched by hand instead.
"""

from __future__ import annotations

import functools
import http.client
import json
import os
import secrets
import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from integration.processes import Process, wait_until
from integration.workspace import Workspace

ADMIN = "admin"
BINARIES = "EVENKEEL_KUBE_BIN"
_CONTROLLERS = (
    "garbage-collector-controller",
    "job-controller",
    "cronjob-controller",
    "namespace-controller",
    "serviceaccount-controller",
)


class KubectlError(RuntimeError):
    """kubectl ended with an error; the message is what it said."""


def find_binaries() -> Path:
    """The directory of kube-apiserver, etcd and kubectl: the environment's, else built from Go modules.

    Raises:
        scripts.provision.steps.StepFailed: they cannot be built.
    """
    given = os.environ.get(BINARIES)
    if given:
        return Path(given)
    from scripts.provision import gotools

    return gotools.ensure()


class Kubectl:
    """kubectl as one user. `kubeconfig` serves any other client as well."""

    def __init__(self, program: Path, kubeconfig: Path) -> None:
        self.program = program
        self.kubeconfig = kubeconfig

    def __call__(self, *words: str, stdin: str | None = None, seconds: float = 120) -> str:
        """Run `kubectl words`, `stdin` for `-f -` -> its output.

        Raises:
            KubectlError: it ended with an error.
        """
        done = subprocess.run(
            [self.program, "--kubeconfig", self.kubeconfig, *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        if done.returncode != 0:
            raise KubectlError(done.stderr.strip())
        return done.stdout


def install_kinds(kubectl: Kubectl, path: str, *, stdin: str | None = None) -> None:
    """Apply the definitions of a file or folder (`-`: `stdin`) and wait until their kinds are served.

    Raises:
        KubectlError: a definition is refused.
        ServerError: a kind is not served in time.
    """
    found = kubectl("apply", "--server-side", "-f", path, "-o", "name", stdin=stdin).split()
    await_kinds(kubectl, *(definition.partition("/")[2] for definition in found))


def await_kinds(kubectl: Kubectl, *definitions: str) -> None:
    """Wait until the kinds of definitions are served: these are established some time before.

    Raises:
        KubectlError: one is not established in time.
        ServerError: a kind is not served in time.
    """
    kubectl("wait", "--for=condition=Established", *(f"crd/{one}" for one in definitions), "--timeout=60s")
    for plural in definitions:
        wait_until(f"{plural} to be served", functools.partial(_is_served, kubectl, plural), every=0.2)


def await_right(kubectl: Kubectl, user: str, *right: str) -> None:
    """Wait until a user has a right, in the words of `kubectl auth can-i`.

    The server decides by a copy of roles and bindings that follows what is stored.

    Raises:
        ServerError: not in time.
    """
    wait_until(
        f"the right of {user}: {' '.join(right)}", functools.partial(_has, kubectl, user, right), every=0.2
    )


def _has(kubectl: Kubectl, user: str, right: tuple[str, ...]) -> bool:
    try:
        return kubectl("auth", "can-i", *right, "--as", user).strip() == "yes"
    except KubectlError:  # as it ends where the answer is no
        return False


def _is_served(kubectl: Kubectl, plural: str) -> bool:
    try:
        kubectl("get", plural, "--all-namespaces", "-o", "name")
    except KubectlError:
        return False
    return True


class ApiServer:
    """One API server on loopback, running until `close`. Made by `start`."""

    def __init__(self, users: Sequence[str], binaries: Path, workspace: Workspace) -> None:
        self._binaries = binaries
        self._workspace = workspace
        self._etcd_port, self._peer_port, self.port = (workspace.lease_port() for _ in range(3))
        self._tokens = {name: secrets.token_hex(16) for name in (ADMIN, *users)}
        self._etcd: Process | None = None
        self._server: Process | None = None
        self._manager: Process | None = None

    @classmethod
    def start(
        cls, *, users: Sequence[str] = (), controller_manager: bool = False, seconds: float = 60
    ) -> Self:
        """A fresh API server that answers /readyz with ok.

        `users` are names without groups and so without rights, known by a token each; `admin` may all.

        Raises:
            ServerError: a process ended, or it was not ready within `seconds`.
            StepFailed: the programs cannot be built.
        """
        binaries = find_binaries()
        workspace = Workspace("apiserver")
        try:
            api = cls(users, binaries, workspace)
            api._write_credentials()
            api._etcd = workspace.launch("etcd", api._etcd_command())
            api.start_server(seconds)
            api._wait_for("namespace/default", seconds)
            if controller_manager:
                api._manager = workspace.launch("controller-manager", api._manager_command())
                api._wait_for("serviceaccount/default", seconds)
        except BaseException:
            workspace.close()
            raise
        return api

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_path(self) -> Path:
        """The certificate that clients trust: the server signs its own, valid for 127.0.0.1."""
        return self._workspace.path / "certs" / "apiserver.crt"

    def token(self, user: str = ADMIN) -> str:
        """The bearer token of one of the users given to `start`."""
        return self._tokens[user]

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """A kubeconfig file of one of the users given to `start`."""
        return self.kubeconfig_for(self._tokens[user], user)

    def kubeconfig_for(self, token: str, name: str) -> Path:
        """A kubeconfig file for any bearer token, such as `kubectl create token SERVICEACCOUNT` gives."""
        path = self._workspace.path / f"{name}.kubeconfig"
        path.write_text(json.dumps(build_kubeconfig(self.url, self.ca_path, token)))
        return path

    def kubectl(self, user: str = ADMIN) -> Kubectl:
        """kubectl as one of the users given to `start`."""
        return Kubectl(self._binaries / "kubectl", self.kubeconfig(user))

    def stop_server(self) -> None:
        """SIGKILL of the API server alone: connections are refused, etcd keeps what is stored."""
        assert self._server is not None
        self._server.kill()

    def freeze(self) -> None:
        """Stop the API server's clock: it takes connections and answers nothing."""
        assert self._server is not None
        self._server.freeze()

    def thaw(self) -> None:
        """Let it go on after `freeze`."""
        assert self._server is not None
        self._server.thaw()

    def start_server(self, seconds: float = 60) -> None:
        """Start the API server (again, on the same port with the same certificate) until it is ready.

        Raises:
            ServerError: it or etcd ended, or it is not ready within `seconds`.
        """
        if self._server is not None and self._server.running:
            raise ValueError("the API server runs already")
        assert self._etcd is not None
        self._server = self._workspace.launch("apiserver", self._server_command())
        wait_until("/readyz", self.ready, seconds=seconds, processes=[self._server, self._etcd])

    def ready(self) -> bool:
        """Whether /readyz says ok within 2 s. The port answers 503 and 404 before that."""
        try:
            context = ssl.create_default_context(cafile=self.ca_path)
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=2, context=context)
            try:
                connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {self.token()}"})
                return connection.getresponse().status == http.HTTPStatus.OK
            finally:
                connection.close()
        except (OSError, http.client.HTTPException):
            return False

    def logs(self, name: str = "apiserver") -> str:
        """The log of `apiserver`, `etcd` or `controller-manager`, over all its starts."""
        return (self._workspace.path / f"{name}.log").read_text(errors="replace")

    def close(self) -> None:
        """End the processes and remove everything."""
        self._workspace.close()

    def _wait_for(self, name: str, seconds: float) -> None:
        """What the server, or its controllers, make by themselves some time after they are ready."""
        admin = self.kubectl()
        wait_until(
            name,
            lambda: admin("get", name, "-n", "default", "--ignore-not-found", "-o", "name"),
            seconds=seconds,
            every=0.2,
            processes=[one for one in (self._server, self._manager) if one is not None],
        )

    def _write_credentials(self) -> None:
        rows = [f'{token},{name},{name},"{_groups(name)}"' for name, token in self._tokens.items()]
        (self._workspace.path / "tokens.csv").write_text("\n".join(rows) + "\n")
        size = ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
        subprocess.run(["openssl", "genpkey", *size, "-out", str(self._key)], check=True, capture_output=True)

    @property
    def _key(self) -> Path:
        return self._workspace.path / "service-accounts.key"

    def _etcd_command(self) -> list[str | Path]:
        client = f"http://127.0.0.1:{self._etcd_port}"
        peer = f"http://127.0.0.1:{self._peer_port}"
        program = self._binaries / "etcd"
        return [
            # The Go module's own name for it is `server`.
            program if program.exists() else self._binaries / "server",
            f"--data-dir={self._workspace.path / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=error",
        ]

    def _server_command(self) -> list[str | Path]:
        return [
            self._binaries / "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.ca_path.parent}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._key}",
            f"--service-account-signing-key-file={self._key}",
            f"--token-auth-file={self._workspace.path / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            # As every real cluster has it; admission policies decide which pods may be.
            "--allow-privileged=true",
            "--service-cluster-ip-range=10.0.0.0/24",
            # It would demand a service account of every pod, which only the controller manager makes.
            "--disable-admission-plugins=ServiceAccount",
        ]

    def _manager_command(self) -> list[str | Path]:
        return [
            self._binaries / "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig()}",
            f"--controllers={','.join(_CONTROLLERS)}",
            "--leader-elect=false",
            "--secure-port=0",
        ]


def build_kubeconfig(url: str, ca_path: Path, token: str) -> dict[str, object]:
    """A kubeconfig with one cluster, one user and one context, each named `test`."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(ca_path)}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }


def _groups(user: str) -> str:
    return "system:masters" if user == ADMIN else ""
