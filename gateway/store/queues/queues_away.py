"""Queues of deleted topics on their way out.

    deleted/<number>-<log offset>-<topic>    consume queues: the topic's messages below that offset are gone
    deleted/<number>                         their extensions, which tell nothing

A topic's queues are moved there as a whole. The rename is the deletion, and the new name remembers the deletion: if a
crash comes in between, the next start finishes the work. Otherwise that start would show the topic without its
messages, and a later start that rebuilds queues from the log would show the messages again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths, is_topic_name

MAX_NAME_BYTES = 255
"""The longest name that a file system takes.

A topic whose entry would have a longer name is not remembered by the name.
"""


class QueuesAway:
    """The directory ``deleted``. One thread moves queues into the directory, any thread removes them."""

    def __init__(self, files: FileLayer, paths: StorePaths) -> None:
        self._files = files
        self._paths = paths

    def move(self, topic: str, log_end: int) -> list[Path]:
        """Move the consume queues of a topic here, deleted up to an offset of the log; return their new paths, if any.

        :raises OSError: the queues are where they were.
        """
        number = self._free_number()
        name = f"{number}-{log_end}-{topic}"
        if len(os.fsencode(name)) > MAX_NAME_BYTES:
            name = str(number)
        return self._move(self._paths.consume_queue / topic, name)

    def move_extension(self, topic: str) -> list[Path]:
        """Move the extensions of a topic's queues here; return their new paths, if any.

        :raises OSError: the extensions are where they were.
        """
        return self._move(self._paths.consume_queue_extension / topic, str(self._free_number()))

    def _move(self, source: Path, name: str) -> list[Path]:
        if not self._files.exists(source):
            return []
        target = self._paths.deleted / name
        self._files.rename(source, target)
        return [target]

    def _free_number(self) -> int:
        numbers = (path.name.partition("-")[0] for path in self.leftovers())
        return 1 + max((int(number) for number in numbers if number.isdecimal()), default=0)

    def topics(self) -> dict[str, int]:
        """Return the topics whose queues are here, each with the log offset up to which it is deleted."""
        found: dict[str, int] = {}
        for path in self.leftovers():
            _, log_end, topic = [*path.name.split("-", 2), "", ""][:3]
            if log_end.isdecimal() and topic and is_topic_name(topic):
                found[topic] = max(int(log_end), found.get(topic, 0))
        return found

    def leftovers(self) -> list[Path]:
        """Return the paths of everything in the directory."""
        return [self._paths.deleted / name for name in self._files.list(self._paths.deleted)]

    def remove(self, moved: Iterable[Path]) -> None:
        """Remove directories that were moved here; blocks.

        :raises OSError: some of them still exist.
        """
        for topic_directory in moved:
            for queue in self._files.list(topic_directory):
                for name in self._files.list(topic_directory / queue):
                    self._files.unlink(topic_directory / queue / name)
                self._files.remove_directory(topic_directory / queue)
            self._files.remove_directory(topic_directory)
