"""Planted bugs: each breaks one rule of the store, and must be found within a named number of images.

A rule that no mutant breaks is a rule nobody would miss: the list is the proof that the enumeration can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from librt.strings import BytesWriter

from gateway.metadata.offsets import ConsumerOffsets
from gateway.metadata.saved.json_file import JsonFile
from gateway.schedule.delay_service import DelayService
from gateway.schedule.timer_log import TimerLog, Unwritten
from gateway.schedule.timer_recovery import TimerRecovery
from gateway.schedule.timer_schedule import TimerSchedule
from gateway.store.disk.files import FileLayer
from gateway.store.disk.mapped_file import MappedFile
from gateway.store.disk.mapped_file_queue import MappedFileQueue
from gateway.store.disk.paths import StorePaths
from gateway.store.disk.store_lock import StoreLock
from gateway.store.durability.admitted_log import AdmittedLog
from gateway.store.durability.checkpoint import CheckpointFile
from gateway.store.durability.flushing import Flushing
from gateway.store.durability.publication import Publication
from gateway.store.errors import WriteFailed
from gateway.store.index.index_file import IndexFile
from gateway.store.log.commit_log import CommitLog
from gateway.store.log.log_batch import LogBatch
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutRun
from gateway.store.queues import queue_extension
from gateway.store.queues.consume_queue import ConsumeQueue, QueueState
from gateway.store.queues.consume_queues import ConsumeQueues
from gateway.store.queues.deleted_topics import DeletedTopics
from gateway.store.recovery import log_cut
from gateway.store.recovery.recovery import Recovery
from gateway.tests.crash.disk.recording import Change, Kind, RecordingFiles
from gateway.tests.crash.workload import ROLLING
from gateway.transaction.restart.progress import OutcomeProgress
from gateway.transaction.settling import Settling
from wire.disk import unit_collector
from wire.disk.consume_queue import UNIT_BYTES

Patch = Callable[[object, str, object], None]
"""Sets an attribute until the end of a test, as ``pytest.MonkeyPatch.setattr``."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug.

    :param plant: puts it into the code.
    :param workload: in which it shows.
    :param within: after how many images at most.
    """

    plant: Callable[[Patch], None]
    workload: str
    within: int
    seed: int = 1


def without(kind: Kind, part: str) -> Callable[[Patch], None]:
    """A disk that does not do one thing for paths that contain ``part``, without saying so."""

    def plant(patch: Patch) -> None:
        honest = RecordingFiles.log

        def log(self: RecordingFiles, change: Change) -> None:
            if change.kind is not kind or part not in change.path + "/":
                honest(self, change)

        patch(RecordingFiles, "log", log)

    return plant


def acknowledge_before_sync(patch: Patch) -> None:
    """Readers and senders hear of a batch that is on its way to the disk."""
    honest = CommitLog.sync

    def stored(self: Publication, batch: LogBatch) -> None:
        tell(self, batch)
        honest(self._log, batch)

    tell = Publication.stored
    patch(CommitLog, "sync", lambda self, batch: None)
    patch(Publication, "stored", stored)


def checkpoint_before_log(patch: Patch) -> None:
    """A flush brings the checkpoint to the disk, and then the log that it speaks of."""
    flush, flush_log = Flushing.flush, Flushing._flush_log

    def swapped(self: Flushing, **how: Any) -> bool:
        visible = self._log.visible_end
        patch(Flushing, "_flush_log", lambda self, end: True)
        done = flush(self, **how)
        patch(Flushing, "_flush_log", flush_log)
        return done and flush_log(self, visible)

    patch(Flushing, "flush", swapped)


def durable_mark_before_sync(patch: Patch) -> None:
    """The checkpoint says that a batch is durable when it is only written."""
    write = AdmittedLog.write

    def early(self: AdmittedLog, batch: LogBatch) -> None:
        write(self, batch)
        checkpoint = self.files.checkpoint
        checkpoint.log_is_durable(batch.end, batch.outcomes[-1].stored_at_ms)
        checkpoint._files.fdatasync(checkpoint._fd)

    patch(AdmittedLog, "write", early)


def no_abort_file(patch: Patch) -> None:
    """A killed store looks as if it had been closed."""
    patch(StoreLock, "mark_open", lambda self: None)


def queue_marks_without_queues(patch: Patch) -> None:
    """The checkpoint says that consume queues are on disk, and nobody has brought them there."""
    patch(ConsumeQueues, "sync", lambda self: None)


def extension_written_over(patch: Patch) -> None:
    """A start begins the extension of each queue anew, whatever its units lead to."""
    patch(queue_extension, "last_address", lambda queue: None)


def torn_tail_stays(patch: Patch) -> None:
    """Leave in the file the bytes that recovery cuts off the log."""
    patch(MappedFile, "erase", lambda self, position: None)


def units_beyond_the_log_stay(patch: Patch) -> None:
    """A consume queue that is ahead of the log is not trimmed."""
    patch(ConsumeQueues, "cut", lambda self, commit_log_end: 0)


def recovered_and_not_synced(patch: Patch) -> None:
    """A start answers before what it found in the log is durable."""
    honest = MessageStore._open

    def hasty(self: MessageStore, progress: Any) -> object:
        patch(Flushing, "flush_opened", lambda self: True)
        report = honest(self, progress)
        patch(Flushing, "flush_opened", flush)
        return report

    flush = Flushing.flush_opened
    patch(MessageStore, "_open", hasty)


def rebuild_trusts_the_checkpoint(patch: Patch) -> None:
    """While a queue is built anew the checkpoint still says that it is on disk."""
    patch(CheckpointFile, "distrust_queues", lambda self, offset: None)


def a_queue_missing_in_the_list(patch: Patch) -> None:
    """Leave one of several changed queues out of the journal's line."""
    honest = ConsumeQueues.list_changed

    def forgetful(self: ConsumeQueues, commit_log_end: int) -> None:
        if len(self._unlisted) > 1:
            del self._unlisted[min(self._unlisted, key=lambda queue: (queue.topic, queue.queue_id))]
        honest(self, commit_log_end)

    patch(ConsumeQueues, "list_changed", forgetful)


