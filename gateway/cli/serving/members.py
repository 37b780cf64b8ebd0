"""The brokers of ``serve --brokers N``: the name, the directory and the ports of each.

What Apache RocketMQ's operators write into one ``broker.conf`` a broker is derived here from one set of settings: the
brokers are called NAME-0, NAME-1, … and keep their files in broker-0, broker-1, … of the data directory.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gateway.cli.serving.kept_name import KEY, goes_on_as
from gateway.errors import SettingsError
from gateway.metadata.saved.broker_name import FILE_NAME, kept_name
from gateway.settings import Address, Settings
from gateway.settings.declare import text_of
from gateway.settings.files.load import DEFAULT, Loaded

PORT_DISTANCE = 10
"""Between the ports of two brokers: a broker has listenPort - 2, too, and tools expect listenPort + 1 to be its own."""
MAX_PORT = 65_535
CHUNK_BYTES = 1 << 20
"""Of a commit log's file, which is looked through: it may be a gigabyte, nearly all of it never written."""
PREFIX = "broker-"
"""What the directories of the brokers are called, with their numbers. Never change: it is on disk."""
NOT_SHARED = {"storePathCommitLog": "", "gateway.transactionDatabase": "sqlite:"}
"""Settings that name one broker's files, and how a value begins that does."""


class BrokerMember(NamedTuple):
    """One broker; ``settings`` are keys and texts as ``--set`` takes them, ``remark`` is for the operator."""

    name: str
    settings: tuple[tuple[str, str], ...]
    remark: str | None = None

    def arguments(self, name_servers: Sequence[Address], port: int | None) -> list[str]:
        """What follows ``rocketmq-gateway`` to run it; ``port`` when it is to listen where it did before."""
        entries = [*self.settings, ("namesrvAddr", ";".join(map(str, name_servers)))]
        if port is not None:
            entries.append(("listenPort", str(port)))
        return ["broker", "--supervised", *(text for key, value in entries for text in ("--set", f"{key}={value}"))]


def members(loaded: Loaded, count: int) -> list[BrokerMember]:
    """The brokers in order of their ports.

    :raises ConfigurationError: a setting cannot be shared, the ports do not suffice, or two brokers would have the same
        name.
    :raises GatewayError: a directory's name cannot be read.
    """
    settings = loaded.settings
    for key, begin in NOT_SHARED.items():
        value = next(text_of(value) for declaration, value, _ in loaded.rows() if declaration.key == key)
        if value and value.startswith(begin):
            raise SettingsError(
                f"{key} ({loaded.sources.get(key, DEFAULT)}): {count} brokers cannot share {value}; leave it out, so "
                "that each keeps its files in a directory of its own, or start each with the command broker"
            )
    told = [(declaration.key, text_of(value)) for declaration, value, source in loaded.rows() if source != DEFAULT]
    return [
        BrokerMember(name, (*told, *_own(settings, index, name)), remark)
        for index, (name, remark) in enumerate(_names(loaded, count))
    ]


def _names(loaded: Loaded, count: int) -> Iterator[tuple[str, str | None]]:
    """Yield the names of the brokers, and what to tell the operator of each.

    A directory goes on under the name that it has; a name that somebody set wins.
    """
    found: dict[str, Path] = {}
    for index in range(count):
        root = directory(loaded.settings.store_path_root_dir, index)
        name = f"{loaded.settings.broker_name}-{index}"
        kept = None if KEY in loaded.sources else kept_name(root)
        remark = None
        if kept is not None and kept.name != name:
            remark = goes_on_as(kept, name)
            name = kept.name
        if name in found:
            raise SettingsError(
                f"{found[name]} and {root} would both be called {name}: write another name into the file {FILE_NAME} "
                "of one of them, of the copy if it is one"
            )
        found[name] = root
        yield name, remark


def check_directory(root: Path, count: int) -> None:
    """See that the data directory holds no messages of another number of brokers, which nobody would serve.

    :raises ConfigurationError: it was; the text says what to do.
    """
    if count > 1 and (root / "commitlog").exists():
        raise SettingsError(
            f"{root} holds the store of a single broker: move what is in it to {directory(root, 0)} to go on with it "
            f"as the first of {count} brokers, or leave --brokers out"
        )
    kept = [
        int(path.name.removeprefix(PREFIX))
        for path in root.glob(f"{PREFIX}*")
        if _is_number(path.name.removeprefix(PREFIX)) and _holds_messages(path)
    ]
    if kept and (count == 1 or max(kept) >= count):
        last = directory(root, max(kept))
        if max(kept) == 0:
            how = f"move what is in it to {root} to go on with it as a single broker, or start with --brokers 2"
        else:
            how = f"start with --brokers {max(kept) + 1}, or move that directory away"
        raise SettingsError(f"{last} holds messages that would not be served: {how}")


def directory(root: Path, index: int) -> Path:
    """Where a broker keeps its files."""
    return root / f"{PREFIX}{index}"


def _is_number(text: str) -> bool:
    """As a directory's name has it: 01 is nobody's."""
    return text.isascii() and text.isdecimal() and text == str(int(text))


def _holds_messages(store: Path) -> bool:
    try:
        return any(_has_data(path) for path in (store / "commitlog").iterdir())
    except FileNotFoundError:
        return False
    except OSError:  # who is to serve it will say more
        return True


def _has_data(path: Path) -> bool:
    """Whether anything but zeros is in a file, wherever: the begin of a damaged one may be gone."""
    with path.open("rb") as file:
        return any(chunk.strip(b"\0") for chunk in _written(file.fileno()))


def _written(fd: int) -> Iterator[bytes]:
    """A file without its holes, which nobody has written to."""
    place = 0
    while True:
        try:
            place = os.lseek(fd, place, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing follows
                return
            raise
        chunk = os.pread(fd, CHUNK_BYTES, place)
        yield chunk
        place += len(chunk)


def _own(settings: Settings, index: int, name: str) -> list[tuple[str, str]]:
    own = [
        (KEY, name),
        ("storePathRootDir", str(directory(settings.store_path_root_dir, index))),
        ("listenPort", _port(settings.listen_port, index, "listenPort")),
        ("metricsPromExporterPort", _port(settings.metrics_prom_exporter_port, index, "metricsPromExporterPort")),
    ]
    advertised = settings.advertised
    if advertised.host is not None and advertised.port is not None:
        port = int(_port(advertised.port, index, "gateway.advertise"))
        own.append(("gateway.advertise", str(Address(advertised.host, port))))
    return own


def _port(first: int, index: int, key: str) -> str:
    """The port of one broker; 0 stays 0, which is any free one."""
    port = first + PORT_DISTANCE * index if first else 0
    if port > MAX_PORT:
        raise SettingsError(
            f"{key}={first}: broker {index} would need port {port}; brokers are {PORT_DISTANCE} ports apart, and the "
            f"last port is {MAX_PORT}"
        )
    return str(port)
