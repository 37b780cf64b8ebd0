"""All texts of a request: what its fields and body say, also with escaped letters and in compressed bodies."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Final

MAX_INFLATED_BYTES: Final = 32 << 20
"""More is not looked at: no server takes it."""
_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})")


def said(fields: Mapping[str, str], body: bytes) -> str:
    """Return all texts of a request, one after the other. Who signed it is left out."""
    texts = [value for name, value in fields.items() if name not in ("AccessKey", "Signature")]
    texts += [part.decode("utf-8", "replace") for part in (body, _inflated(body))]
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), " ".join(texts))


def _inflated(body: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(body, MAX_INFLATED_BYTES)
    except zlib.error:
        return b""
