"""The store tool and a start on directories that somebody prepared: they end soon, with a sentence, and stay inside.

Names of a store stand for pipes, sockets, devices, links and giants, folders hold names that no store makes. Which of
all pairs are tried is drawn with a seed; ``HOSTILE_CASES=all`` tries every one.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from types import FrameType

import pytest
from click.testing import Result

from gateway.errors import GatewayError
from gateway.store.disk.files import FileLayer
from gateway.store_tool.files.directory import holder_of
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.store_tool.small_directory import log_file, run
from wire.safe_text import UNSAFE

SEED = 34
CASES = 32
LONGEST_S = 30
"""An honest run on this directory takes 0.1 s; a machine may be busy."""
SECRET = b"secret of somebody else"
GIANT_BYTES = 1 << 42
_RAW = re.compile(f"(?![\n\t])[{UNSAFE}]")

Makes = Callable[[Path, Path], object]
"""Makes what a path stands for; the second path is a folder outside of the store."""


def socket_at(path: Path, _outside: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")  # the path itself may be too long for a socket
    finally:
        os.close(folder)


def hole(path: Path, _outside: Path) -> None:
    path.touch()
    os.truncate(path, GIANT_BYTES)


def giant(path: Path, _outside: Path) -> None:
    path.write_bytes(b'{"a":')
    with path.open("r+b") as file:
        file.seek(GIANT_BYTES)
        file.write(b"}")


KINDS: dict[str, Makes] = {
    "pipe": lambda path, _: os.mkfifo(path),
    "socket": socket_at,
    "link to itself": lambda path, _: path.symlink_to(path.name),
    "link to nothing": lambda path, _: path.symlink_to("/nonexistent/file"),
    "link to zeros": lambda path, _: path.symlink_to("/dev/zero"),
    "link to a folder outside": lambda path, outside: path.symlink_to(outside),
    "link to a file outside": lambda path, outside: path.symlink_to(outside / "file.json"),
    "link to the store": lambda path, _: path.symlink_to(path.parent),
    "folder": lambda path, _: (path / "more").mkdir(parents=True),
    "empty": lambda path, _: path.touch(),
    "noise": lambda path, _: path.write_bytes(random.Random(SEED).randbytes(5_000)),
    "ones": lambda path, _: path.write_bytes(b"\xff" * 4096),
    "hole": hole,
    "giant": giant,
    "nested": lambda path, _: path.write_bytes(b"[" * 100_000 + b"]" * 100_000),
}
NAMES = [
    *("commitlog", "consumequeue", "consumequeue/orders", "consumequeue/orders/0", "index", "config", "timerlog"),
    *("transaction", "deleted", "recovered", "consumequeue_ext", "checkpoint", "abort", "lock", "timerwheel"),
    *("gateway-queues", "gateway-index", "gateway-deleted", "config/timercheck", "config/topics.json"),
    *("config/topics.json.bak", "config/other.json", "config/consumerOffset.json", "config/consumerFilter.json"),
    *("transaction/checks", "transaction/state-store", "transaction/audit.jsonl", "commitlog/FIRST"),
    *("commitlog/00000000000000900000", "commitlog/99999999999999999999", "commitlog/-0000000000000000001"),
    *("consumequeue/orders/0/00000000000000000000", "consumequeue/orders/-1", "consumequeue/orders/99999999999999"),
    *("consumequeue/x\x1b[2J\u202e\n/0/00000000000000000000", "index/20260101000000000", "index/99999999999999999"),
    *("config/\x1b]0;\x07.json", "timerlog/00000000000000000000", "timerlog/99999999999999999999", "\x9bjunk"),
]
FOLLOWED = ("commitlog", "consumequeue")
"""Links there are followed: log and queues may lie on another disk."""
PAIRS = sorted(product(NAMES, KINDS))
DRAWN = PAIRS if os.environ.get("HOSTILE_CASES") == "all" else random.Random(SEED).sample(PAIRS, CASES)
ALWAYS = [
    *(("lock", "pipe"), ("checkpoint", "hole"), ("gateway-deleted", "giant"), ("gateway-queues", "hole")),
    *(("transaction/checks", "hole"), ("config/topics.json", "nested"), ("timerlog", "link to a folder outside")),
    *(("config/other.json", "link to a file outside"), ("commitlog/FIRST", "pipe"), ("index", "link to the store")),
]
"""Those that went wrong once, and their like."""


@contextmanager
def ends_soon() -> Iterator[None]:
    """Fail what hangs, also in a system call."""

    def too_long(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"not done after {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of somebody else."""
    folder = tmp_path / "outside"
    folder.mkdir()
    for name in ("file.json", "00000000000000000000"):
        (folder / name).write_text(f'{{"a": "{SECRET.decode()}"}}')
    return folder


def prepare(directory: Path, outside: Path, name: str, kind: str) -> None:
    """Let a name of the store stand for something else."""
    path = directory / name
    if path.name == "FIRST":
        path = log_file(directory)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    KINDS[kind](path, outside)


def checked(*arguments: str | Path) -> Result:
    """Run a command that must end with a sentence."""
    with ends_soon():
        result = run(*arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit | GatewayError), result.exc_info
    assert result.exit_code in (0, 1, 2)
    assert _RAW.search(result.output) is None, "control characters reach the terminal"
    return result


