"""Settings of clients: names and defaults of the Java client in snake case, durations in seconds.

    ProducerSettings(namesrv="mq:9876", send_msg_timeout=5.0)
    ProducerSettings.from_env(retry_times_when_send_failed=0)

Each kind of client has a class and a file of its own that add to ``ClientSettings``. Values are checked when an
object is made: a limit is declared with ``limited`` at the field it belongs to. Comparison and ``repr`` are written
once in ``ClientSettings`` and not generated for each class, since that is much of what importing a client costs.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from gateway.client.errors import ConfigurationError

if TYPE_CHECKING:
    from ssl import SSLContext

T = TypeVar("T")

_LEAST: Final = "least"
_MOST: Final = "most"
_CHOICES: Final = "choices"
_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/;]+|[0-9A-Fa-f:.][0-9A-Fa-f.]*+:[0-9A-Fa-f:.]*):(\d{1,5})")

# Environment variable → setting, read by ``from_env``. The first is Apache RocketMQ's own name.
ENVIRONMENT: Final[Mapping[str, str]] = {
    "NAMESRV_ADDR": "namesrv",
    "ROCKETMQ_ACCESS_KEY": "access_key",
    "ROCKETMQ_SECRET_KEY": "secret_key",
    "ROCKETMQ_SECURITY_TOKEN": "security_token",
    "ROCKETMQ_NAMESPACE": "namespace",
    "ROCKETMQ_INSTANCE_NAME": "instance_name",
    "ROCKETMQ_TLS": "tls",
}


def limited(
    default: T, *, least: float | None = None, most: float | None = None, choices: Sequence[str] | None = None
) -> T:
    """A field with a default and limits (inclusive) or choices that are checked when the object is made."""
    value: T = field(default=default, metadata={_LEAST: least, _MOST: most, _CHOICES: choices})
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How connections are encrypted; ``tls=True`` is the same as ``TlsSettings()``.

    :param ca_file: PEM file of the authorities to trust; None: those of the system.
    :param cert_file: PEM file of this client's certificate, when servers ask for one.
    :param key_file: PEM file of its key; None: it is in ``cert_file``.
    :param key_password: of an encrypted key.
    :param verify: False takes any certificate, as the Java client does by default (``tls.client.authServer``).
    :param check_host_name: whether the certificate must name the host connected to; brokers are mostly reached
        by address, so this is off unless asked for.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_host_name: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ClientSettings:
    """What every client needs to know. Each setting, with its range: docs/python-client/reference.md."""

    namesrv: str | Sequence[str] = ()
    """Addresses of name servers: ``"a:9876;b:9876"`` or a sequence of ``"host:port"``."""
    tls: bool | TlsSettings | SSLContext = False
    """Whether and how connections are encrypted."""
    access_key: str | None = None
    """With ``secret_key``: sign every request (ACL)."""
    secret_key: str | None = field(default=None, repr=False)
    """What requests are signed with; it is not sent."""
    security_token: str | None = field(default=None, repr=False)
    """Sent along with temporary keys."""
    namespace: str = ""
    """Put in front of the names of topics and groups: ``namespace%topic``."""
    instance_name: str = ""
    """Second part of the client id ``ip@instance``; empty: process id and a number, unique in the process."""
    client_ip: str = ""
    """First part of the client id and of message ids; empty: the address this machine is reached at."""
    unit_name: str = ""
    """Third part of the client id, where the Java clients of a group have one."""
    address_map: Mapping[str, str] = field(default_factory=dict)
    """``{"172.17.0.2:10911": "localhost:10911"}``: where to connect instead of an address a broker advertises."""
    heartbeat_broker_interval: float = limited(30.0, least=0.1, most=60.0)
    """Seconds between heartbeats; a broker forgets a client after 120 s without one."""
    poll_name_server_interval: float = limited(30.0, least=0.1, most=3600.0)
    """Seconds between looks at the routes of all topics in use."""
    persist_consumer_offset_interval: float = limited(5.0, least=0.1, most=3600.0)
    """Seconds between two reports of a push consumer how far it has consumed."""
    connect_timeout: float = limited(3.0, least=0.01, most=600.0)
    """Seconds a connection may take to be made, TLS included."""
    request_timeout: float = limited(3.0, least=0.01, most=600.0)
    """Seconds an ordinary request may take (upstream ``mqClientApiTimeout``)."""
    reconnect_backoff_min: float = limited(0.1, least=0.0, most=60.0)
    """Seconds before the second attempt to connect to an address; doubled for each further one, with jitter."""
    reconnect_backoff_max: float = limited(3.0, least=0.0, most=600.0)
    """Most seconds between two attempts."""
    max_in_flight_requests: int = limited(65_535, least=1, most=1_000_000)
    """Unanswered requests of one connection; more are refused, as the Java client refuses them."""
    max_frame_bytes: int = limited(16_777_216, least=4096, most=16_777_216)
    """Largest answer taken; a longer one closes the connection."""

    def __repr__(self) -> str:
        """What differs from the defaults, secrets left out."""
        told = (entry for entry in dataclasses.fields(self) if entry.repr)
        given = ((entry, getattr(self, entry.name)) for entry in told)
        texts = (f"{entry.name}={value!r}" for entry, value in given if value != _default_of(entry))
        return f"{type(self).__name__}({', '.join(texts)})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, entry.name) == getattr(other, entry.name) for entry in dataclasses.fields(self))

    __hash__ = None  # type: ignore[assignment]  # an address map cannot be hashed

    def __post_init__(self) -> None:
        for entry in dataclasses.fields(self):
            _check(entry, getattr(self, entry.name))
        for address in self.name_servers:
            _check_address("namesrv", address)
        if (self.access_key is None) != (self.secret_key is None):
            raise ConfigurationError("access_key", self.access_key, "given together with secret_key, or neither")
        for address in self.address_map.values():
            _check_address("address_map", address)

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses of ``namesrv`` one by one."""
        given = self.namesrv.replace(",", ";").split(";") if isinstance(self.namesrv, str) else self.namesrv
        return tuple(address.strip().removeprefix("http://") for address in given if address.strip())

    @classmethod
    def from_env(cls, **changes: Any) -> Self:
        """Settings from the environment (``ENVIRONMENT``), with ``changes`` on top.

        ``NAMESRV_ADDR`` is read as Apache RocketMQ reads it; ``ROCKETMQ_TLS`` takes ``true`` and ``false``.

        :raises ConfigurationError: a value cannot work.
        """
        values: dict[str, Any] = {}
        for variable, key in ENVIRONMENT.items():
            text = os.environ.get(variable)
            if text:
                values[key] = _true_or_false(variable, text) if key == "tls" else text
        return cls(**{**values, **changes})

    @classmethod
    def chosen(cls, settings: Self | None, namesrv: str | Sequence[str] | None) -> Self:
        """What a client is given: its settings or else those of the environment, with ``namesrv`` on top.

        :raises ConfigurationError: a value cannot work, or the settings are no settings of such a client.
        """
        if settings is not None and not isinstance(settings, cls):
            raise ConfigurationError("settings", settings, f"{cls.__name__}(…), or left out; addresses are namesrv=…")
        given = settings if settings is not None else cls.from_env()
        return given if namesrv is None else given.with_changes(namesrv=namesrv)

    def with_changes(self, **changes: Any) -> Self:
        """The same settings with some changed.

        :raises ConfigurationError: a value cannot work.
        """
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TracedSettings(ClientSettings):
    """What producers and consumers have in common: whether they tell what becomes of each message."""

    enable_trace: bool = False
    """Whether every message is reported to ``trace_topic``, as ``enableTrace`` of the Java client."""
    trace_topic: str = "RMQ_SYS_TRACE_TOPIC"
    """Where tools look for traces."""