def queue_listed_with_too_few_units(patch: Patch) -> None:
    """The journal says that a queue ends before its last message."""
    honest = ConsumeQueue.state

    def early(self: ConsumeQueue, commit_log_end: int) -> QueueState:
        end, minimum, *rest = honest(self, commit_log_end)
        return (end - (end > minimum), minimum, *rest)  # type: ignore[return-value]

    patch(ConsumeQueue, "state", early)


def roll_back_with_the_flush(patch: Patch) -> None:
    """An index file that goes back to its mark gets its header on the disk before its slots."""
    patch(IndexFile, "save_roll_back", lambda self: None)


def table_written_in_place(patch: Patch) -> None:
    """A table's file is overwritten, without a copy of the content before."""

    def write(self: JsonFile, content: bytes, sequence: int = 0) -> None:
        self._disk.make_directory(self.path.parent)
        self._disk.write(self.path, content)
        self._disk.fsync_directory(self.path.parent)
        self._disk.fsync_directory(self.path.parent.parent)

    patch(JsonFile, "write", write)


def op_record_before_its_message(patch: Patch) -> None:
    """The op record of a commit lies before the final message, so a torn append may have it alone."""
    honest = Settling._append

    def swapped(self: Settling, batch: list[Any]) -> None:
        append_all = self._store.append_all

        class Swapping:
            def append_all(self, messages: list[Any], on_stored: Callable[[list[Any]], None]) -> None:
                append_all(messages[::-1], lambda results: on_stored(results[::-1]))

        store, self._store = self._store, Swapping()  # type: ignore[assignment]
        honest(self, batch)
        self._store = store

    patch(Settling, "_append", swapped)


def progress_ahead_of_the_disk(patch: Patch) -> None:
    """Transactions note how far they are before the log up to there is durable."""
    honest = OutcomeProgress._write

    def early(self: OutcomeProgress, *, every_step: bool = False) -> None:
        if self._seen is not None:
            base, op_offset, _, recorded, unrecorded = self._seen
            self._seen = base, op_offset, 0, recorded, unrecorded
        honest(self, every_step=every_step)

    patch(OutcomeProgress, "_write", early)


def deletion_not_remembered(patch: Patch) -> None:
    """A topic's queues go, and nothing says that its messages in the log are of a deleted topic."""
    patch(DeletedTopics, "note", lambda self, topic, log_end: None)


def offsets_of_a_deleted_group_stay(patch: Patch) -> None:
    """A group is deleted, and its offsets are forgotten in memory only."""

    def remove_group(self: ConsumerOffsets, group: str) -> Generator[None, None, None]:
        yield from ()
        for key in [key for key in self._table if key.endswith(f"@{group}")]:
            self._shares.give_back(group, len(self._table.pop(key)))

    patch(ConsumerOffsets, "remove_group", remove_group)


def delay_level_ahead_of_its_messages(patch: Patch) -> None:
    """A delay level goes on when its messages are on their way to the log."""
    honest = DelayService._release

    def early(self: DelayService, level: Any, due: list[Any]) -> None:
        honest(self, level, due)
        level.offset = due[-1].queue_offset + 1

    patch(DelayService, "_release", early)


def delay_level_ahead_of_the_disk(patch: Patch) -> None:
    """Save a level's offset with ASYNC_FLUSH before the messages that it let go are on disk."""
    patch(DelayService, "durable_offsets", DelayService.offsets)


