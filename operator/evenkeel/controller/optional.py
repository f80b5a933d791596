"""Follows a kind of somebody else that need not be installed, may come later, and may go."""

from __future__ import annotations

import asyncio
import logging

from evenkeel import names
from evenkeel.controller.store import Store
from evenkeel.errors import ConfigurationError, EvenkeelError
from evenkeel.kube.client import Kube
from evenkeel.kube.failures import KindAbsentError
from evenkeel.kube.resources import BALANCED_TOPIC, STRIMZI_GROUP, kafka_topic

FORBIDDEN_SECONDS = 60.0
log = logging.getLogger(__name__)


class KafkaTopics:
    """Keeps Strimzi's KafkaTopics in the store, as long as there are any.

    Args:
        kube: the API server.
        store: where they go.
        absent_seconds: pause between two looks while the kind is not installed.
    """

    kind = "KafkaTopic"

    def __init__(self, kube: Kube, store: Store, absent_seconds: float) -> None:
        self._kube = kube
        self._store = store
        self._absent_seconds = absent_seconds
        self._fresh: set[str] = set()

    async def run(self) -> None:
        """Follow for ever. The kind counts as listed also where it is absent or may not be read."""
        while True:
            try:
                version = await self._kube.find_version(STRIMZI_GROUP, "kafkatopics")
                if version is not None:
                    await self._follow(version)
                elif await self._is_complete():
                    self._forget_absent()
                pause = self._absent_seconds
            except KindAbsentError as error:
                log.info("KafkaTopics are not served, looking again: %s", error)
                pause = self._absent_seconds
            except ConfigurationError as error:
                # What was known stays: a right that was taken away makes no topic ours.
                log.warning("KafkaTopics cannot be read, topics of Strimzi are not told apart: %s", error)
                self._store.listed(self.kind)
                pause = FORBIDDEN_SECONDS
            except EvenkeelError as error:
                log.info("KafkaTopics not looked for: %s", error)
                pause = self._absent_seconds
            await asyncio.sleep(pause)

    async def _is_complete(self) -> bool:
        """Whether the API server serves custom kinds at all: one that is just starting denies each of them.

        Taken at its word, all topics of Strimzi would be ours for that moment, and be changed or deleted.
        """
        return await self._kube.find_version(names.API_GROUP, BALANCED_TOPIC.plural) is not None

    async def _follow(self, version: str) -> None:
        self._fresh = set()
        changes = self._kube.watch(kafka_topic(version), on_listed=self._on_listed, optional=True)
        log.info("KafkaTopics are followed version=%s", version)
        async for change, item in changes:
            item["metadata"].pop("managedFields", None)
            if change == "DELETED":
                self._fresh.discard(item["metadata"]["uid"])
            else:
                self._fresh.add(item["metadata"]["uid"])
            self._store.put(change, item)

    def _on_listed(self) -> None:
        """Of an earlier life of the kind only what this list has is left."""
        for item in list(self._store.all(self.kind)):
            if item["metadata"]["uid"] not in self._fresh:
                self._store.put("DELETED", item)
        self._store.listed(self.kind)

    def _forget_absent(self) -> None:
        self._fresh = set()
        self._on_listed()
