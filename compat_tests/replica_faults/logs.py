"""The commit logs of two stores, compared byte by byte."""

from __future__ import annotations

from pathlib import Path

_NAME_DIGITS = 20
_PIECE_BYTES = 1024 * 1024


class LogComparison:
    """Two logs that should be equal; what was equal once is not read again."""

    def __init__(self) -> None:
        self.equal_to = 0
        """The offset up to which the logs were equal when they were compared last."""

    def first_difference(self, one: Path, other: Path, end: int) -> int | None:
        """Return the offset of the first byte before an end that differs; bytes that one of them lacks do."""
        place = max(self.equal_to, log_begin(one), log_begin(other))
        while place < end:
            size = min(_PIECE_BYTES, end - place)
            left, right = _piece(one, place, size), _piece(other, place, size)
            if left != right or not left:
                return place + _equal_bytes(left, right)
            place += len(left)
        self.equal_to = max(self.equal_to, end)
        return None

    def begin_again(self) -> None:
        """Compare from the beginning next time."""
        self.equal_to = 0


def log_begin(store: Path) -> int:
    """The offset of the first byte of the log in a store."""
    files = log_files(store)
    return int(files[0].name) if files else 0


def log_end(store: Path) -> int:
    """The offset after the last byte of the log in a store that is not zero."""
    for file in reversed(log_files(store)):
        content = file.read_bytes().rstrip(b"\0")
        if content:
            return int(file.name) + len(content)
    return 0


def log_files(store: Path) -> list[Path]:
    """The files of the log in a store, oldest first."""
    folder = store / "commitlog"
    if not folder.exists():
        return []
    return sorted(file for file in folder.iterdir() if len(file.name) == _NAME_DIGITS and file.name.isdigit())


def _piece(store: Path, place: int, size: int) -> bytes:
    """Read within one file."""
    for file in reversed(log_files(store)):
        begin = int(file.name)
        if begin <= place:
            with file.open("rb") as opened:
                opened.seek(place - begin)
                return opened.read(size)
    return b""


def _equal_bytes(left: bytes, right: bytes) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(left), len(right)))
