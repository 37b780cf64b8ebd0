"""All errors that the client raises on purpose.

    RocketMQError
    ├── ConfigurationError       a setting or an argument that cannot work; also a ValueError
    ├── MessageRefused           a message that is refused before anything is sent; also a ValueError
    │   └── MessageTooLarge
    ├── ConnectError             no connection to a name server or a broker
    │   └── ConnectionLost       the connection broke before an awaited answer came
    ├── RequestTimeout           no answer within the timeout; also a TimeoutError
    ├── BrokerError              the answer carries a code that is not a success
    │   ├── AclError             the server refuses the caller or the operation
    │   └── NotANameServer       the answer comes from another kind of server than a name server
    ├── RouteNotFound            no broker is known for a topic
    ├── BrokerNotFound           no address is known for a broker
    ├── TooManyRequests          a connection has more unanswered requests than it may have
    ├── ProtocolError            the other side sent bytes that are not RocketMQ's protocol
    ├── NotSent                  stored, but not as safely as asked (a SendStatus other than SEND_OK)
    ├── PartlySent               a batch in several parts, of which some were stored and one was not
    ├── NotCommitted             offsets that a consumer had to commit could not be stored
    ├── ClientClosed             used before start() or after close()
    ├── UsedAfterFork            used in a child process of the process that made the client
    └── UsedOnOtherLoop          a client for asyncio used on another loop than the loop of its start

An error holds its facts in fields; its text names the cause and the remedy. ``retriable``: the same call may work
later. ``outcome_unknown``: the broker may have done what was asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wire.codes import ResponseCode, response_code_name

if TYPE_CHECKING:
    from gateway.client.results import SendResult


class RocketMQError(Exception):
    """The base class of all errors of this package."""

    retriable: bool = False
    """True if the same call may work when it is repeated."""
    outcome_unknown: bool = False
    """True if the other side may have done what was asked, although this error was raised."""


class ConfigurationError(RocketMQError, ValueError):
    """A setting or an argument cannot work.

    :param key: the name of the setting or argument.
    :param value: the given value.
    :param limit: the allowed values, as a phrase that completes "it must be …".
    """

    def __init__(self, key: str, value: object, limit: str) -> None:
        super().__init__(key, value, limit)
        self.key = key
        self.value = value
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.key} is {self.value!r}; it must be {self.limit}"


class MessageRefused(RocketMQError, ValueError):
    """A message breaks a rule of the protocol and was not sent.

    :param part: the part of the message: ``"topic"``, ``"body"``, ``"property 'x'"`` …
    :param problem: the fault of the part, and what is allowed.
    """

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(part, problem)
        self.part = part
        self.problem = problem

    def __str__(self) -> str:
        return f"message refused: {self.part} {self.problem}"


class MessageTooLarge(MessageRefused):
    """A body or the properties exceed their limit.

    :param size_bytes: the length in bytes.
    :param limit_bytes: the allowed length in bytes.
    """

    def __init__(self, part: str, size_bytes: int, limit_bytes: int, fix: str) -> None:
        super().__init__(part, f"takes {size_bytes} bytes, the limit is {limit_bytes}: {fix}")
        self.args = (part, size_bytes, limit_bytes, fix)
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class ConnectError(RocketMQError):
    """No connection to an address.

    :param address: ``host:port``.
    :param cause: the error text of the operating system.
    :param advertised_by: the broker for which a name server gave this address; None for an address of our own settings.
    """

    retriable = True

    def __init__(self, address: str, cause: str, *, advertised_by: str | None = None) -> None:
        super().__init__(address, cause)
        self.address = address
        self.cause = cause
        self.advertised_by = advertised_by

    def __str__(self) -> str:
        text = f"cannot connect to {self.address}: {self.cause}"
        if self.advertised_by is None:
            return f"{text}. Check that it runs and that the setting 'namesrv' names its address"
        return (
            f"{text}. The name server gave this address for broker {self.advertised_by!r}: it is what the broker "
            f"advertises (brokerIP1 and listenPort), which need not be reachable from here. Let the broker listen "
            f"there (bindAddress, --bind of rocketmq-gateway), set its brokerIP1 to an address that clients can reach, "
            f"or map it with the setting 'address_map'"
        )


class ConnectionLost(ConnectError):
    """The connection broke before an awaited answer came. Nobody knows whether the request was carried out."""

    outcome_unknown = True

    def __str__(self) -> str:
        return (
            f"the connection to {self.address} broke before the answer came: {self.cause}. "
            f"The request may have been carried out"
        )


class RequestTimeout(RocketMQError, TimeoutError):
    """No answer came within the timeout.

    :param what: the request, for people: ``"SEND_MESSAGE_V2"``, or a phrase.
    :param address: ``host:port`` of the server that did not answer, or a name for another party.
    :param timeout: the waiting time in seconds.
    :param outcome_unknown: whether the request may have reached the other side.
    """

    retriable = True

    def __init__(self, what: str, address: str, timeout: float, *, outcome_unknown: bool = True) -> None:
        super().__init__(what, address, timeout)
        self.what = what
        self.address = address
        self.timeout = timeout
        self.outcome_unknown = outcome_unknown

    def __str__(self) -> str:
        known = (
            "it may have been carried out, so repeating it may do it twice"
            if self.outcome_unknown
            else "it was not sent"
        )
        return (
            f"{self.what}: no answer from {self.address} within {self.timeout:g} s; {known}. "
            f"The server or the network is slow or down: check it, or give the call a longer timeout"
        )


_FIXES = {
    ResponseCode.SYSTEM_BUSY: "the broker is overloaded: send less or retry later",
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: (
        "this server does not know the request: it is too old for it, or a name server where a broker is meant, or a "
        "broker where a name server is meant"
    ),
    ResponseCode.MESSAGE_ILLEGAL: "compare the message with the broker's maxMessageSize and limits",
    ResponseCode.SERVICE_NOT_AVAILABLE: "the broker is starting, shutting down, out of disk space or a slave",
    ResponseCode.TOPIC_NOT_EXIST: "create the topic (AdminClient.topics.create or mqadmin updateTopic)",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "create the group, or set autoCreateSubscriptionGroup=true",
    ResponseCode.GO_AWAY: "the broker is shutting down: retry",
}


class BrokerError(RocketMQError):
    """A server answered, and the answer is not a success.

    :param code: the response code; its name is ``code_name``.
    :param remark: the text of the answer.
    :param address: ``host:port`` of the server.
    """

    def __init__(self, code: int, remark: str | None, address: str) -> None:
        super().__init__(code, remark, address)
        self.code = code
        self.remark = remark or ""
        self.address = address

    @property
    def code_name(self) -> str:
        """The name of the response code: ``"TOPIC_NOT_EXIST"``, or ``"UNKNOWN_4711"``."""
        return response_code_name(self.code)

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        """True if a stock producer would try another broker after this code."""
        try:
            return ResponseCode(self.code).retriable
        except ValueError:
            return False

    def __str__(self) -> str:
        fix = _FIXES.get(ResponseCode(self.code)) if self.code in _KNOWN_CODES else None
        remark = f": {self.remark}" if self.remark else ""
        return f"{self.address} answered {self.code} {self.code_name}{remark}" + (f" ({fix})" if fix else "")


_KNOWN_CODES = frozenset(int(code) for code in ResponseCode)


class AclError(BrokerError):
    """The server refuses the caller: no key or a wrong key, a wrong signature, or a missing permission.

    The texts of all generations of Apache RocketMQ are understood; what a text does not tell is "".
    """

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        """Always False: the next try uses the same keys."""
        return False

    @property
    def advice(self) -> str:
        """The advice to the reader: keys to check, or a right to ask for."""
        advice, account, resource, _ = self._found
        return advice.format(account=account or "the account", resource=resource or "the resource")

    @property
    def account(self) -> str:
        """The access key or user name that was refused."""
        return self._found[1]

    @property
    def resource(self) -> str:
        """The topic, group or cluster: ``"Topic:orders"``."""
        return self._found[2]

    @property
    def rule(self) -> str:
        """The rule or the lack of one that decided: ``"no matched policies"``."""
        return self._found[3]

    @property
    def _found(self) -> tuple[str, str, str, str]:
        """The advice, and the account, the resource and the rule."""
        for pattern, advice in _ACL_TEXTS:
            match = pattern.search(self.remark)
            if match is not None:
                told = match.groupdict()
                kind, name = told.get("kind") or "", told.get("name") or ""
                resource = f"{kind[:1].upper()}{kind[1:]}:{name}" if name else ""
                return advice, told.get("account") or "", resource, told.get("rule") or ""
        return "Check 'access_key' and 'secret_key', and what this key may do with the topic and the group", "", "", ""

    def __str__(self) -> str:
        return f"{super().__str__()}. {self.advice}. The next try would be refused as well"


# What refusals of Apache RocketMQ say, 5.x (code 16) before 4.x (code 1), with what to do.
_ACL_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"User:(?P<account>\S{1,255}) has no permission to access "
            r"(?P<kind>[A-Za-z]{1,20}):(?P<name>\S{1,255}) from \S{1,60}, (?P<rule>[^.]{1,300})"
        ),
        "Let the server's administrator allow {account} that on {resource} (mqadmin createAcl), or use other keys",
    ),
    (
        re.compile(r"User:(?P<account>\S{1,255}) (?:is )?not found"),
        "The server has no user {account}: see 'access_key', or create it",
    ),
    (re.compile(r"User:(?P<account>\S{1,255}) is disabled"), "The server's administrator can enable {account} again"),
    (
        re.compile(r"(?i:check signature failed)(?: for accessKey=(?P<account>[^\s,]{1,255}))?"),
        "The server knows the account, but not with this 'secret_key' (or 'security_token')",
    ),
    (
        re.compile(r"username cannot be null|No accessKey is configured"),
        "The server asks for keys: set 'access_key' and 'secret_key', or 'credentials_file'",
    ),
    (
        re.compile(r"No acl config for (?P<account>[^\s,]{1,255})"),
        "The server has no account {account}: see 'access_key', or add it",
    ),
    (
        re.compile(
            r"No default permission for (?P<kind>topic|group):(?P<name>[^\s,]{1,255}), "
            r"accessKey=(?P<account>[^\s,]{1,128}) needs [A-Z][A-Za-z]{1,9} and has (?P<rule>[^,]{1,300})"
        ),
        "Let the server's administrator add {resource} to {account} (mqadmin updateAclConfig), or use other keys",
    ),
    (
        re.compile(r"(?P<rule>No default permission) for (?P<kind>topic|group):(?P<name>[^\s,]{1,255})"),
        "Let the server's administrator add {resource} to the account (mqadmin updateAclConfig), or use other keys",
    ),
    (
        re.compile(
            r"(?P<rule>Need admin permission) for request code=\d{1,10}, but accessKey=(?P<account>[^\s,]{1,255})"
        ),
        "Use the keys of an account with admin: true for this call",
    ),
)


class NotANameServer(BrokerError):
    """The setting ``namesrv`` names a server that does not know a request which every name server answers."""

    def __str__(self) -> str:
        return (
            f"{self.address} is not a name server: it does not know what every name server answers, so most likely it "
            f"is a broker. Set 'namesrv' to the name server (port 9876 by default); clients learn the brokers from it"
        )


# Words of Apache RocketMQ's refusals: 4.x AclException, 5.x authentication and authorization. A topic that must not be
# written is refused with NO_PERMISSION as well, in other words.
_ACL_WORDS = re.compile(
    r"aclexception|auth(?:entication|orization)(?:exception| failed| context)|signature|username cannot|accesskey"
    r"|no permission to access|user:\S{1,255} (?:is )?(?:not found|disabled)"
)
_ACL_CODES = frozenset((ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_ERROR))


def broker_error(code: int, remark: str | None, address: str) -> BrokerError:
    """Return the error for an answer: an ``AclError`` if the server's words say that access was refused."""
    if code in _ACL_CODES and _ACL_WORDS.search((remark or "").lower()):
        return AclError(code, remark, address)
    return BrokerError(code, remark, address)


