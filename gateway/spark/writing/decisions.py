"""The decisions about the half messages of a micro-batch, kept beside the checkpoint.

With ``deliveryMode=transactional``, tasks store half messages. The driver writes down which half messages count before
it commits the first: this file is the decision. A batch that is repeated after its decision is not sent again; the half
messages are committed again, which does no harm. Half messages that no decision names belong to tasks or tries that do
not count: they are rolled back when their broker asks (``verdict``).

    <checkpoint>/rocketmq/<query>/<batch>    msgpack: version, then for each broker and topic the half messages
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import msgspec
import pyarrow.fs as pafs

from gateway.spark.errors import CheckpointRefused

FOLDER: Final = "rocketmq"
KEPT: Final = 100
"""The number of a query's decisions that are kept: as many as batches that Spark keeps.

Older decisions were carried out long before.
"""
_VERSION: Final = 1
_HALF: Final = struct.Struct(">qq16s")
"""Offset in the half queue, offset in the commit log, unique key. The format is on disk: never change it."""


class Verdict(Enum):
    """The answer to a broker that asks about a half message."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Half:
    """A stored half message."""

    half_offset: int
    commit_log_offset: int
    msg_id: str


@dataclass(slots=True)
class Halves:
    """Half messages by their broker and their topic, in a small form that travels through Spark."""

    packed: dict[tuple[str, str], bytearray] = field(default_factory=dict)

    def add(self, broker_name: str, topic: str, half: Half) -> None:
        """Add a half message."""
        data = self.packed.setdefault((broker_name, topic), bytearray())
        data += _HALF.pack(half.half_offset, half.commit_log_offset, bytes.fromhex(half.msg_id))

    def extend(self, others: Halves) -> None:
        """Add all half messages of ``others``."""
        for place, data in others.packed.items():
            self.packed.setdefault(place, bytearray()).extend(data)

    def of(self, broker_name: str, topic: str) -> Iterator[Half]:
        """Yield the half messages of a broker for a topic."""
        for half_offset, commit_log_offset, key in _HALF.iter_unpack(self.packed.get((broker_name, topic), b"")):
            yield Half(half_offset, commit_log_offset, key.hex().upper())

    def __len__(self) -> int:
        return sum(map(len, self.packed.values())) // _HALF.size


class _File(msgspec.Struct, array_like=True):
    """A decision in its form on disk."""

    version: int
    halves: list[tuple[str, str, bytes]]


class Decisions:
    """The decisions below a checkpoint, on any filesystem that Arrow knows.

    :param checkpoint: ``checkpointLocation``, a path or a URI.
    """

    def __init__(self, checkpoint: str) -> None:
        # Spark's name for the same store is one letter longer.
        uri = checkpoint.replace("s3a://", "s3://", 1) if checkpoint.startswith("s3a://") else checkpoint
        if ":" in uri.split("/", 1)[0]:
            self._filesystem, path = pafs.FileSystem.from_uri(uri)
        else:
            self._filesystem, path = pafs.LocalFileSystem(), uri
        self._root = f"{path.rstrip('/')}/{FOLDER}"

    def find(self, query: str, batch: int) -> Halves | None:
        """Return the half messages of a batch that count; None if the batch is not decided.

        :raises CheckpointRefused: the file is not one of ours, or has another version.
        """
        path = self._path(query, batch)
        if self._filesystem.get_file_info(path).type is pafs.FileType.NotFound:
            return None
        with self._filesystem.open_input_stream(path) as file:
            data = file.read()
        try:
            found = msgspec.msgpack.decode(data, type=_File)
        except msgspec.MsgspecError as error:
            raise CheckpointRefused(f"{path} is no decision of this sink: {error}") from error
        if found.version != _VERSION:
            raise CheckpointRefused(f"{path} has version {found.version}, this sink knows {_VERSION}")
        return Halves({(broker, topic): bytearray(packed) for broker, topic, packed in found.halves})

    def decide(self, query: str, batch: int, halves: Halves) -> None:
        """Write down which half messages count. The file exists as a whole or not at all."""
        path = self._path(query, batch)
        folder = path.rpartition("/")[0]
        self._filesystem.create_dir(folder, recursive=True)
        data = msgspec.msgpack.encode(
            _File(_VERSION, [(broker, topic, bytes(packed)) for (broker, topic), packed in halves.packed.items()])
        )
        with self._filesystem.open_output_stream(f"{path}.new") as file:
            file.write(data)
        self._filesystem.move(f"{path}.new", path)
        for old in sorted(self._batches(query))[:-KEPT]:
            self._filesystem.delete_file(self._path(query, old))

    def verdict(self, query: str, batch: int, broker_name: str, half_offset: int) -> Verdict:
        """Return the answer to a broker that asks about a half message.

        :param half_offset: the offset at which the half message was stored first.
        """
        halves = self.find(query, batch)
        if halves is None:
            is_over = any(later > batch for later in self._batches(query))
            return Verdict.ROLLBACK if is_over else Verdict.UNKNOWN
        offsets = {
            half.half_offset for name, topic in halves.packed if name == broker_name for half in halves.of(name, topic)
        }
        return Verdict.COMMIT if half_offset in offsets else Verdict.ROLLBACK

    def _batches(self, query: str) -> list[int]:
        selector = pafs.FileSelector(f"{self._root}/{query}", allow_not_found=True)
        return [int(info.base_name) for info in self._filesystem.get_file_info(selector) if info.base_name.isdecimal()]

    def _path(self, query: str, batch: int) -> str:
        return f"{self._root}/{query}/{batch}"
