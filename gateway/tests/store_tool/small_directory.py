"""A small store directory with a bit of everything in it, ways to damage it, and the command line."""

from __future__ import annotations

import os
from pathlib import Path

from click.testing import CliRunner, Result

from gateway.cli.main import cli
from gateway.store.message_store import MessageStore
from gateway.tests.store.small_store import Clock, message, opened, put
from wire.bodies.topics import TopicConfig
from wire.disk.config_json import ConsumerOffsetsFile, TopicsFile
from wire.message.record import parse_record

COUNT = 110
TOPICS = ("orders", "stock")


def fill(directory: Path, count: int = COUNT, *, close: bool = True, delays: bool = True) -> MessageStore:
    """Messages of two topics with two queues each, with tags, keys and delays; several files of everything."""
    clock = Clock()
    store = opened(directory, clock=clock, delay_of=lambda level: level * 1000)
    for number in range(count):
        clock.now_ms += 700
        properties = {"UNIQ_KEY": f"7F00000100002A{number:018d}"}
        if number % 2:
            properties["KEYS"] = f"order-{number} customer-{number % 7}"
        if number % 3:
            properties["TAGS"] = ("red", "green")[number % 2]
        topic, queue_id = TOPICS[number % 2], number // 2 % 2
        if delays and number % 10 == 9:
            topic, queue_id = "SCHEDULE_TOPIC_XXXX", 2
            properties |= {"DELAY": "3", "REAL_TOPIC": "orders", "REAL_QID": "0"}
        body = b"body %d " % number * (1 + number % 9)
        outgoing = message(body, topic=topic, queue_id=queue_id, sys_flag=0, **properties)
        assert put(store, outgoing).status.is_stored
    _write_configs(directory)
    store.flush()
    if close:
        store.close()
    return store


def _write_configs(directory: Path) -> None:
    config = directory / "config"
    config.mkdir(exist_ok=True)
    names = (*TOPICS, "SCHEDULE_TOPIC_XXXX")
    topics = TopicsFile({name: TopicConfig(topic_name=name) for name in names}).build()
    offsets = ConsumerOffsetsFile({"orders@g": {0: 5, 1: 7}}).build()
    for name, content in (("topics.json", topics), ("consumerOffset.json", offsets)):
        (config / name).write_bytes(content)
        (config / f"{name}.bak").write_bytes(content)


def run(*arguments: str | Path) -> Result:
    """``rocketmq-gateway store …``."""
    return CliRunner().invoke(cli, ["store", *map(str, arguments)])


def log_file(directory: Path, number: int = 0) -> Path:
    return sorted((directory / "commitlog").iterdir())[number]


def queue_file(directory: Path, topic: str = "orders", queue_id: int = 0, number: int = 0) -> Path:
    return sorted((directory / "consumequeue" / topic / str(queue_id)).iterdir())[number]


def index_file(directory: Path, number: int = 0) -> Path:
    return sorted((directory / "index").iterdir())[number]


def records(directory: Path, number: int = 0) -> list[tuple[int, int]]:
    """(position, size) of the records of a commit log file."""
    data = log_file(directory, number).read_bytes()
    found = []
    position = 0
    while int.from_bytes(data[position + 4 : position + 8], "big") == 0xDAA320A7:
        size = parse_record(data, position).total_size
        found.append((position, size))
        position += size
    return found


def flip(path: Path, position: int, mask: int = 0x01) -> None:
    """Change bits of one byte."""
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes((byte ^ mask,)))


def write(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def tree(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below a directory as far as a command could change it."""
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = Path(folder) / name
            stat = path.stat()
            found[str(path.relative_to(directory))] = (stat.st_size, stat.st_mtime_ns, path.read_bytes())
    return found