@pytest.mark.parametrize(("name", "kind"), dict.fromkeys([*ALWAYS, *DRAWN]))
def test_a_start_ends_with_a_sentence_or_serves(directory: Path, outside: Path, name: str, kind: str) -> None:
    prepare(directory, outside, name, kind)
    with ends_soon(), suppress(GatewayError, OSError):  # where it is refused
        WholeBroker(directory).stop()


@pytest.mark.parametrize(("name", "kind"), dict.fromkeys([*ALWAYS, *DRAWN]))
def test_every_command_ends_with_a_sentence(
    directory: Path, outside: Path, tmp_path: Path, name: str, kind: str
) -> None:
    prepare(directory, outside, name, kind)
    checked("inspect", directory)
    checked("verify", directory)
    checked("dump", directory, "--scan")
    checked("export", directory, tmp_path / "copy")
    if (tmp_path / "copy").exists():
        copied = [path for path in (tmp_path / "copy").rglob("*") if path.is_file() and path.stat().st_size < 10_000]
        assert not [path for path in copied if SECRET in path.read_bytes()], "a file of somebody else is copied"
    checked("repair", directory, "--apply")
    if not name.startswith(FOLLOWED):
        assert all(SECRET in path.read_bytes() for path in outside.iterdir()), "a file of somebody else is changed"


NO_DIRECTORY = ("pipe", "socket", "link to itself", "link to zeros", "link to a file outside", "empty")
CHECKED_ON = [
    *((name, kind) for name in ("deleted", "recovered") for kind in NO_DIRECTORY),
    *(("gateway-deleted", kind) for kind in ("pipe", "socket", "link to itself", "link to zeros", "folder")),
    *(("index/20260101000000000", kind) for kind in ("pipe", "link to itself", "link to nothing", "link to zeros")),
    *((name, "link to itself") for name in ("index", "lock", "checkpoint", "config", "config/topics.json", "abort")),
    *((name, "link to itself") for name in ("consumequeue_ext", "transaction", "transaction/checks", "timerwheel")),
]
"""Entries of a wrong kind that are a finding, after which the other parts of the store are checked all the same."""


@pytest.mark.parametrize(("name", "kind"), CHECKED_ON)
def test_an_entry_of_a_wrong_kind_is_a_finding_and_everything_else_is_checked(
    directory: Path, outside: Path, name: str, kind: str
) -> None:
    log = log_file(directory)
    with log.open("r+b") as file:
        file.seek(4)
        file.write(b"\xff" * 8)
    prepare(directory, outside, name, kind)
    result = checked("verify", directory)
    assert result.exit_code == 1, result.output
    told = result.output.splitlines()
    assert [line for line in told if f"{name}: is " in line and "fix: rocketmq-gateway store repair" in line], told
    assert [line for line in told if f"{log.name} byte 0" in line], told
    assert checked("inspect", directory).exit_code == 0
    assert checked("repair", directory, "--apply").exit_code == 0
    assert checked("verify", directory).exit_code == 0


NUMBERED = [
    *("commitlog/09223372036854775808", "commitlog/99999999999999999999", "index/99999999999999999"),
    *("consumequeue/orders/0/99999999999999999999", "consumequeue/orders/0/09223372036854775808"),
    "timerlog/99999999999999999999",
]


@pytest.mark.parametrize("name", NUMBERED)
def test_a_number_in_a_name_that_is_too_large_is_a_finding_and_the_file_is_moved_away(
    directory: Path, outside: Path, name: str
) -> None:
    prepare(directory, outside, name, "ones")
    result = checked("verify", directory)
    assert result.exit_code == 1
    assert [line for line in result.output.splitlines() if name in line and "store repair" in line]
    assert checked("inspect", directory).exit_code == 0
    assert checked("repair", directory, "--apply").exit_code == 0
    assert not (directory / name).exists()
    assert [*directory.glob(f"recovered/repair-*/{name}")]
    assert checked("verify", directory).exit_code == 0
    WholeBroker(directory).stop()


def test_thousands_of_foreign_names_are_passed_over(directory: Path) -> None:
    for folder in ("commitlog", "index", "config", "consumequeue", "consumequeue/orders", "consumequeue/orders/0", "."):
        for number in range(500):
            (directory / folder / f"junk {number}.json.tmp").touch()
    for number in range(500):
        (directory / "consumequeue" / f"topic-{number}" / "0").mkdir(parents=True)
    result = checked("verify", directory)
    assert result.exit_code in (0, 1)
    checked("inspect", directory)


def test_a_pipe_a_folder_and_a_device_are_not_opened_as_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "device", "folder"):
        with ends_soon(), pytest.raises(OSError, match=f"{tmp_path / name}"):
            FileLayer().open(tmp_path / name)


def test_a_pipe_in_place_of_the_lock_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with ends_soon():
        assert holder_of(tmp_path) is None


def test_a_link_out_of_the_directory_is_not_copied(directory: Path, outside: Path, tmp_path: Path) -> None:
    (directory / "config" / "mine.json").symlink_to(outside / "file.json")
    result = checked("export", directory, tmp_path / "copy")
    assert result.exit_code == 2
    assert "mine.json leads out of the directory" in str(result.exception) + result.output
    assert not (tmp_path / "copy").exists()
