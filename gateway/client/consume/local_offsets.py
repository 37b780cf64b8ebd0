"""The offsets of a broadcasting consumer in a file, in the Java client's format.

    <directory>/<client ip>@<instance>/<group>/offsets.json        {"offsetTable":{{"brokerName":…}:5}}

The text has the form of upstream's ``LocalFileOffsetStore``: Java consumers read our files, and we read theirs. This
module knows names, text and values; ``consume/offset_store.py`` reads and writes the files.
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
    """The content of the file (upstream ``OffsetSerializeWrapper``)."""

    offset_table: Mapping[QueueKey, int] = field(default_factory=dict)


def offsets_path(directory: str, client: str, group: str) -> Path:
    """Return the path of a group's file on this machine.

    :param client: ``ip@instance``; must be the same after a restart, otherwise the offsets are not found.
    """
    return Path(directory).expanduser() / client.translate(_UNSAFE) / group.translate(_UNSAFE) / _FILE


def parse_offsets(text: bytes) -> dict[MessageQueue, int]:
    """Return the offsets in the text of a file.

    :raises BodyError: the text is not from such a file.
    """
    table = _OffsetFile.parse(text).offset_table
    return {MessageQueue(key.topic, key.broker_name, key.queue_id): offset for key, offset in table.items()}


def build_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Return the text of a file with these offsets."""
    table = {QueueKey(*queue): offset for queue, offset in offsets.items()}
    return build_pretty_json(_OffsetFile(table).to_json())
