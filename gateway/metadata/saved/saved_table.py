"""A table that is also a JSON file of the data directory: the common part of topics, groups, offsets and other tables.

The table in memory counts, and the file follows it (``WriteBehind``). Each kind of table knows the content of its file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from gateway.in_thread import InThread, in_this_thread
from gateway.metadata.saved.config_disk import ConfigDisk
from gateway.metadata.saved.json_file import JsonFile
from gateway.metadata.saved.write_behind import Saved, WriteBehind
from wire.bodies.declare import JsonObject
from wire.bodies.fastjson import PreparedText, prepared_text
from wire.bodies.topics import DataVersion

Content = TypeVar("Content")


class SavedTable(ABC, Generic[Content]):
    """A table with its file.

    :param path: the file.
    :param parse: parses the file's content; raises a kind of ``wire.errors.RemoteError`` for content it cannot read.
    :param in_thread: runs the writes; the default writes at once, for tools and tests.
    """

    def __init__(
        self,
        path: Path,
        parse: Callable[[bytes], Content],
        in_thread: InThread = in_this_thread,
        disk: ConfigDisk | None = None,
    ) -> None:
        self.path = path
        self._parse = parse
        self._file = JsonFile(path, disk)
        self._writer = WriteBehind(self._file, self._frozen, in_thread)

    def load(self) -> None:
        """Read the file; blocks, so call this only before the broker serves.

        :raises GatewayError: there is a file, but neither the file nor its backup can be read.
        """
        content = self._file.load(self._parse)
        if content is not None:
            self._restore(content)

    @property
    def dirty(self) -> bool:
        """True if a change is not on its way to the file: it waits for ``persist``, or an earlier write failed."""
        return self._writer.dirty

    @property
    def unsaved_reason(self) -> str | None:
        """The reason why changes do not reach the file now; None while they do, as far as is known."""
        return self._writer.failure

    @property
    def file_bytes(self) -> int:
        """The bytes that the file takes when it is written again."""
        return self._file.size

    def snapshot(self) -> bytes:
        """Return the table as content of its file."""
        return self._frozen()()

    def persist(self, saved: Saved | None = None) -> None:
        """Write all unwritten changes; ``saved`` is called when everything up to now is on disk, or with the error."""
        self._writer.save(saved)

    def persist_now(self) -> None:
        """Write all unwritten changes and wait for the write: for the end of the process.

        :raises OSError: the change is not on disk.
        """
        self._writer.save_now()

    @abstractmethod
    def _restore(self, content: Content) -> None:
        """Take over the content of the file."""

    @abstractmethod
    def _frozen(self) -> Callable[[], bytes]:
        """Return a function that makes the file's content from a copy of the table, in any thread."""


def next_version(version: DataVersion, now_ms: int) -> DataVersion:
    """Return the version after one more change, made now; ``state_version`` belongs to the controller and stays."""
    return DataVersion(counter=version.counter + 1, timestamp=now_ms, state_version=version.state_version)


FILE_DEPTH = 2
"""The depth of the parts in a file: they are inside a table inside an object."""


class KnownTexts:
    """The JSON texts of a table's parts as of the last call: few of ten thousand topics change between two saves.

    A part never changes: a change of the table replaces the part with another object. For one thread at a time.

    :param depth: the same as in ``prepared_text``.
    """

    def __init__(self, depth: int | None) -> None:
        self._depth = depth
        self._known: dict[str, tuple[object, PreparedText]] = {}

    def of(self, parts: Mapping[str, JsonObject] | Mapping[str, Mapping[int, int]]) -> Mapping[str, Any]:
        """Return the texts that stand for the parts in a body or file."""
        known, fresh = self._known, {}
        for name, part in parts.items():
            found = known.get(name)
            if found is None or found[0] is not part:
                value = part.to_json() if isinstance(part, JsonObject) else part
                found = part, prepared_text(value, depth=self._depth)
            fresh[name] = found
        self._known = fresh
        return {name: text for name, (_, text) in fresh.items()}
