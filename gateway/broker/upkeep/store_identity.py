"""The identity of a store, which distinguishes it from another store in its place.

The identity is made once and kept beside the tables in ``config/storeId.json``. Readers that remember offsets
(checkpoints of the Spark source) see it in the broker's runtime information. Upstream has no identity: there, readers
notice another store only if its queues are shorter.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.metadata.saved.json_file import JsonFile
from wire.errors import BodyError

FILE_NAME = "storeId.json"


def store_identity(file: JsonFile, make: Callable[[], str]) -> str:
    """Return the identity of the store, which is written when it is first needed.

    :param make: returns a new identity.
    :raises GatewayError: the file exists and cannot be read.
    :raises OSError: the file cannot be written.
    """
    known = file.load(_parse)
    if known is not None:
        return known
    made = make()
    file.write(msgspec.json.encode({"storeId": made}))
    return made


def _parse(content: bytes) -> str:
    try:
        return msgspec.json.decode(content, type=dict[str, str])["storeId"]
    except (msgspec.MsgspecError, KeyError) as error:
        raise BodyError(f"no storeId: {error}") from error