class RouteNotFound(RocketMQError):
    """No name server knows brokers for a topic, or none of the brokers serves this use of the topic.

    :param topic: the topic as the name servers were asked, with its namespace.
    :param name_servers: the name servers that were asked.
    :param reason: the answer of the name servers.
    """

    retriable = True

    def __init__(self, topic: str, name_servers: Sequence[str], reason: str) -> None:
        super().__init__(topic, tuple(name_servers), reason)
        self.topic = topic
        self.name_servers = tuple(name_servers)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"no route for topic {self.topic!r} at {', '.join(self.name_servers)}: {self.reason}. Possible causes: "
            f"the topic does not exist and the broker does not create topics (autoCreateTopicEnable=false): create "
            f"it; no broker has registered at this name server (namesrvAddr of the broker, clusterList shows who "
            f"has); the name is misspelt or the namespace is missing"
        )


class BrokerNotFound(RocketMQError):
    """A broker is in no route that this client knows.

    :param broker_name: the broker's name.
    :param broker_id: 0 for the master.
    """

    retriable = True

    def __init__(self, broker_name: str, broker_id: int) -> None:
        super().__init__(broker_name, broker_id)
        self.broker_name = broker_name
        self.broker_id = broker_id

    def __str__(self) -> str:
        return (
            f"no address is known for broker {self.broker_name!r} with id {self.broker_id} (0 is the master): it is "
            f"down or not registered at the name server. Start it; routes are read again every 30 s"
        )


