"""Requests made of the declarations of headers and bodies: whole ones, and ones with something wrong."""

from __future__ import annotations

import re
import types
import typing
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from gateway.tests.fuzz.requests import names
from wire.bodies.access import AclInfo, UserInfo
from wire.bodies.consumers import CheckClientRequest
from wire.bodies.declare import JsonObject, Members
from wire.bodies.heartbeat import HeartbeatData
from wire.bodies.lite import LiteSubscriptionChanges
from wire.bodies.message_queue import LockBatchRequest, UnlockBatchRequest
from wire.bodies.pop import BatchAckMessage, MessageRequestMode, QueryAssignmentRequest
from wire.bodies.registration import TopicsAndMappings
from wire.bodies.route import TopicRouteData
from wire.bodies.subscriptions import SubscriptionGroupConfig, SubscriptionGroupList
from wire.bodies.topics import CreateTopicList, DataVersion
from wire.codes import RequestCode as Code
from wire.message.batch import build_part
from wire.tests.headers.registry import REQUEST_HEADERS

_HEADERS: Final[Mapping[int, type[msgspec.Struct]]] = {int(code): header for code, header in REQUEST_HEADERS.items()}
PAGE: Final = Path(__file__).parents[4] / "docs" / "request-codes.md"
_ROW: Final = re.compile(r"^\| (\d+) \| \w+ \| (\S+) \| (\S+) \|", re.MULTILINE)


class Server(StrEnum):
    """The server that is asked."""

    BROKER = "broker"
    NAME_SERVER = "nameserver"


@dataclass(slots=True)
class Asked:
    """One request before it becomes bytes.

    :param fields: names and values of the header, in order; a name may come twice, a value may be of any JSON type.
    """

    server: Server
    code: int
    fields: list[tuple[str, Any]] = field(default_factory=list)
    body: bytes = b""
    flag: int = 0
    version: int = 513
    language: Any = "JAVA"
    opaque: int = 0
    is_binary: bool = False


class Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in which a name may come twice."""


BODIES: Final[Mapping[int, type[JsonObject]]] = {
    Code.HEART_BEAT: HeartbeatData,
    Code.CHECK_CLIENT_CONFIG: CheckClientRequest,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: SubscriptionGroupConfig,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: SubscriptionGroupList,
    Code.UPDATE_AND_CREATE_TOPIC_LIST: CreateTopicList,
    Code.LOCK_BATCH_MQ: LockBatchRequest,
    Code.UNLOCK_BATCH_MQ: UnlockBatchRequest,
    Code.QUERY_ASSIGNMENT: QueryAssignmentRequest,
    Code.SET_MESSAGE_REQUEST_MODE: MessageRequestMode,
    Code.BATCH_ACK_MESSAGE: BatchAckMessage,
    Code.LITE_SUBSCRIPTION_CTL: LiteSubscriptionChanges,
    Code.REGISTER_TOPIC_IN_NAMESRV: TopicRouteData,
    Code.QUERY_DATA_VERSION: DataVersion,
    Code.AUTH_CREATE_USER: UserInfo,
    Code.AUTH_UPDATE_USER: UserInfo,
    Code.AUTH_CREATE_ACL: AclInfo,
    Code.AUTH_UPDATE_ACL: AclInfo,
}
HUGE_SHARE: Final = 0.05
"""Of the bodies that may be huge, how many are: one in some 300 requests."""
SENDS: Final = frozenset({Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2})
OWN_BROKERS_ONLY: Final = frozenset(
    {
        *(Code.REGISTER_BROKER, Code.UNREGISTER_BROKER, Code.BROKER_HEARTBEAT, Code.WIPE_WRITE_PERM_OF_BROKER),
        *(Code.ADD_WRITE_PERM_OF_BROKER, Code.REGISTER_TOPIC_IN_NAMESRV),
    }
)
"""Here the name of the broker that serves would take it from everybody."""


def implemented() -> dict[Server, list[int]]:
    """The codes that each server answers, by the page of request codes, which a test keeps true."""
    rows = [(int(code), broker, server) for code, broker, server in _ROW.findall(PAGE.read_text(encoding="utf-8"))]
    return {
        Server.BROKER: [code for code, broker, _ in rows if broker == "implemented"],
        Server.NAME_SERVER: [code for code, _, server in rows if server == "implemented"],
    }


class Grammar:
    """Makes requests; the same seed makes the same ones.

    :param now_ms: milliseconds since the epoch, for fields that are times.
    """

    def __init__(self, random: Random, now_ms: Callable[[], int]) -> None:
        self.random = random
        self._now_ms = now_ms
        self._codes = implemented()
        self._code = 0

    # -- whole requests -------------------------------------------------------------------------------------

    def any_request(self) -> Asked:
        """A request of any implemented code, now and then of another one or to the other server."""
        random = self.random
        server = random.choices(list(Server), (3, 1))[0]
        codes = self._codes[server]
        code = random.choice(codes)
        if random.random() < 0.03:
            code = random.choice([random.choice(list(Code)), *names.EDGES[:14]])
        elif random.random() < 0.03:
            server = random.choice(list(Server))
        asked = self.request(server, code)
        if random.random() < 0.8:
            self.spoil(asked)
        return asked

    def request(self, server: Server, code: int, **given: Any) -> Asked:
        """A whole request with good values, as far as one can tell of a name.

        :param given: fields by attribute name; those of them that are None are left out.
        """
        self._code = code
        asked = Asked(server, code, opaque=self.random.randrange(1, 2**31), version=self.random.choice((513, 401, 275)))
        header = _HEADERS.get(code)
        for declared in () if header is None else msgspec.structs.fields(header):
            if declared.name in given:
                value = given[declared.name]
            elif not declared.required and self.random.random() < 0.4:
                continue
            else:
                value = self.value_of(declared.type, declared.name)
            if value is not None:
                asked.fields.append((declared.encode_name, value if isinstance(value, str) else _text(value)))
        asked.body = self.body_of(code)
        return asked

    def body_of(self, code: int) -> bytes:
        """A body as the code wants it, with good values."""
        random = self.random
        body = BODIES.get(code)
        if body is not None:
            return json_text(self.value_of(body, "body")).encode("utf-8", "surrogatepass")
        if code in SENDS:
            return random.choice((b"fuzz", b"", zlib.compress(b"fuzz" * 100), random.randbytes(200)))
        if code == Code.SEND_BATCH_MESSAGE:
            return b"".join(build_part(0, b"part", b"KEYS\x01k\x02") for _ in range(random.randint(0, 5)))
        if code == Code.REGISTER_BROKER:
            return self._registration()
        if code in (Code.UPDATE_BROKER_CONFIG, Code.UPDATE_NAMESRV_CONFIG):
            return "\n".join(random.choices(names.LIVE_SETTINGS, k=random.randint(1, 3))).encode()
        return b""

    def _registration(self) -> bytes:
        wrapper = json_text(self.value_of(TopicsAndMappings, "topics"))
        plain = f'{{"topicConfigSerializeWrapper":{wrapper},"filterServerList":[]}}'.encode("utf-8", "surrogatepass")
        if self.random.random() < 0.5:
            return plain
        parts = [b'{"counter":1,"timestamp":1,"stateVersion":0}', b"fuzz_a 4 4 6 SINGLE_TAG", b"[]"]
        sizes = [len(parts[0]), self.random.choice((1, 1, *names.EDGES[:12])), len(parts[1]), len(parts[2])]
        packed = b"".join(
            (
                (sizes[0] & 0xFFFFFFFF).to_bytes(4, "big") + parts[0],
                (sizes[1] & 0xFFFFFFFF).to_bytes(4, "big"),
                sizes[2].to_bytes(4, "big") + parts[1],
                sizes[3].to_bytes(4, "big") + parts[2],
            )
        )
        return zlib.compress(packed)

    # -- values by declaration ------------------------------------------------------------------------------

    def value_of(self, hint: Any, name: str) -> Any:
        """A good value of a declared type; the attribute's name tells which."""
        marks = getattr(hint, "__metadata__", ())
        arguments = typing.get_args(hint)
        if marks:
            if isinstance(marks[0], Members):
                return [Pairs([(marks[0].name, self.text(name))]) for _ in range(self.random.randint(0, 3))]
            return self.value_of(arguments[0], name)
        origin = typing.get_origin(hint)
        if origin in (typing.Union, types.UnionType):
            return self.value_of(next(kind for kind in arguments if kind is not types.NoneType), name)
        if origin in (tuple, Sequence, frozenset):
            return [self.value_of(arguments[0], name) for _ in range(self.random.choice((0, 1, 1, 2, 3)))]
        if origin in (dict, Mapping):
            return Pairs(
                [
                    (self._key(arguments[0], name), self.value_of(arguments[1], name))
                    for _ in range(self.random.choice((0, 1, 2)))
                ]
            )
        return self._simple(hint, name)

    def _simple(self, hint: Any, name: str) -> Any:
        if isinstance(hint, type) and issubclass(hint, JsonObject):
            return Pairs(
                [
                    (declared.encode_name, self.value_of(declared.type, declared.name))
                    for declared in msgspec.structs.fields(hint)
                    if declared.required or self.random.random() < 0.7
                ]
            )
        if hint is bool:
            return self.random.random() < 0.5
        if hint is int:
            return self.number(name)
        if hint is float:
            return self.random.random()
        return self.text(name)

    def _key(self, hint: Any, name: str) -> str:
        if isinstance(hint, type) and issubclass(hint, JsonObject):
            return json_text(self.value_of(hint, name))
        return str(self.number(name)) if hint is int else self.text("topic")

    def number(self, name: str) -> int:
        """A good number for a field of this name."""
        random = self.random
        if name.endswith(("time", "timestamp", "at_ms")) and "invisible" not in name and "poll" not in name:
            return self._now_ms() - random.choice((0, 1, 1_000, 3_600_000))
        if name in ("poll_time", "suspend_timeout_millis"):
            return random.choice((0, 0, 100, 1_000, 20_000))
        if "invisible" in name:
            return random.choice((1_000, 3_000, 10_000, 60_000))
        if name == "perm":
            return random.choice((6, 6, 6, 4, 2, 0))
        if name in ("max_msg_nums", "max_msg_num", "max_num"):
            return random.choice((1, 8, 32, 32))
        if name == "sys_flag":
            return random.choice((0, 0, 0, 1, 2, 4, 6, 8, 12, 128, 0x100))
        if name == "queue_id":
            return random.choice((0, 0, 1, 2, 3, -1))
        return random.choice(names.SMALL_NUMBERS)

    def text(self, name: str) -> str:
        """A good text for a field of this name."""
        random = self.random
        if name == "broker_name" and self._code in OWN_BROKERS_ONLY:
            return random.choice(names.BROKERS)
        for ending, choices in _TEXTS:
            if name.endswith(ending):
                return random.choice(choices)
        return random.choice(names.WORDS)

    # -- what is wrong --------------------------------------------------------------------------------------

    def spoil(self, asked: Asked) -> None:
        """Make one to three things wrong."""
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            self.random.choice(_SPOILERS)(self, asked)
        if asked.code in (Code.GATEWAY_SETTLE_TRANSACTION, Code.UPDATE_BROKER_CONFIG):
            self._keep_fair(asked)

    def _keep_fair(self, asked: Asked) -> None:
        """Nothing that has the meaning to settle another's transaction or to switch a service off."""
        if asked.code == Code.UPDATE_BROKER_CONFIG:
            asked.body = self.body_of(asked.code) if self.random.random() < 0.7 else self.random.randbytes(50)
        else:
            asked.fields = [
                (name, value)
                for name, value in asked.fields
                if name != "id" or (isinstance(value, str) and value in names.TRANSACTION_IDS)
            ]

    def bad_value(self) -> Any:
        """A value that fits nowhere."""
        random = self.random
        return random.choice(
            (
                random.choice(names.BAD_NAMES),
                random.choice(names.NUMBER_TEXTS),
                str(random.choice(names.EDGES)),
                random.choice(names.EDGES),
                random.choice((None, True, 1.5, [], [1], Pairs(), Pairs([("$ref", "$")]))),
                random.choice(names.LONG_TEXTS),
            )
        )

    def _drop_field(self, asked: Asked) -> None:
        if asked.fields:
            del asked.fields[self.random.randrange(len(asked.fields))]

    def _double_field(self, asked: Asked) -> None:
        if asked.fields:
            name, value = self.random.choice(asked.fields)
            asked.fields.append((name, self.random.choice((value, self.bad_value()))))

    def _edge_field(self, asked: Asked) -> None:
        """A number becomes an edge, a text a bad name."""
        if asked.fields:
            at = self.random.randrange(len(asked.fields))
            name, value = asked.fields[at]
            is_number = isinstance(value, str) and value.lstrip("-").isdecimal()
            asked.fields[at] = (
                name,
                str(self.random.choice(names.EDGES)) if is_number else self.random.choice(names.BAD_NAMES),
            )

    def _bad_field(self, asked: Asked) -> None:
        if asked.fields:
            at = self.random.randrange(len(asked.fields))
            asked.fields[at] = (asked.fields[at][0], self.bad_value())

    def _more_fields(self, asked: Asked) -> None:
        count = self.random.choice((1, 3, 300))
        asked.fields += [(f"x{number}", self.random.choice(names.WORDS)) for number in range(count)]

    def _other_body(self, asked: Asked) -> None:
        """The body of another code, or none."""
        asked.body = self.random.choice((b"", self.body_of(self.random.choice(list(BODIES)))))

    def _bad_body(self, asked: Asked) -> None:
        random = self.random
        asked.body = random.choice(
            (
                lambda: random.randbytes(random.choice((1, 10, 1_000))),
                lambda: b"[" * 20_000,
                lambda: b'{"a":' * 10_000,
                lambda: b'{"a":' + b"1" * 20_000 + b"x}",
                lambda: b'{"a":{"$ref":"$"},"b":{"$ref":"$.a"},"c":[{"$ref":"$.c"}]}',
                lambda: b'{"a":1e9999,"b":-1E-9999,"c":0x1F,"d":NaN,\'e\':.5,f:1,}',
                lambda: zlib.compress(bytes(1_000_000)),
                lambda: b"x" * random.choice((100_000, 1_000_000)),
            )
        )()

    def _huge_body(self, asked: Asked) -> None:
        """Now and then a body of megabytes: of one number, of many members, of an object that nests, or of nothing."""
        if self.random.random() < HUGE_SHARE:
            size = self.random.choice((1 << 20, 4 << 20, 15 << 20))
            part = self.random.choice((b"1", b"[],", b'{"topic":"fuzz_a"},', b"\x00", b'"a":1,'))
            asked.body = self.random.choice((b"", b"[", b"{")) + part * (size // len(part))

    def _cut_body(self, asked: Asked) -> None:
        if asked.body:
            asked.body = asked.body[: self.random.randrange(len(asked.body))]

    def _flip_body(self, asked: Asked) -> None:
        if asked.body:
            body = bytearray(asked.body)
            for _ in range(self.random.randint(1, 4)):
                body[self.random.randrange(len(body))] = self.random.randrange(256)
            asked.body = bytes(body)

    def _spoil_json(self, asked: Asked) -> None:
        """A member of the body is dropped, doubled, of another type or extreme."""
        body = BODIES.get(asked.code)
        if body is not None:
            value = self.value_of(body, "body")
            self._spoil_value(value)
            asked.body = json_text(value).encode("utf-8", "surrogatepass")

    def _spoil_value(self, value: Any) -> None:
        random = self.random
        while isinstance(value, list) and value:
            at = random.randrange(len(value))
            inner = value[at][1] if isinstance(value, Pairs) else value[at]
            if isinstance(inner, list) and inner and random.random() < 0.7:
                value = inner
                continue
            self._spoil_item(value, at)
            return

    def _spoil_item(self, value: list[Any], at: int) -> None:
        random = self.random
        kind = random.randrange(4)
        if kind == 0:
            del value[at]
        elif kind == 1:
            value.append(value[at])
        elif kind == 2:
            value[at : at + 1] = [value[at]] * random.choice((2, 100, 2_000))
        elif isinstance(value, Pairs):
            value[at] = (value[at][0], self.bad_value())
        else:
            value[at] = self.bad_value()

    def _odd_command(self, asked: Asked) -> None:
        random = self.random
        kind = random.randrange(4)
        if kind == 0:
            asked.flag = random.choice((1, 2, 3, 4, -1, 2**31 - 1))
        elif kind == 1:
            asked.version = random.choice((0, -1, 2**31 - 1, 500, 32_767))
        elif kind == 2:
            asked.opaque = random.choice((0, -1, 2**31 - 1, -(2**31), 2**31))
        else:
            asked.language = random.choice(("CPP", "PYTHON", "KLINGON", "", 5, 99, None, "java"))


_SPOILERS: Final[tuple[Callable[[Grammar, Asked], None], ...]] = (
    Grammar._drop_field,
    Grammar._double_field,
    Grammar._edge_field,
    Grammar._edge_field,
    Grammar._edge_field,
    Grammar._bad_field,
    Grammar._bad_field,
    Grammar._more_fields,
    Grammar._other_body,
    Grammar._bad_body,
    Grammar._huge_body,
    Grammar._cut_body,
    Grammar._flip_body,
    Grammar._spoil_json,
    Grammar._spoil_json,
    Grammar._odd_command,
)

_TEXTS: Final[tuple[tuple[str, Sequence[str]], ...]] = (
    ("username", names.USERS),
    ("access_key", names.USERS),
    ("secret_key", names.PASSWORDS),
    ("password", names.PASSWORDS),
    ("user_type", names.USER_TYPES),
    ("user_status", names.USER_STATUSES),
    ("subject", names.SUBJECTS),
    ("subject_filter", ("", "User:", "fuzz", "x")),
    ("policy_type", ("Custom", "Custom", "Default", "custom", "Other", "")),
    ("resource", names.RESOURCES),
    ("actions", names.ACTIONS),
    ("source_ips", names.SOURCES),
    ("decision", ("Allow", "Allow", "Deny", "allow", "Perhaps", "")),
    ("default_topic_perm", names.PERMISSIONS),
    ("default_group_perm", names.PERMISSIONS),
    ("topic_perms", names.ENTRIES),
    ("group_perms", names.ENTRIES),
    ("white_remote_address", names.WHITE),
    ("global_white_addrs", names.WHITE),
    ("acl_file_full_path", names.ACCOUNT_FILES),
    ("lite_topic", names.LITE_TOPICS),
    ("lite_topic_set", names.LITE_TOPICS),
    ("default_topic", ("TBW102", "TBW102", "fuzz_a", "none")),
    ("topic", (*names.TOPICS * 3, *names.SYSTEM_TOPICS)),
    ("topic_name", names.TOPICS),
    ("group", names.GROUPS),
    ("group_name", names.GROUPS),
    ("producers", names.GROUPS),
    ("client_id", names.CLIENTS),
    ("broker_name", (names.BROKER, *names.BROKERS)),
    ("bname", (names.BROKER, *names.BROKERS)),
    ("cluster_name", names.CLUSTERS),
    ("cluster", names.CLUSTERS),
    ("addr", names.ADDRESSES),
    ("address", names.ADDRESSES),
    ("properties", names.PROPERTIES),
    ("subscription", names.EXPRESSIONS),
    ("sub_string", names.EXPRESSIONS),
    ("exp", names.EXPRESSIONS),
    ("exp_type", names.EXPRESSION_TYPES),
    ("expression_type", names.EXPRESSION_TYPES),
    ("extra_info", names.RECEIPTS),
    ("msg_id", names.MESSAGE_IDS),
    ("transaction_id", names.MESSAGE_IDS),
    ("recall_handle", ("", "x", "djEgYnJva2VyLWE=", "djEgZnV6el9hIGJyb2tlci1hIDE3NTAwMDAwMDAwMDAgRg==")),
    ("attributes", names.ATTRIBUTES),
    ("id", names.TRANSACTION_IDS),
    ("stats_name", ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "GROUP_GET_NUMS", "SNDBCK_PUT_NUMS")),
    ("stats_key", ("fuzz_a", "fuzz_a@fuzz_group_a")),
    ("key", ("fuzz", "k1", "fuzz_a")),
    ("namespace", ("fuzz", "ORDER_TOPIC_CONFIG")),
)


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def json_text(value: Any) -> str:
    """JSON of a value whose objects may name a member twice."""
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{json_text(str(name))}:{json_text(item)}" for name, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return msgspec.json.encode(value).decode() if not isinstance(value, str) else _quoted(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", escaped) + '"'
