"""The takeover: what a broker makes sure of when it becomes the master of a log that it copied, or that was cut.

A slave's tables are copies of its master's, up to a second older than the log or newer. So the log decides:

- A consumer offset beyond the end of its queue becomes that end.
- A delay level goes on at its first message that was not delivered. A delivered message is found by its key.
- The progress of transactions is forgotten, so that the start reads all half messages and outcomes of the log. A state
  store is not asked: it is told everything.

The file ``gateway-copy`` says that a takeover is due. It is on disk before a directory is served as a copy, and removed
after what the takeover changed is on disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from gateway.clock import END_OF_TIME_MS
from gateway.metadata.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TRANSACTION_GROUP
from gateway.metadata.offsets import ConsumerOffsets
from gateway.schedule.delay_service import DelayService
from gateway.schedule.redirect import released, schedule_queue_id
from gateway.settings import Settings
from gateway.store.disk.files import FileLayer
from gateway.store.message_store import MessageStore
from gateway.store.recovery.log_cut import LogCut, cut_log
from gateway.telemetry.logs import EventLog
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage, parse_record

log = EventLog("broker")

FILE_NAME = "gateway-copy"
"""The name of the file. Never change: it is on disk."""
MAX_LOOKED_AT = 100_000
"""The most messages of a delay level that are looked for in each direction."""
READ_BYTES = 1 << 20
KEYED = 64
"""The most messages with one key that are looked at."""


class CopyMark:
    """The file that says that a directory is a copy; blocks."""

    def __init__(self, root: Path, files: FileLayer | None = None) -> None:
        self._root = root
        self._files = FileLayer() if files is None else files
        self._path = root / FILE_NAME

    @property
    def is_set(self) -> bool:
        """True if a takeover is due before the directory is served by a master."""
        return self._files.exists(self._path)

    def set(self) -> None:
        """Note durably that the directory is a copy."""
        if not self.is_set:
            self._files.close(self._files.open(self._path, create=True))
        self._files.fsync_directory(self._root)

    def remove(self) -> None:
        """Note durably that the takeover is done."""
        self._files.unlink(self._path)
        self._files.fsync_directory(self._root)


class DelayedLevels(Protocol):
    """The levels whose messages are delayed; ``DelayLevels`` has them."""

    @property
    def last(self) -> int:
        """The number of the last level."""


def take_over(
    store: MessageStore, offsets: ConsumerOffsets, delays: DelayService, levels: DelayedLevels, *, has_keys: bool
) -> None:
    """Bring consumer offsets, delay levels and the progress of transactions in line with the log; blocks.

    :param has_keys: whether messages are found by their keys; otherwise delay levels stay as they are.
    """
    for topic in (HALF_TOPIC, OP_HALF_TOPIC):
        offsets.remove(TRANSACTION_GROUP, topic)
    lowered = lower_offsets(store, offsets)
    moved: dict[int, tuple[int, int]] = {}
    if has_keys:
        before = delays.offsets()
        for level in range(1, levels.last + 1):
            known = before.get(level, 0)
            found = first_not_delivered(store, schedule_queue_id(level), known)
            if found != known:
                moved[level] = known, found
        delays.resume_from({level: found for level, (_, found) in moved.items()})
    log.warning(
        "took over a copied log",
        log_end=store.stored_end,
        consumer_offsets_lowered=lowered,
        delay_levels_moved=", ".join(f"{level}: {known} to {found}" for level, (known, found) in moved.items()),
    )


def lower_offsets(store: MessageStore, offsets: ConsumerOffsets) -> int:
    """Set consumer offsets that lie beyond the end of their queue to that end; return how many."""
    ends = {(topic, queue_id): store.max_offset(topic, queue_id) for topic, queue_id in store.queues()}
    lowered = 0
    for group, topic in offsets.pairs():
        for queue_id, offset in offsets.of_topic(group, topic).items():
            end = ends.get((topic, queue_id))
            if end is not None and offset > end:
                offsets.keep(group, topic, queue_id, end)
                lowered += 1
    return lowered


def first_not_delivered(store: MessageStore, queue_id: int, known: int) -> int:
    """Return the offset of a delay level's first message that was not delivered.

    :param known: the offset that a table names; deliveries after it may be in the log, or deliveries before it may not.
    """
    low, end = max(store.min_offset(SCHEDULE_TOPIC, queue_id), 0), store.max_offset(SCHEDULE_TOPIC, queue_id)
    start = found = min(max(known, low), end)
    for offset in range(start - 1, max(low, start - MAX_LOOKED_AT) - 1, -1):
        delivered = _is_delivered(store, queue_id, offset)
        if delivered:
            break
        if delivered is False:
            found = offset
    if found < start:
        return found
    while found < min(end, start + MAX_LOOKED_AT) and _is_delivered(store, queue_id, found):
        found += 1
    return found


def _is_delivered(store: MessageStore, queue_id: int, offset: int) -> bool | None:
    """Return whether the message of a delay level is in its real topic; None if it has no key to look for."""
    read = store.get_messages(SCHEDULE_TOPIC, queue_id, offset, 1, READ_BYTES)
    if not read.parts:
        return None
    waiting: StoredMessage = parse_record(b"".join(read.parts))
    key, final = waiting.property_map.get(PropertyName.UNIQ_KEY), released(waiting)
    if not key or final is None:
        return None
    found = store.query_by_key(final.topic, key, KEYED, 0, END_OF_TIME_MS)
    # A message that is sent back again and again keeps its key: only what was stored after it can be its delivery.
    return any(message.commit_log_offset > waiting.commit_log_offset for message in found)


def cut_directory(settings: Settings, offset: int, files: FileLayer | None = None) -> LogCut:
    """Cut the log of a closed directory at the start of a record, and forget what was derived from its end; blocks.

    Timer files and the journal of checks are made again from the log.

    :raises StoreError: the log was not changed.
    """
    layer, root = FileLayer() if files is None else files, settings.store_path_root_dir
    CopyMark(root, layer).set()
    for folder, names in (
        (root / "config", ["timercheck"]),
        (root / "timerlog", layer.list(root / "timerlog")),
        (root, ["timerwheel"]),
        (root / "transaction", ["checks"]),
    ):
        if layer.exists(folder):
            for name in names:
                layer.unlink(folder / name)
            layer.fsync_directory(folder)
    return cut_log(root, offset, settings, layer)
