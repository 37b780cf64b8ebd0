"""What tells this store from another one in its place: made once, kept beside the tables in ``config/storeId.json``.

Readers that remember offsets (checkpoints of the Spark source) see it in the broker's runtime information. Upstream has
nothing like it: there, another store is noticed only when its queues are shorter.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.metadata.saved.json_file import JsonFile
from wire.errors import BodyError

FILE_NAME = "storeId.json"


def store_identity(file: JsonFile, make: Callable[[], str]) -> str:
    """The identity of the store; written at its first start.

    :param make: a new one.
    :raises GatewayError: the file is there and cannot be read.
    :raises OSError: it cannot be written.
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
