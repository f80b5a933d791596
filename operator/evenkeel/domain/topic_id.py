"""Topic ids as text, in Kafka's own way, whichever client told them: they are compared across clients.

Kafka's tools and Strimzi write the 16 bytes in URL-safe base64 without padding; librdkafka in plain base64;
kafka-python gives a UUID.
"""

from __future__ import annotations

import base64
from uuid import UUID


def topic_id_text(value: UUID | None) -> str:
    """As Kafka writes it; empty where the broker tells none (before 2.8)."""
    if value is None or value.int == 0:
        return ""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def plain_topic_id(text: str) -> str:
    """The same id as librdkafka writes it, in Kafka's way; what is in it already stays."""
    return text.translate(_URL_SAFE)


_URL_SAFE = str.maketrans("+/", "-_")