class TooManyRequests(RocketMQError):
    """A connection has the highest allowed number of unanswered requests; this request was not sent.

    :param address: ``host:port``.
    :param limit: the setting ``max_in_flight_requests``.
    """

    retriable = True

    def __init__(self, address: str, limit: int) -> None:
        super().__init__(address, limit)
        self.address = address
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"{self.address} owes {self.limit} answers: the request was not sent. Send less at a time, or raise "
            f"max_in_flight_requests"
        )


class ProtocolError(RocketMQError):
    """The other side sent bytes that are not RocketMQ's protocol; the connection was closed.

    :param address: ``host:port``.
    :param problem: the fault in the bytes.
    """

    outcome_unknown = True

    def __init__(self, address: str, problem: str) -> None:
        super().__init__(address, problem)
        self.address = address
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"{self.address} does not speak RocketMQ's remoting protocol: {self.problem}. Is this the port of a "
            f"name server (9876) or a broker (10911), and not of a proxy (8081), a dashboard or a TLS listener?"
        )


class NotSent(RocketMQError):
    """The broker took the message, but could not store it as safely as its settings demand.

    The message may be delivered, and it may be lost in a crash. ``accept=`` of the send methods accepts such results.

    :param result: the place of the message.
    """

    retriable = True
    outcome_unknown = True

    def __init__(self, result: SendResult) -> None:
        super().__init__(result)
        self.result = result

    @property
    def status(self) -> str:
        """The name of the status, for example ``"FLUSH_DISK_TIMEOUT"``."""
        return self.result.status.name

    def __str__(self) -> str:
        return (
            f"message {self.result.msg_id} was stored with status {self.status}: the broker did not flush or "
            f"replicate it in time. Send it again (it may then be delivered twice), or pass "
            f"accept={{SendStatus.{self.status}}} when this is safe enough"
        )


