"""The brokers of ``serve --brokers N``: the name, the directory and the ports of each.

Apache RocketMQ's operators write one ``broker.conf`` for each broker. Here one set of settings is enough: the brokers
are called NAME-0, NAME-1, … and keep their files in broker-0, broker-1, … of the data directory.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gateway.cli.serving.kept_name import KEY, goes_on_as
from gateway.errors import SettingsError
from gateway.metadata.saved.broker_name import FILE_NAME, kept_name
from gateway.settings import Address, Settings
from gateway.settings.declare import Mark, text_of
from gateway.settings.files.load import DEFAULT, Loaded

PORT_DISTANCE = 10
"""The distance between the ports of two brokers.

A broker also has listenPort - 2, and tools expect that listenPort + 1 belongs to the broker.
"""
MAX_PORT = 65_535
CHUNK_BYTES = 1 << 20
"""The bytes that are read at once when a commit log file is searched for data.

The file may be a gigabyte, nearly all of it never written.
"""
PREFIX = "broker-"
"""The prefix of the brokers' directories, followed by their numbers. The names are on disk: never change the prefix."""
NOT_SHARED = {"storePathCommitLog": "", "gateway.transactionDatabase": "sqlite:"}
"""Settings that may name one broker's files, each with the beginning of such a value."""


class BrokerMember(NamedTuple):
    """One broker; ``settings`` are keys and texts as ``--set`` takes them, ``remark`` is for the operator.

    ``secrets`` are variables of the environment: every user of the machine can read arguments.
    """

    name: str
    settings: tuple[tuple[str, str], ...]
    remark: str | None = None
    secrets: Mapping[str, str] = {}

    def arguments(self, name_servers: Sequence[Address], port: int | None) -> list[str]:
        """Return the arguments of ``rocketmq-gateway`` that run the broker.

        :param port: the port on which the broker listened before, None at its first start.
        """
        entries = [*self.settings, ("namesrvAddr", ";".join(map(str, name_servers)))]
        if port is not None:
            entries.append(("listenPort", str(port)))
        return ["broker", "--supervised", *(text for key, value in entries for text in ("--set", f"{key}={value}"))]


def members(loaded: Loaded, count: int) -> list[BrokerMember]:
    """Return the brokers in the order of their ports.

    :raises SettingsError: a setting cannot be shared, the ports do not suffice, or two brokers would have the same
        name.
    :raises GatewayError: the name in a directory cannot be read.
    """
    settings = loaded.settings
    for key, begin in NOT_SHARED.items():
        value = next(text_of(value) for declaration, value, _ in loaded.rows() if declaration.key == key)
        if value and value.startswith(begin):
            raise SettingsError(
                f"{key} ({loaded.sources.get(key, DEFAULT)}): {count} brokers cannot share {value}; leave it out, so "
                "that each keeps its files in a directory of its own, or start each with the command broker"
            )
    if settings.ha_listen_port > 0:
        raise SettingsError(
            f"haListenPort ({loaded.sources.get('haListenPort', DEFAULT)}): {count} brokers cannot share the port "
            f"{settings.ha_listen_port}; with haListenPort=0 each listens for slaves at its listenPort+1"
        )
    if settings.is_guarded and not settings.inner_client_authentication_credentials:
        raise SettingsError(
            f"{count} brokers register with the name server over its port, which is guarded: set "
            'innerClientAuthenticationCredentials={"accessKey": "...", "secretKey": "..."} of an administrator'
        )
    told = [(declared, text_of(value)) for declared, value, source in loaded.rows() if source != DEFAULT]
    secrets = {declared.environment: text for declared, text in told if Mark.SECRET in declared.marks}
    open_ = tuple((declared.key, text) for declared, text in told if Mark.SECRET not in declared.marks)
    return [
        BrokerMember(name, (*open_, *_own(settings, index, name)), remark, secrets)
        for index, (name, remark) in enumerate(_names(loaded, count))
    ]


def _names(loaded: Loaded, count: int) -> Iterator[tuple[str, str | None]]:
    """Yield the name of each broker, and a remark for the operator or None.

    A directory keeps the name that it has, unless somebody set ``brokerName``.
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
    """Check that the data directory has no messages of another number of brokers, which nobody would serve.

    :raises SettingsError: there are such messages; the text says what to do.
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
    """Return the directory of a broker's files."""
    return root / f"{PREFIX}{index}"


def _is_number(text: str) -> bool:
    """Return whether a text is a number as in a directory's name: no broker has 01."""
    return text.isascii() and text.isdecimal() and text == str(int(text))


def _holds_messages(store: Path) -> bool:
    try:
        return any(_has_data(path) for path in (store / "commitlog").iterdir())
    except FileNotFoundError:
        return False
    except OSError:  # who is to serve it will say more
        return True


def _has_data(path: Path) -> bool:
    """Return whether a file has a byte other than zero anywhere: the beginning of a damaged file may be lost."""
    with path.open("rb") as file:
        return any(chunk.strip(b"\0") for chunk in _written(file.fileno()))


def _written(fd: int) -> Iterator[bytes]:
    """Yield the bytes of a file without its holes, to which nobody has written."""
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
    if settings.authentication_enabled:
        own.append(("gateway.accessFile", str(settings.access_json)))
    if settings.audit_file:  # each process renames its own when it is full
        log = settings.audit_log
        own.append(("gateway.auditFile", str(log.parent / f"{log.stem}-{index}{log.suffix}")))
    advertised = settings.advertised
    if advertised.host is not None and advertised.port is not None:
        port = int(_port(advertised.port, index, "gateway.advertise"))
        own.append(("gateway.advertise", str(Address(advertised.host, port))))
    return own


def _port(first: int, index: int, key: str) -> str:
    """Return the port of one broker; 0 stays 0, which means any free port."""
    port = first + PORT_DISTANCE * index if first else 0
    if port > MAX_PORT:
        raise SettingsError(
            f"{key}={first}: broker {index} would need port {port}; brokers are {PORT_DISTANCE} ports apart, and the "
            f"last port is {MAX_PORT}"
        )
    return str(port)
