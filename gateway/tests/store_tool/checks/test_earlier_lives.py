"""Point 7 of "faults found in use": tools and starts see no damage in what a deleted topic leaves, and nothing of it.

Each history is played on a store of the gateway; the directory of Apache RocketMQ is the same one without what only
the gateway writes: its deletions remove the files of the queues and note nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.metadata.topics import topics_in_file
from gateway.store.durability.checkpoint import MARKS_AT
from gateway.store.message_store import MessageStore
from gateway.tests.store.small_store import Clock, bodies, killed, message, opened, put
from gateway.tests.store_tool.small_directory import flip, queue_file, run
from wire.bodies.topics import TopicConfig
from wire.disk.config_json import TopicsFile

HISTORIES = {
    "one of two queues comes back": "o 0 1 x 0",
    "the other queue comes back": "o 0 1 x 1",
    "gone, as the last thing": "o 0 1 1 x",
    "gone, and others go on": "o 0 1 x o o",
    "a shorter second life": "o 0 0 0 1 x 0",
    "a longer second life": "o 0 1 x 0 0 0 1",
    "a second life in another queue": "o 0 0 x 1",
    "made again and empty": "o 0 1 x m o",
    "a third life": "o 0 1 x 0 2 x 1 o",
    "gone for the third time": "o 0 1 x 0 1 x 0 0 1 x o",
    "between other topics": "o 0 o 1 2 x o 2 o 0 o",
}
"""Messages of topic T by their queue, and of another topic (o), T deleted (x) and made again without a message (m)."""
QUEUES = [("T", 0), ("T", 1), ("T", 2), ("Other", 0)]
UNPROVEN = {
    "o 0 1 x 0": {("T", 1): [2]},
    "o 0 0 0 1 x 0": {("T", 1): [4]},
    "o 0 0 x 1": {("T", 0): [1, 2]},
    "o 0 1 x m o": {("T", 0): [1], ("T", 1): [2]},
    "o 0 1 x 0 2 x 1 o": {("T", 0): [4], ("T", 2): [5]},
}
"""The exception: what is seen again by number after Apache's broker was killed. The topic was made again, and no queue
of it that had a message then or later begins at 0 once more: a power failure that took the units looks the same.
"""


Visible = dict[tuple[str, int], list[bytes]]


def _play(store: MessageStore, root: Path, history: str) -> Visible:
    """Play a history; what consumers may see of it."""
    visible: Visible = {name: [] for name in QUEUES}
    topics = {"Other"}
    for number, step in enumerate(history.split()):
        name = ("Other", 0) if step == "o" else ("T", int(step)) if step.isdigit() else None
        if name is not None:
            body = b"message %d" % number
            put(store, message(body, topic=name[0], queue_id=name[1], UNIQ_KEY=f"key {number}"))
            store._queues.write_held()
            visible[name].append(body)
            topics.add(name[0])
        elif step == "m":
            topics.add("T")
        else:
            store.delete_topic("T")
            topics.discard("T")
            visible |= {name: [] for name in QUEUES if name[0] == "T"}
    (root / "config").mkdir(exist_ok=True)
    table = TopicsFile({name: TopicConfig(topic_name=name) for name in topics}).build()
    (root / "config" / "topics.json").write_bytes(table)
    return visible


def _as_apache(root: Path) -> None:
    """Leave what Apache's broker would have written."""
    for path in root.glob("gateway-*"):
        path.unlink()
    shutil.rmtree(root / "deleted")
    checkpoint = (root / "checkpoint").read_bytes()
    (root / "checkpoint").write_bytes(checkpoint[:MARKS_AT].ljust(4096, b"\x00"))


def _made(tmp_path: Path, peer: str, history: str, *, kill: bool = False) -> tuple[Path, Visible]:
    root = tmp_path / "data"
    store = opened(root, clock=Clock())
    visible = _play(store, root, history)
    if kill:
        if peer == "apache":  # it writes units to mapped files, which a kill leaves as they are
            store.flush()
        root = killed(root)
    store.close()
    if peer == "apache":
        _as_apache(root)
    return root, visible


