"""The offsets of a broadcasting consumer in a file, as the Java client keeps them.

    <directory>/<client ip>@<instance>/<group>/offsets.json        {"offsetTable":{{"brokerName":…}:5}}

The text is that of upstream's ``LocalFileOffsetStore``: a Java consumer reads ours and the reverse. Names, text and
values only; reading and writing files is ``consume/offset_store.py``'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.client.message_queue import MessageQueue
from wire.bodies.declare import JsonObject, field
from wire.bodies.fastjson import build_pretty_json
from wire.bodies.message_queue import MessageQueue as QueueKey

_FILE: Final = "offsets.json"
# Characters of an address that Windows does not allow in names.
_UNSAFE: Final = str.maketrans(dict.fromkeys('<>:"/\\|?*', "_"))


class _OffsetFile(JsonObject):
    """Upstream ``OffsetSerializeWrapper``."""

    offset_table: Mapping[QueueKey, int] = field(default_factory=dict)


def offsets_path(directory: str, client: str, group: str) -> Path:
    """The file of a group on this machine.

    :param client: ``ip@instance``; it must be the same after a restart for the offsets to be found.
    """
    return Path(directory).expanduser() / client.translate(_UNSAFE) / group.translate(_UNSAFE) / _FILE


def parse_offsets(text: bytes) -> dict[MessageQueue, int]:
    """The offsets of a file.

    :raises BodyError: it is not such a file.
    """
    table = _OffsetFile.parse(text).offset_table
    return {MessageQueue(key.topic, key.broker_name, key.queue_id): offset for key, offset in table.items()}


def build_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """The text of a file."""
    table = {QueueKey(*queue): offset for queue, offset in offsets.items()}
    return build_pretty_json(_OffsetFile(table).to_json())