def sync_error_ignored(patch: Patch) -> None:
    """A failed sync of the log is taken for a good one."""
    honest = CommitLog.sync

    def blind(self: CommitLog, batch: LogBatch) -> None:
        with suppress(WriteFailed):
            honest(self, batch)

    patch(CommitLog, "sync", blind)


def sync_tried_again(patch: Patch) -> None:
    """After a failed sync the log is synced once more, and that one is believed."""
    honest = CommitLog.sync

    def stubborn(self: CommitLog, batch: LogBatch) -> None:
        try:
            honest(self, batch)
        except WriteFailed:
            honest(self, batch)

    patch(CommitLog, "sync", stubborn)


def write_error_ignored(patch: Patch) -> None:
    """A batch that was written in part is taken for written."""
    honest = AdmittedLog.write

    def blind(self: AdmittedLog, batch: LogBatch) -> None:
        with suppress(WriteFailed):
            honest(self, batch)

    patch(AdmittedLog, "write", blind)


def deliveries_not_looked_for(patch: Patch) -> None:
    """A start does not look which timer messages are delivered already."""
    patch(TimerRecovery, "_stored_already", lambda self: frozenset())


def markers_of_the_past_forgotten(patch: Patch) -> None:
    """A start does not look which of the timer messages whose time is over were taken back."""
    patch(TimerSchedule, "take_back", lambda self, keys: None)


def entries_on_their_way_not_read(patch: Patch) -> None:
    """A second opens with the entries that are in the timer log's files, and without those that wait for one."""
    patch(TimerLog, "unwritten", lambda self: Unwritten(self.written, b""))


def timer_log_synced_again(patch: Patch) -> None:
    """After a sync of the timer log that failed, the next one counts."""
    honest = TimerLog.sync

    def forgetful(self: TimerLog, position: int) -> None:
        try:
            honest(self, position)
        finally:
            self.is_doubtful = False

    patch(TimerLog, "sync", forgetful)


def stored_as_far_as_appended(patch: Patch) -> None:
    """Count bytes on their way to a full disk as the log's end, so that nothing can be stored any more."""
    patch(MessageStore, "stored_end", MessageStore.max_commit_log_offset)


def properties_taken_as_they_are(patch: Patch) -> None:
    """After a power failure a record is whole when its checksum holds, which does not cover its properties."""
    patch(Recovery, "_unsynced_from", lambda self: None)


def light_queues_not_found_in_the_log(patch: Patch) -> None:
    """A start that makes queues anew from the log forgets the light queues that messages are in."""
    patch(unit_collector, "light_places", lambda topic, properties: [])


def a_batch_found_in_the_log_counts_once(patch: Patch) -> None:
    """A start that makes queues anew from the log takes a batch for one message."""
    patch(unit_collector, "inner_offsets", lambda message: range(message.queue_offset, message.queue_offset + 1))


def units_of_a_batch_all_lead_to_its_first_message(patch: Patch) -> None:
    """The units of a batch that was appended in one step are all alike."""
    honest = PutRun.write_units

    def alike(run: PutRun, out: BytesWriter) -> None:
        own = BytesWriter()
        honest(run, own)
        out.write(own.getvalue()[:UNIT_BYTES] * run.count)

    patch(PutRun, "write_units", alike)


def a_cut_is_made_at_once(patch: Patch) -> None:
    """The bytes after a cut are removed, and the note comes after that."""
    note = log_cut._note

    def late(layer: FileLayer, paths: StorePaths, offset: int) -> None:
        files = MappedFileQueue(layer, paths.commit_log, ROLLING.mapped_file_size_commit_log)
        files.load()
        files.remove_after(max(offset - 1, files.min_offset))
        if (file := files.find(offset)) is not None:
            file.erase(offset - file.start_offset)
        note(layer, paths, offset)

    patch(log_cut, "_note", late)


