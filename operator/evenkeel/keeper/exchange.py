"""How a keeper gets `Desired` and gives `Report`: two files, or two ConfigMaps."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from evenkeel import names
from evenkeel.domain import codec, envelope
from evenkeel.domain.exchange import Desired, Report
from evenkeel.errors import EvenkeelError, InputError
from evenkeel.keeper.report import limit_report
from evenkeel.kube.client import Kube
from evenkeel.kube.resources import CONFIG_MAP

log = logging.getLogger(__name__)
POLL_SECONDS = 1.0
_LIMITS = (1000, 300, 100, 30)


class Exchange(Protocol):
    """Where the operator, or a person, and the keeper meet."""

    def watch(self) -> AsyncIterator[Desired]:
        """`Desired` now and whenever it changes, for ever; what cannot be read is logged and passed over."""
        ...

    async def read_report(self) -> Report | None:
        """The report that a predecessor left; None: none, or not readable."""
        ...

    async def write(self, report: Report) -> None:
        """Replace the report.

        Raises:
            EvenkeelError: it could not be written; try again later.
        """
        ...

    async def close(self) -> None:
        """Give connections back."""
        ...


class FileExchange:
    """Two JSON files; the report is replaced by rename, so that a reader never sees half of it."""

    def __init__(self, desired: Path, report: Path) -> None:
        self._desired = desired
        self._report = report

    async def watch(self) -> AsyncIterator[Desired]:
        """As Exchange.watch: by the file's identity and time of change, once a second."""
        seen: tuple[int, int, int] | None = None
        while True:
            mark = _mark(self._desired)
            if mark is not None and mark != seen:
                seen = mark
                found = self._read_desired()
                if found is not None:
                    yield found
            await asyncio.sleep(POLL_SECONDS)

    def _read_desired(self) -> Desired | None:
        try:
            return parse_desired(self._desired.read_text(encoding="utf-8"), str(self._desired))
        except (OSError, UnicodeDecodeError) as error:
            log.error("desired not readable where=%s why=%s", self._desired, error)
            return None

    async def read_report(self) -> Report | None:
        """As Exchange.read_report."""
        try:
            return codec.loads(Report, self._report.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, InputError):
            return None

    async def write(self, report: Report) -> None:
        """As Exchange.write."""
        temporary = self._report.with_name(f".{self._report.name}.{os.getpid()}")
        try:
            temporary.write_text(codec.dumps(report) + "\n", encoding="utf-8")
            temporary.replace(self._report)
        except OSError as error:
            raise EvenkeelError(f"{self._report}: cannot be written: {error}") from error

    async def close(self) -> None:
        """Nothing to give back."""


class ConfigMapExchange:
    """Two ConfigMaps of one namespace; the keeper may get, watch and patch just these two."""

    def __init__(self, kube: Kube, namespace: str, desired: str, report: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._desired = desired
        self._report = report

    async def watch(self) -> AsyncIterator[Desired]:
        """As Exchange.watch; a ConfigMap that is deleted asks to give the claim back.

        It goes with its BalancedCluster. If somebody deleted it alone, the operator makes it again, and
        the claim is taken again.
        """
        selector = f"metadata.name={self._desired}"
        changes = self._kube.watch(CONFIG_MAP, namespace=self._namespace, field_selector=selector)
        async for kind, item in changes:
            found = _unpack_desired(item)
            if found is None:
                continue
            yield replace(found, release=True).sealed() if kind == "DELETED" else found

    async def read_report(self) -> Report | None:
        """As Exchange.read_report."""
        try:
            found = await self._kube.get(CONFIG_MAP, self._report, self._namespace)
            text = envelope.unpack(names.REPORT_KEY, found) if found else None
            return codec.loads(Report, text) if text else None
        except EvenkeelError as error:
            log.warning("last report not readable why=%s", error.message)
            return None

    async def write(self, report: Report) -> None:
        """As Exchange.write; what does not fit is cut, and the report says so."""
        body = pack_report(report)
        await self._kube.patch_merge(CONFIG_MAP, self._report, body, self._namespace)

    async def close(self) -> None:
        """Close the connections to the API server."""
        await self._kube.close()


def pack_report(report: Report) -> dict[str, object]:
    """The merge patch that stores a report, cut until it fits.

    Raises:
        InputError: it does not fit even when cut.
    """
    for most in _LIMITS:
        try:
            return envelope.pack(names.REPORT_KEY, codec.dumps(report))
        except InputError:
            report = limit_report(report, most)
    return envelope.pack(names.REPORT_KEY, codec.dumps(report))


def _unpack_desired(item: dict[str, object]) -> Desired | None:
    try:
        text = envelope.unpack(names.DESIRED_KEY, item)
    except InputError as error:
        log.error("desired not readable why=%s", error.message)
        return None
    return parse_desired(text, names.DESIRED_KEY) if text else None


def parse_desired(text: str, where: str) -> Desired | None:
    """Parsed and with its version; None where it cannot be read (the last good one stays in force)."""
    try:
        found = codec.loads(Desired, text)
    except InputError as error:
        log.error("desired not readable where=%s why=%s", where, error.message)
        return None
    return found if found.version else found.sealed()


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
