"""Copy a store directory for Apache RocketMQ, or a directory of Apache RocketMQ for the gateway.

The store files are the same on both sides, and only the files around them may differ. A copy is made beside its final
name and renamed at the end, so that half a copy is never taken for a whole copy. Anything that the other side could not
read is found before the copying starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.errors import GatewayError
from gateway.settings.store import StoreSettings
from gateway.settings.transaction import TransactionStateStore
from gateway.store.disk.files import FileLayer
from gateway.store.disk.paths import StorePaths, is_index_name, parse_offset_name
from gateway.store.queues.deleted_topics import DeletedTopics, QueueName
from gateway.store_tool.checks.checkpoint_check import read_checkpoint
from gateway.store_tool.checks.deletions import noted_deletions
from gateway.store_tool.checks.findings import REPAIR
from gateway.store_tool.checks.verification import Verification
from gateway.store_tool.errors import CannotRun
from gateway.store_tool.files.directory import DiskFile, StoreDirectory, data_end
from gateway.store_tool.files.sparse_copy import copy_sparsely
from gateway.store_tool.progress import Progress
from gateway.transaction.state_stores.remembered import RememberedStore, migrate_command
from wire.disk.consume_queue import UNIT_BYTES

OLD_APACHE = "4.9"
TRANSACTION_DIRECTORY = "transaction"
"""The folder below the store directory with the check journal and the files of state stores."""
_ROCKSDB_MARK = "CURRENT"
_TIMER_TOPIC = "rmq_sys_wheel_timer"
_WHEEL = ("timerwheel",)
_CONFIG_DATABASES = ("topics", "subscriptionGroups", "consumerOffsets", "metadata")


@dataclass(frozen=True, slots=True)
class Transfer:
    """The plan of a copy.

    :param files: what is copied: (source, path below the target).
    :param remarks: remarks about the copy for people.
    :param hidden: deleted queues whose deletion is noted nowhere: the log offset below which their messages are gone.
    """

    files: Sequence[tuple[DiskFile, Path]]
    remarks: Sequence[str]
    hidden: Mapping[QueueName, int]

    @property
    def used_bytes(self) -> int:
        """The disk space that the copy takes, without holes."""
        return sum(file.used_bytes for file, _ in self.files)


def plan_export(verification: Verification, apache: str) -> Transfer:
    """Plan the copy for Apache RocketMQ.

    :param apache: ``4.9`` or ``5``.
    :raises CannotRun: Apache RocketMQ could not read the directory; the text says what and why.
    """
    directory = verification.directory
    _refuse_damage(verification)
    _refuse_other_state_store(directory.root)
    if apache == OLD_APACHE and verification.outline.long_topics:
        raise CannotRun(
            f"{verification.outline.long_topics} messages are of topics longer than 127 bytes; Apache RocketMQ 4.9 and "
            "clients before 5.0 cannot read their records: use --for 5"
        )
    remarks = _settings_remarks(directory)
    if apache == OLD_APACHE and _has_timers(directory):
        remarks.append(f"Apache RocketMQ 4.9 knows no timer messages: it delivers none of topic {_TIMER_TOPIC}")
    if (directory.root / TRANSACTION_DIRECTORY / "checks").exists():
        remarks.append("how often half messages were checked is not taken along: Apache RocketMQ counts anew")
    queues = verification.queues
    return Transfer(tuple(_store_files(directory)), [*remarks, *queues.deletions], queues.hidden)


def plan_import(verification: Verification, *, accept_loss: bool) -> Transfer:
    """Plan the copy of a directory of Apache RocketMQ for the gateway.

    :param accept_loss: go on although some messages would not be delivered; such messages are left behind.
    :raises CannotRun: the gateway could not read the directory.
    """
    directory = verification.directory
    _refuse_damage(verification)
    losses = list(_unsupported(directory))
    if losses and not accept_loss:
        raise CannotRun(f"{directory.root} cannot be taken over: {'; '.join(losses)}; --accept-loss goes on without")
    queues = verification.queues
    remarks = [*(f"left behind: {loss}" for loss in losses), *_settings_remarks(directory), *queues.deletions]
    return Transfer(tuple(_store_files(directory)), remarks, queues.hidden)


def _refuse_damage(verification: Verification) -> None:
    damage = verification.findings.damage
    if damage:
        more = f" and {len(damage) - 1} more findings" if len(damage) > 1 else ""
        raise CannotRun(
            f"{damage[0].path}: {damage[0].what}{more}; a damaged directory is not copied: run {REPAIR} "
            f"{verification.directory.root} first"
        )


def _refuse_other_state_store(root: Path) -> None:
    """Refuse a directory whose outcomes are not in op records.

    Apache RocketMQ finds outcomes in op records alone. Without them, Apache RocketMQ would check settled half messages
    and deliver them again.
    """
    try:
        has = RememberedStore(root / TRANSACTION_DIRECTORY).load()
    except GatewayError as error:
        raise CannotRun(str(error)) from error
    if has.store is not TransactionStateStore.QUEUE:
        command = migrate_command(root, TransactionStateStore.QUEUE, now=has.database)
        raise CannotRun(
            f"{root} keeps its transactions in the state store '{has.store}', which Apache RocketMQ does not know: run "
            f"{command} first"
        )


def _unsupported(directory: StoreDirectory) -> Iterator[str]:
    """Yield what the directory has of Apache RocketMQ 5 that the gateway cannot read."""
    root = directory.root
    for name, what in (
        ("batchconsumequeue", "topics with batch consume queues"),
        ("compaction/compactionLog", "compacted topics"),
    ):
        if _has_files(root / name):
            yield f"{what} ({root / name})"
    for name in _CONFIG_DATABASES:
        if (root / "config" / name / _ROCKSDB_MARK).exists():
            yield f"settings in a RocksDB database ({root / 'config' / name}): export them to JSON files first"


def _has_timers(directory: StoreDirectory) -> bool:
    timers = [folder for (topic, _), folder in directory.queues.items() if topic == _TIMER_TOPIC]
    return any(data_end(file.path, file.size) for folder in timers for file in folder.files)


def _has_files(folder: Path) -> bool:
    return any(files for _, _, files in os.walk(folder))


def _settings_remarks(directory: StoreDirectory) -> list[str]:
    """Return remarks about sizes that the settings of the next server have to name, because no file names them."""
    default, found = StoreSettings(), directory.settings
    lines = []
    if directory.log_files and found.mapped_file_size_commit_log != default.mapped_file_size_commit_log:
        lines.append(f"mappedFileSizeCommitLog={found.mapped_file_size_commit_log}")
    if directory.queues and found.consume_queue_file_bytes != default.consume_queue_file_bytes:
        lines.append(f"mappedFileSizeConsumeQueue={found.consume_queue_file_bytes}")
    if directory.extension_files:
        lines.append("enableConsumeQueueExt=true")
        size = directory.extension_files[0].size
        if size != default.mapped_file_size_consume_queue_ext:
            lines.append(f"mappedFileSizeConsumeQueueExt={size}")
    if directory.index_files:
        for key, value, usual in (
            ("maxHashSlotNum", found.max_hash_slot_num, default.max_hash_slot_num),
            ("maxIndexNum", found.max_index_num, default.max_index_num),
        ):
            if value != usual:
                lines.append(f"{key}={value}")
    return [f"whoever serves it needs the setting {line}" for line in lines]


def _store_files(directory: StoreDirectory) -> Iterator[tuple[DiskFile, Path]]:
    for file in directory.log_files:
        yield file, Path("commitlog") / file.path.name
    for folder in directory.queues.values():
        for file in folder.files:
            if file.size >= UNIT_BYTES and parse_offset_name(file.path.name) is not None:
                yield file, Path("consumequeue") / folder.topic / str(folder.queue_id) / file.path.name
    for file in directory.extension_files:
        yield file, file.path.relative_to(directory.root)
    for file in directory.index_files:
        if is_index_name(file.path.name):
            yield file, Path("index") / file.path.name
    yield from _other_files(directory.root)


def _other_files(root: Path) -> Iterator[tuple[DiskFile, Path]]:
    """Yield the tables and timer files."""
    for folder_name, endings in (("config", (".json", ".json.bak", "timercheck")), ("timerlog", ("",)), (".", _WHEEL)):
        folder_path = root / folder_name
        for path in sorted(folder_path.iterdir()) if folder_path.is_dir() else ():
            if path.is_file() and path.name.endswith(endings):
                _refuse_outside(root, path)
                stat = path.stat()
                yield DiskFile(path, 0, stat.st_size, stat.st_blocks * 512), Path(folder_name) / path.name


def _refuse_outside(root: Path, path: Path) -> None:
    """Refuse a file that a symbolic link brings in, because nothing shows that the file belongs to the store."""
    real = path.resolve()
    if not real.is_relative_to(root.resolve()):
        raise CannotRun(f"{path} leads out of the directory, to {real}: put the file itself there, or remove the link")


def carry_out(transfer: Transfer, directory: StoreDirectory, target: Path, progress: Progress) -> None:
    """Copy everything to ``target``, which must not exist or must be empty.

    :raises CannotRun: the target cannot be used (see ``refuse_target``); nothing was changed there.
    :raises OSError: the copying failed; the files copied so far stay beside the target, under the name
        ``TARGET.partial``.
    """
    partial = target.with_name(target.name + ".partial")
    refuse_target(directory.root, target, transfer.used_bytes)
    files = FileLayer()
    partial.mkdir()
    progress.begin("copying", transfer.used_bytes)
    for file, relative in transfer.files:
        copy = partial / relative
        files.make_directory(copy.parent)
        copy_sparsely(file.path, copy, progress.more)
    _write_marks(directory, StorePaths(partial))
    _write_deletions(directory, StorePaths(partial), transfer.hidden)
    for folder, _, _ in os.walk(partial):
        files.fsync_directory(Path(folder))
    if target.exists():
        target.rmdir()
    files.rename(partial, target)
    files.fsync_directory(target.parent)
    progress.end()


def _write_marks(directory: StoreDirectory, paths: StorePaths) -> None:
    """Write the checkpoint without the offsets of the other directory, and the file ``abort`` if recovery is needed."""
    if directory.paths.checkpoint.exists():
        times, _ = read_checkpoint(directory)
        paths.checkpoint.write_bytes(times.build())
    if directory.killed:
        paths.abort.write_bytes(b"")
        started_ns = directory.paths.abort.stat().st_mtime_ns  # of the server that was killed
        os.utime(paths.abort, ns=(started_ns, started_ns))


def _write_deletions(directory: StoreDirectory, paths: StorePaths, hidden: Mapping[QueueName, int]) -> None:
    """Write the noted deletions for the gateway. Apache RocketMQ ignores this file."""
    found, _ = noted_deletions(directory)
    copy = DeletedTopics(FileLayer(), paths)
    for topic, log_end in found.offsets.items():
        copy.note(topic, log_end)
    for name, log_end in [*found.queues.items(), *hidden.items()]:
        copy.note_queue(*name, log_end)
    copy.save()


def refuse_target(source: Path, target: Path, needed_bytes: int) -> None:
    """Refuse a target in which something could be overwritten, or that has too little space.

    :raises CannotRun: the target is inside the source, is not empty, has no parent directory or too little space, or
        ``TARGET.partial`` is left from an interrupted copy.
    """
    partial = target.with_name(target.name + ".partial")
    if target.resolve().is_relative_to(source.resolve()):
        raise CannotRun(f"{target} lies in {source}; give a directory elsewhere")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CannotRun(f"{target} exists and is not empty; nothing is overwritten: give a new directory")
    if partial.exists():
        raise CannotRun(f"{partial} is left of a copy that was interrupted; remove it")
    if not target.resolve().parent.is_dir():
        raise CannotRun(f"{target.resolve().parent} does not exist; make it first")
    free = FileLayer().disk_space(target.resolve().parent).free_bytes
    if free < needed_bytes:
        raise CannotRun(f"{target} has {free} bytes of space, the copy takes {needed_bytes}")
