"""Check that the checkpoint does not promise more than the log has."""

from __future__ import annotations

from gateway.readable import moment_text
from gateway.store.durability.checkpoint import MARKS_AT, UNKNOWN, CheckpointFile, Marks
from gateway.store_tool.checks.findings import Finding, FindingKind, Findings
from gateway.store_tool.files.directory import ReadOnlyFiles, StoreDirectory
from wire.disk.checkpoint import FILE_BYTES, StoreCheckpoint


def read_checkpoint(directory: StoreDirectory) -> tuple[StoreCheckpoint, Marks | None]:
    """Return upstream's times and our marks.

    The times are zeros without a file. The marks are None without a file, or if another broker wrote the file last.
    """
    file = _loaded(directory)
    return (StoreCheckpoint(), None) if file is None else (file.times, file.marks)


def expected_begin(directory: StoreDirectory) -> int:
    """Return where the commit log starts after the gateway's own deletions; below 0 if not known."""
    file = _loaded(directory)
    return UNKNOWN if file is None else file.log_begin


def _loaded(directory: StoreDirectory) -> CheckpointFile | None:
    if not directory.paths.checkpoint.is_file():
        return None
    file = CheckpointFile(ReadOnlyFiles(), directory.paths)
    try:
        file.load()
    finally:
        file.close()
    return file


def check_checkpoint(directory: StoreDirectory, findings: Findings, log_end: int, last_stored_at_ms: int) -> None:
    """Compare the checkpoint with the end of the log and the store time of the last message (0: not known)."""
    path = directory.paths.checkpoint
    if path.exists() and not path.is_file():
        return  # told of as a misfit
    if not path.exists():
        findings.note(f"{path} is missing: the next start walks through the whole log")
        return
    with path.open("rb") as opened:
        data = opened.read(FILE_BYTES)
    size = path.stat().st_size
    if size != FILE_BYTES:
        what = f"has {size} bytes, a checkpoint has {FILE_BYTES}"
        findings.add(Finding(FindingKind.CHECKPOINT, path, what))
    times, marks = read_checkpoint(directory)
    for position, name, value in (
        (0, "the log", times.log_stored_at_ms),
        (8, "the consume queues", times.queues_stored_at_ms),
        (16, "the index", times.index_stored_at_ms),
    ):
        if value < 0 or (last_stored_at_ms and value > last_stored_at_ms):
            last = moment_text(last_stored_at_ms)
            what = f"says {name} is on disk up to {moment_text(value)}, the last message was stored at {last}"
            findings.add(Finding(FindingKind.CHECKPOINT, path, what, position=position))
    if marks is None:
        if data[MARKS_AT:].strip(b"\x00"):
            findings.note(
                f"{path} was written by another broker since the gateway's offsets were, or these are damaged"
            )
        return
    for name, offset in (("durable", marks.durable), ("queues", marks.queues), ("index", marks.index.scanned)):
        if offset > log_end:
            what = f"says {offset} bytes of the log ({name}) are on disk, it ends at {log_end}"
            findings.add(Finding(FindingKind.CHECKPOINT, path, what, position=MARKS_AT))
