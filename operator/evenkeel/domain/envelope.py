"""How `Desired` and `Report` travel in a ConfigMap: plain up to 256 KiB, gzip above, never over 700 KB.

A ConfigMap may hold 1 MiB. Below `data` a value is plain JSON; a larger one lies under `binaryData` with
`.gz` behind its key, so that exactly one of the two is there.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import zlib
from collections.abc import Mapping
from typing import Any

from evenkeel.errors import InputError
from evenkeel.reasons import Reason

PLAIN_BYTES = 256 * 1024
"""Up to here a value stays readable for people."""
PACKED_BYTES = 700 * 1000
"""Most that a compressed value may take: base64 makes 933 KB of it, under the limit of 1 MiB."""
GZIP_SUFFIX = ".gz"


def pack(key: str, text: str) -> dict[str, Any]:
    """The `data` and `binaryData` of a ConfigMap that carries `text` under `key`; the other form is None.

    The same text gives the same bytes (no time in the gzip header).

    Raises:
        InputError: more than PACKED_BYTES even when compressed; drop detail and call again.
    """
    raw = text.encode()
    if len(raw) <= PLAIN_BYTES:
        return {"data": {key: text}, "binaryData": {key + GZIP_SUFFIX: None}}
    packed = gzip.compress(raw, mtime=0)
    if len(packed) > PACKED_BYTES:
        message = f"{key}: {len(packed)} bytes compressed, limit {PACKED_BYTES}"
        raise InputError(message, reason=Reason.INVALID_SPEC)
    encoded = base64.b64encode(packed).decode()
    return {"data": {key: None}, "binaryData": {key + GZIP_SUFFIX: encoded}}


def unpack(key: str, config_map: Mapping[str, Any]) -> str | None:
    """The text under `key` of a ConfigMap as the API gives it; None where there is none yet.

    Raises:
        InputError: the compressed form cannot be read.
    """
    packed = (config_map.get("binaryData") or {}).get(key + GZIP_SUFFIX)
    if packed is None:
        plain = (config_map.get("data") or {}).get(key)
        return None if plain is None else str(plain)
    try:
        return gzip.decompress(base64.b64decode(packed, validate=True)).decode()
    except (OSError, EOFError, zlib.error, binascii.Error, UnicodeDecodeError) as error:
        raise InputError(f"{key}{GZIP_SUFFIX}: not readable: {error}", reason=Reason.INVALID_SPEC) from error