def _default_of(entry: dataclasses.Field[Any]) -> Any:
    return entry.default if entry.default_factory is dataclasses.MISSING else entry.default_factory()


def _check(entry: dataclasses.Field[Any], value: Any) -> None:
    least = entry.metadata.get(_LEAST)
    most = entry.metadata.get(_MOST)
    choices = entry.metadata.get(_CHOICES)
    if choices is not None:
        if value not in choices:
            raise ConfigurationError(entry.name, value, "one of " + ", ".join(choices))
        return
    if least is None and most is None:
        return
    allowed = _limit_text(least, most, whole=isinstance(entry.default, int))
    if isinstance(value, bool) or not isinstance(value, int if isinstance(entry.default, int) else (int, float)):
        raise ConfigurationError(entry.name, value, allowed)
    if value != value or (least is not None and value < least) or (most is not None and value > most):
        raise ConfigurationError(entry.name, value, allowed)


def _limit_text(least: float | None, most: float | None, *, whole: bool) -> str:
    kind = "a whole number" if whole else "a number"
    if least is not None and most is not None:
        return f"{kind} from {least} to {most}"
    return f"{kind} of at least {least}" if least is not None else f"{kind} of at most {most}"


def _check_address(key: str, address: str) -> None:
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match[2]) < 65_536:
        raise ConfigurationError(key, address, "addresses like 'host:9876', separated by ';'")


def _true_or_false(variable: str, text: str) -> bool:
    """Anything else is refused: it must not switch encryption off unnoticed."""
    if text.lower() not in ("true", "false"):
        raise ConfigurationError(variable, text, "true or false")
    return text.lower() == "true"