class PartlySent(RocketMQError):
    """A batch was sent in several parts, and one part failed; the error of this part is the ``__cause__``.

    :param results: the results of the stored messages: the first messages of the batch, in its order.
    :param total: the number of messages in the batch.
    """

    def __init__(self, results: Sequence[SendResult], total: int) -> None:
        super().__init__(tuple(results), total)
        self.results = tuple(results)
        self.total = total

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        """True if sending the other messages again may work."""
        return isinstance(self.__cause__, RocketMQError) and self.__cause__.retriable

    def __str__(self) -> str:
        return (
            f"{len(self.results)} of {self.total} messages of a batch are stored, then one part failed: "
            f"{self.__cause__}. Send the messages from index {len(self.results)} on again"
        )


class NotCommitted(RocketMQError):
    """Offsets could not be stored. They stay in memory, and the next commit that works stores them.

    :param queues: the queues of the offsets, as text.
    """

    retriable = True

    def __init__(self, queues: Sequence[str]) -> None:
        super().__init__(tuple(queues))
        self.queues = tuple(queues)

    def __str__(self) -> str:
        return (
            f"the offsets of {', '.join(self.queues)} were not stored (the log says why): commit again when the "
            f"broker can be reached; until then a restart delivers these messages once more"
        )


class ClientClosed(RocketMQError):
    """A method was called on a client that is not started or is closed.

    :param what: the client, for people.
    :param reason: the problem, as a phrase that follows the client's name.
    """

    def __init__(self, what: str, reason: str = "is not running") -> None:
        super().__init__(what, reason)
        self.what = what
        self.reason = reason

    def __str__(self) -> str:
        hint = "call start() or use it in a with block, and do not use it after close()"
        return f"{self.what} {self.reason}: {hint}"


class UsedAfterFork(RocketMQError):
    """A client was used in a forked child process, but its sockets and its thread belong to the parent process.

    :param what: the client, for people.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return (
            f"{self.what} was made before a fork and is used in the child: connections and threads do not survive a "
            f"fork. Make and start a client of its own in every worker process (gunicorn: post_fork; "
            f"multiprocessing: in the target function, or use the start method 'spawn')"
        )


class UsedOnOtherLoop(RocketMQError):
    """A client for asyncio was used on another event loop than the loop of its start. Nothing was done.

    :param what: the client, for people.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return (
            f"{self.what} was started on another event loop, and its connections belong to that one: start it and use "
            f"it within one asyncio.run(), reach it from elsewhere with asyncio.run_coroutine_threadsafe(), or take "
            f"the blocking client of gateway.client, which any thread may use"
        )
