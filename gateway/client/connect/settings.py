"""Settings of clients: names and defaults of the Java client in snake case, durations in seconds.

    ProducerSettings(namesrv="mq:9876", send_msg_timeout=5.0)
    ProducerSettings.from_env(retry_times_when_send_failed=0)

Each kind of client has its own class and file, which add to ``ClientSettings``. Values are checked when an object is
made; a field declares its limits with ``limited``. ``ClientSettings`` has one comparison and one ``repr`` for all
classes. Generated methods for each class would take much of the time of importing a client.
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
    "ROCKETMQ_CREDENTIALS_FILE": "credentials_file",
    "ROCKETMQ_NAMESPACE": "namespace",
    "ROCKETMQ_INSTANCE_NAME": "instance_name",
}
TLS: Final = "ROCKETMQ_TLS"
TLS_ENVIRONMENT: Final[Mapping[str, str]] = {
    "ROCKETMQ_TLS_CA_FILE": "ca_file",
    "ROCKETMQ_TLS_CERT_FILE": "cert_file",
    "ROCKETMQ_TLS_KEY_FILE": "key_file",
    "ROCKETMQ_TLS_KEY_PASSWORD": "key_password",
    "ROCKETMQ_TLS_VERIFY": "verify",
}


def limited(
    default: T, *, least: float | None = None, most: float | None = None, choices: Sequence[str] | None = None
) -> T:
    """Return a field with a default and with limits (inclusive) or choices, checked when the object is made."""
    value: T = field(default=default, metadata={_LEAST: least, _MOST: most, _CHOICES: choices})
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Settings of encryption; ``tls=True`` means ``TlsSettings()``.

    :param ca_file: PEM file of the authorities to trust; None: those of the system.
    :param cert_file: PEM file of this client's certificate, if servers ask for a certificate.
    :param key_file: PEM file of the certificate's key; None: the key is in ``cert_file``.
    :param key_password: password of an encrypted key.
    :param verify: False accepts any certificate, as the Java client does by default (``tls.client.authServer``).
    :param check_host_name: True if the certificate must name the host of the connection. False by default, because
        clients mostly reach brokers by IP address.
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_host_name: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ClientSettings:
    """Settings of every client. Each setting, with its range: docs/python-client/reference.md."""

    namesrv: str | Sequence[str] = ()
    """Addresses of name servers: ``"a:9876;b:9876"`` or a sequence of ``"host:port"``."""
    tls: bool | TlsSettings | SSLContext = False
    """The encryption of connections: True, False, ``TlsSettings(…)`` or an ``ssl.SSLContext``."""
    access_key: str | None = None
    """The name of the pair of keys; with ``secret_key``, every request is signed (ACL)."""
    secret_key: str | None = field(default=None, repr=False)
    """The key that signs requests; never sent."""
    security_token: str | None = field(default=None, repr=False)
    """The token that is sent with temporary keys."""
    credentials_file: str | None = None
    """A file with the keys, such as Java's ``~/key``, read when the client starts; not used with ``access_key``."""
    namespace: str = ""
    """The prefix of the names of topics and groups: ``namespace%topic``."""
    instance_name: str = ""
    """The second part of the client id ``ip@instance``; empty: process id and a number, unique in the process."""
    client_ip: str = ""
    """The first part of the client id and of message ids; empty: the address at which others reach this machine."""
    unit_name: str = ""
    """The third part of the client id, if the Java clients of the group have one."""
    address_map: Mapping[str, str] = field(default_factory=dict)
    """``{"172.17.0.2:10911": "localhost:10911"}``: the address to connect to, for an address that a broker advertises.
    """
    heartbeat_broker_interval: float = limited(30.0, least=0.1, most=60.0)
    """Seconds between heartbeats; a broker forgets a client after 120 s without one."""
    poll_name_server_interval: float = limited(30.0, least=0.1, most=3600.0)
    """Seconds between two requests for the routes of all topics in use."""
    persist_consumer_offset_interval: float = limited(5.0, least=0.1, most=3600.0)
    """Seconds between two reports of a push consumer's progress."""
    connect_timeout: float = limited(3.0, least=0.01, most=600.0)
    """The most seconds for making a connection, TLS included."""
    request_timeout: float = limited(3.0, least=0.01, most=600.0)
    """The most seconds for an ordinary request (upstream ``mqClientApiTimeout``)."""
    reconnect_backoff_min: float = limited(0.1, least=0.0, most=60.0)
    """Seconds before the second attempt to connect to an address; doubled for each further attempt, with jitter."""
    reconnect_backoff_max: float = limited(3.0, least=0.0, most=600.0)
    """The most seconds between two attempts to connect."""
    max_in_flight_requests: int = limited(65_535, least=1, most=1_000_000)
    """The most unanswered requests of one connection; more are refused, as the Java client refuses them."""
    max_frame_bytes: int = limited(16_777_216, least=4096, most=16_777_216)
    """The largest answer in bytes; a longer answer closes the connection."""

    def __repr__(self) -> str:
        """Return the settings that differ from the defaults, without secrets."""
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
        """The addresses in ``namesrv``, one by one."""
        given = self.namesrv.replace(",", ";").split(";") if isinstance(self.namesrv, str) else self.namesrv
        return tuple(address.strip().removeprefix("http://") for address in given if address.strip())

    @classmethod
    def from_env(cls, **changes: Any) -> Self:
        """Return settings from the environment (``ENVIRONMENT``), replaced by ``changes`` where given.

        ``NAMESRV_ADDR`` is read as Apache RocketMQ reads it; ``ROCKETMQ_TLS`` takes ``true`` and ``false``, and
        ``ROCKETMQ_TLS_CA_FILE`` and its kin are those of ``TlsSettings``.

        :raises ConfigurationError: a value is not usable.
        """
        values: dict[str, Any] = {}
        for variable, key in ENVIRONMENT.items():
            text = os.environ.get(variable)
            if text:
                values[key] = text
        if "tls" not in changes:
            values["tls"] = tls_of(os.environ)
        return cls(**{**values, **changes})

    @classmethod
    def chosen(cls, settings: Self | None, namesrv: str | Sequence[str] | None) -> Self:
        """Return a client's settings: the given settings, or settings from the environment, with ``namesrv`` if given.

        :raises ConfigurationError: a value is not usable, or the settings are for another kind of client.
        """
        if settings is not None and not isinstance(settings, cls):
            raise ConfigurationError("settings", settings, f"{cls.__name__}(…), or left out; addresses are namesrv=…")
        given = settings if settings is not None else cls.from_env()
        return given if namesrv is None else given.with_changes(namesrv=namesrv)

    def with_changes(self, **changes: Any) -> Self:
        """Return a copy of the settings with some values changed.

        :raises ConfigurationError: a value is not usable.
        """
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class TracedSettings(ClientSettings):
    """Settings that producers and consumers share: the reports of what happens to each message."""

    enable_trace: bool = False
    """True if every message is reported to ``trace_topic``, as with ``enableTrace`` of the Java client."""
    trace_topic: str = "RMQ_SYS_TRACE_TOPIC"
    """The topic in which tools look for traces."""


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


def tls_of(environment: Mapping[str, str]) -> bool | TlsSettings:
    """Return the encryption that the environment asks for; a variable of ``TLS_ENVIRONMENT`` asks for it, too.

    :raises ConfigurationError: a variable is neither true nor false.
    """
    texts: dict[str, Any] = {
        key: environment[variable] for variable, key in TLS_ENVIRONMENT.items() if environment.get(variable)
    }
    wish = environment.get(TLS)
    if wish and not _true_or_false(TLS, wish):
        return False
    if not texts:
        return bool(wish)
    verify = _true_or_false("ROCKETMQ_TLS_VERIFY", texts.pop("verify", "true"))
    return TlsSettings(**texts, verify=verify)


def _true_or_false(variable: str, text: str) -> bool:
    """Return the value of a variable; refuse any other text, which must not switch encryption off unnoticed."""
    if text.lower() not in ("true", "false"):
        raise ConfigurationError(variable, text, "true or false")
    return text.lower() == "true"