MUTANTS: Mapping[str, Mutant] = {
    "log not synced": Mutant(without(Kind.SYNC, "/commitlog/"), "append", 400),
    "name of a log file not synced": Mutant(without(Kind.SYNC_DIRECTORY, "/commitlog/"), "roll", 400),
    "name of the store not synced": Mutant(without(Kind.SYNC_DIRECTORY, "/data/"), "append", 400),
    "acknowledged before the sync": Mutant(acknowledge_before_sync, "batch", 400),
    "checkpoint before log": Mutant(checkpoint_before_log, "append-async", 400),
    "durable mark before the sync": Mutant(durable_mark_before_sync, "append", 400),
    "no abort file": Mutant(no_abort_file, "roll", 1000),
    "queue marks without queues": Mutant(queue_marks_without_queues, "roll", 1000, seed=3),
    "names of queue files not synced": Mutant(without(Kind.SYNC_DIRECTORY, "/consumequeue/"), "roll", 1000, seed=3),
    "index not synced": Mutant(without(Kind.SYNC, "/index/"), "roll", 1000, seed=3),
    "copied records not synced": Mutant(without(Kind.SYNC, "/commitlog/"), "copy", 400),
    "name of a copied log's first file not synced": Mutant(
        without(Kind.SYNC_DIRECTORY, "/commitlog/"), "copy-late", 400
    ),
    "roll-back of an index with the flush": Mutant(roll_back_with_the_flush, "batch-async", 900, seed=17),
    "properties taken as they are": Mutant(properties_taken_as_they_are, "timer-async", 400),
    "torn tail stays": Mutant(torn_tail_stays, "refill-async", 1000, seed=3),
    "units beyond the log stay": Mutant(units_beyond_the_log_stay, "append-async", 1000),
    "recovered and not synced": Mutant(recovered_and_not_synced, "batch", 1000),
    "rebuild trusts the checkpoint": Mutant(rebuild_trusts_the_checkpoint, "roll-async", 1500, seed=15),
    "a queue missing in the list": Mutant(a_queue_missing_in_the_list, "reopen", 1000),
    "queue listed with too few units": Mutant(queue_listed_with_too_few_units, "retention-async", 1000),
    "table not synced before its rename": Mutant(without(Kind.SYNC, "/config/"), "tables", 400),
    "name of a table not synced": Mutant(without(Kind.SYNC_DIRECTORY, "/config/"), "tables", 400),
    "table written in place": Mutant(table_written_in_place, "tables", 400),
    "op record before its message": Mutant(op_record_before_its_message, "transaction-async", 400, seed=14),
    "progress ahead of the disk": Mutant(progress_ahead_of_the_disk, "transaction-async", 1000, seed=2),
    "deletion not remembered": Mutant(deletion_not_remembered, "deletion", 600, seed=2),
    "name of deleted queues not synced": Mutant(without(Kind.SYNC_DIRECTORY, "/store/"), "deletion", 1000),
    "offsets of a deleted group stay": Mutant(offsets_of_a_deleted_group_stay, "groups", 1000, seed=5),
    "group table not synced": Mutant(without(Kind.SYNC, "/config/subscriptionGroup"), "groups", 1000),
    "delay level ahead of its messages": Mutant(delay_level_ahead_of_its_messages, "delay", 400, seed=4),
    "delay level ahead of the disk": Mutant(delay_level_ahead_of_the_disk, "delay-async", 600, seed=4),
    "timer deliveries not looked for": Mutant(deliveries_not_looked_for, "timer", 400),
    "markers of the past forgotten": Mutant(markers_of_the_past_forgotten, "timer-recall", 1000, seed=5),
    "timer entries on their way not read": Mutant(entries_on_their_way_not_read, "timer-errors", 1000, seed=16),
    "timer log synced again": Mutant(timer_log_synced_again, "timer-errors", 1000, seed=15),
    "stored as far as appended": Mutant(stored_as_far_as_appended, "timer-full", 1000, seed=2),
    "timer log not synced": Mutant(without(Kind.SYNC, "/timerlog/"), "timer", 1000),
    "op record of a discard before its copy": Mutant(op_record_before_its_message, "discard-async", 1000, seed=14),
    "sync error ignored": Mutant(sync_error_ignored, "disk-errors", 600, seed=5),
    "sync tried again": Mutant(sync_tried_again, "disk-errors", 600, seed=5),
    "light queues not found in the log": Mutant(light_queues_not_found_in_the_log, "light", 1000),
    "a batch found in the log counts once": Mutant(a_batch_found_in_the_log_counts_once, "inner-batch", 1000),
    "units of a batch all lead to its first message": Mutant(
        units_of_a_batch_all_lead_to_its_first_message, "run", 1000, seed=18
    ),
    "extension not synced": Mutant(without(Kind.SYNC, "/consumequeue_ext/"), "extension", 1000, seed=12),
    "names of extension files not synced": Mutant(
        without(Kind.SYNC_DIRECTORY, "/consumequeue_ext/"), "extension", 1000, seed=12
    ),
    "extension written over": Mutant(extension_written_over, "extension", 1000, seed=12),
    "note of a cut not synced": Mutant(without(Kind.SYNC, "/gateway-cut.new/"), "cut", 1000),
    "a cut is made at once": Mutant(a_cut_is_made_at_once, "cut", 1000),
    "zeros of a cut not synced": Mutant(without(Kind.SYNC, "/commitlog/"), "cut-copy", 1000),
    "write error ignored": Mutant(write_error_ignored, "disk-errors", 1000),
}