def _served(root: Path) -> Visible:
    store = opened(root, clock=Clock(), topics=lambda: topics_in_file(root / "config" / "topics.json"))
    found = {name: bodies(store, *name) for name in QUEUES}
    ends = {name: put(store, message(b"next", topic=name[0], queue_id=name[1])).queue_offset for name in QUEUES}
    store.close()
    assert ends == {name: len(found[name]) for name in QUEUES}
    return found


def _seen_again(history: str) -> Visible:
    found = UNPROVEN.get(history, {})
    return {name: [b"message %d" % number for number in numbers] for name, numbers in found.items()}


def _verified(root: Path) -> None:
    result = run("verify", root)
    assert result.exit_code == 0, result.output


def _copied(command: str) -> Callable[[Path, Path], Path]:
    def copied(root: Path, tmp_path: Path) -> Path:
        result = run(command, root, tmp_path / command)
        assert result.exit_code == 0, result.output
        return tmp_path / command

    return copied


def _exported_and_imported(root: Path, tmp_path: Path) -> Path:
    return _copied("import")(_copied("export")(root, tmp_path), tmp_path)


def _repaired(root: Path, _tmp_path: Path) -> Path:
    flip(queue_file(root, "Other"), 9)
    result = run("repair", root, "--apply")
    assert result.exit_code == 0, result.output
    return root


def _left_alone(root: Path, _tmp_path: Path) -> Path:
    return root


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES.keys())
@pytest.mark.parametrize("peer", ["ours", "apache"])
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize(
    "tool",
    [_left_alone, _copied("import"), _exported_and_imported, _repaired],
    ids=["serve", "import", "export", "repair"],
)
def test_point_7_no_tool_and_no_start_shows_what_was_deleted(
    tmp_path: Path, history: str, peer: str, tool: Callable[[Path, Path], Path], *, kill: bool
) -> None:
    root, visible = _made(tmp_path, peer, history, kill=kill)
    if kill and peer == "apache":
        visible |= _seen_again(history)
    _verified(root)
    root = tool(root, tmp_path)
    _verified(root)
    assert _served(root) == visible
    _verified(root)


@pytest.mark.parametrize("peer", ["ours", "apache"])
def test_what_was_deleted_is_said_and_dumped_only_on_demand(tmp_path: Path, peer: str) -> None:
    root, _ = _made(tmp_path, peer, "o 1 0 0 x 0", kill=True)
    said = run("verify", root).stdout
    assert ("queue 1 of topic T has no files, and nothing shows that any were lost" in said) == (peer == "apache")
    assert run("dump", root, "--topic", "T").stdout.count('"topic"') == 1


def test_a_queue_that_is_listed_and_has_no_files_is_damage(tmp_path: Path) -> None:
    root, visible = _made(tmp_path, "ours", "o 0 1 x 0 1")
    shutil.rmtree(root / "consumequeue" / "T" / "1")
    assert run("verify", root).exit_code == 1
    assert run("repair", root, "--apply").exit_code == 0
    assert _served(root) == visible


@pytest.mark.parametrize("step", ["moved", "noted"])
def test_a_deletion_that_a_kill_interrupted_is_no_damage(tmp_path: Path, step: str) -> None:
    root, visible = _made(tmp_path, "ours", "o 0 1 x o")
    if step == "moved":
        (root / "gateway-deleted").unlink()
        end = (root / "commitlog" / f"{0:020d}").stat().st_size
        (root / "deleted" / f"1-{end}-T" / "0").mkdir(parents=True)
    _verified(root)
    assert _repaired(root, tmp_path) == root
    assert _served(root) == visible


@pytest.mark.parametrize("tool", [_left_alone, _copied("import"), _repaired], ids=["serve", "import", "repair"])
@pytest.mark.parametrize("history", ["o 1 1 o o", "o 0 2 x 2 1 0 o", "o 0 x 1 0 o", "o 0 2 x 0 2 1 x 1 0 o"])
def test_a_queue_that_the_disk_lost_is_made_again_whatever_was_kept_after_it(
    tmp_path: Path, history: str, tool: Callable[[Path, Path], Path]
) -> None:
    """A power failure took the first units of queue 1. The directory is a copy: its files are younger than all else."""
    root, visible = _made(tmp_path, "apache", history, kill=True)
    shutil.rmtree(root / "consumequeue" / "T" / "1")
    (root / "abort").touch()
    _verified(root)
    assert _served(tool(root, tmp_path)) == visible
