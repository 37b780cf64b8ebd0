"""A name server and broker in one that answers well at times and badly otherwise, by a seed.

Bad answers are made of the good one and of what ``wire`` declares: fields that are missing, extreme or of another type;
bodies cut off, changed, deep, of other codes; records with extreme numbers and bodies that grow; numbers of other
requests; answers in single bytes, twice, never; requests that no server makes.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import struct
import zlib
from collections import Counter
from random import Random
from typing import Any, Final

import msgspec

from gateway.client.tests.popping_broker import PoppingBroker
from gateway.client.tests.scripted_broker import Reply
from wire.codes import RequestCode, ResponseCode, SerializeType
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame
from wire.message.batch import INNER_BATCH
from wire.message.flags import SysFlag
from wire.message.record import HEADS
from wire.tests.headers.registry import REQUEST_HEADERS, RESPONSE_HEADERS

TEXTS: Final = (
    "",
    "x",
    "-1",
    "0",
    "1",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1e400",
    "9" * 40,
    "-",
    "true",
    "null",
    "٣",
    "\x00",
    "a b c d e f g h",
    ";;;",
    "0 0 x",
    "0 0 1,2;0 0 9223372036854775807",
    "ü" * 3_000,
    "1.5",
    "NaN",
    "%RETRY%",
    "../../etc",
)
"""Values of fields."""
NUMBERS: Final = (0, 1, -1, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63), 65_537)
VALUES: Final[tuple[Any, ...]] = (
    *NUMBERS,
    2**64,
    1.5,
    1e308,
    True,
    None,
    "",
    "x",
    "9" * 40,
    [],
    {},
    [[]],
    {"a": {}},
    ["x"] * 3,
)
"""Values within JSON."""
CODES: Final = (*(int(code) for code in ResponseCode), 4711, -1, 2**31 - 1, -(2**31))
PUSHED: Final = (
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
    RequestCode.NOTIFY_UNSUBSCRIBE_LITE,
    RequestCode.SEND_MESSAGE_V2,
)
BOMB: Final = zlib.compress(bytes(80 * 1024 * 1024), 9)
_RECORD_FIELDS: Final = (
    ("total_size", ">i"),
    ("magic", ">i"),
    ("queue_id", ">i"),
    ("flag", ">i"),
    ("queue_offset", ">q"),
    ("commit_log_offset", ">q"),
    ("sys_flag", ">i"),
    ("reconsume_times", ">i"),
    ("body_bytes", ">i"),
)


class HostileServer(PoppingBroker):
    """A server that gives bad answers; see the module.

    :param badly: the share of answers that are bad, 0 … 1; may be changed.
    """

    def __init__(self, seed: int, *, badly: float = 0.5) -> None:
        super().__init__()
        self.queues = 2
        self.badly = badly
        self.asked_codes: Counter[int] = Counter()
        self._random = Random(seed)
        self._wires: list[Connection] = []
        for code in (
            RequestCode.GET_BROKER_CLUSTER_INFO,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
            RequestCode.GET_TOPIC_STATS_INFO,
            RequestCode.GET_CONSUME_STATS,
            RequestCode.QUERY_MESSAGE,
            RequestCode.END_TRANSACTION,
            RequestCode.GET_BROKER_RUNTIME_INFO,
            RequestCode.SEND_MESSAGE,
        ):
            self.answer(code, ResponseCode.SUCCESS)

    # --- answers --------------------------------------------------------------------------------------------

    def _take(self, command: RemotingCommand, writer: asyncio.StreamWriter) -> None:
        if not command.is_response:
            self.asked_codes[command.code] += 1
            self.requests.clear()  # they are not looked at
        super()._take(command, writer)

    def _reply(self, reply: Reply, command: RemotingCommand, writer: asyncio.StreamWriter) -> None:
        if self._random.random() >= self.badly or reply is None:
            super()._reply(reply, command, writer)
            return
        misdeed = self._random.choice(MISDEEDS)
        answer = misdeed(self, reply, command)
        if answer is None:
            return
        data = answer if isinstance(answer, bytes) else build_frame(answer)
        if self._random.random() < 0.05:
            task = asyncio.ensure_future(self._drip(data, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            writer.write(data)
        if self._random.random() < 0.1:
            writer.write(build_frame(self._pushed_request()))

    async def _drip(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        for at in range(min(len(data), 200)):
            writer.write(data[at : at + 1])
            await asyncio.sleep(0.001)
        writer.write(data[200:])

    def _pushed_request(self) -> RemotingCommand:
        """A request to the client, with fields as declared and values as they come."""
        random = self._random
        code = random.choice(PUSHED)
        header = REQUEST_HEADERS.get(code)
        fields = {} if header is None else self.fields_of(header)
        body = random.choice((b"", b"{}", b"\xff" * 40, json.dumps({"offsetTable": {"{}": 2**63}}).encode()))
        return RemotingCommand(
            code, opaque=random.choice((0, 1, -1, 2**31 - 1)), flag=random.choice((0, 2)), ext_fields=fields, body=body
        )

    def fields_of(self, header: type[Any]) -> dict[str, str]:
        """Every field of a header that is declared, with any value."""
        return {field.encode_name: self._random.choice(TEXTS) for field in msgspec.structs.fields(header)}

    # --- misdeeds -------------------------------------------------------------------------------------------

    def other_fields(self, reply: RemotingCommand, command: RemotingCommand) -> RemotingCommand:
        """Return the reply with some fields changed: other values, missing fields, new fields."""
        fields = dict(reply.ext_fields)
        declared = RESPONSE_HEADERS.get(RequestCode(command.code)) if command.code in set(RequestCode) else None
        names = [*fields, *(field.encode_name for field in msgspec.structs.fields(declared or _Nothing))]
        for name in self._random.sample(names, min(len(names), self._random.randrange(1, 4))):
            fields[name] = self._random.choice(TEXTS)
        if names and self._random.random() < 0.2:
            fields.pop(self._random.choice(names), None)
        return command.response(reply.code, reply.remark, fields, reply.body)

    def other_body(self, reply: RemotingCommand, command: RemotingCommand) -> RemotingCommand:
        """The body is cut off, changed, another one, deep or long."""
        random, body = self._random, bytes(reply.body)
        bodies = [
            b"",
            body[: len(body) // 2],
            body * 2,
            random.randbytes(200),
            b"[" * 50_000,
            b'{"a":' * 2_000,
            b"null",
            b"[]",
            b'{"queueDatas":[{}]}',
            b"1" * 5_000,
            b"{" + b'"a":1,' * 20_000 + b'"b":2}',
        ]
        try:
            value = json.loads(body)
        except ValueError:
            pass
        else:
            bodies += [json.dumps(self._other_json(value)).encode() for _ in range(12)]
        return command.response(reply.code, reply.remark, dict(reply.ext_fields), random.choice(bodies))

    def _other_json(self, value: Any) -> Any:
        random = self._random
        if random.random() < 0.25:
            return random.choice(VALUES)
        if isinstance(value, dict):
            return {key: self._other_json(item) for key, item in value.items() if random.random() < 0.95}
        if isinstance(value, list):
            return [self._other_json(item) for item in value] * random.choice((1, 1, 2, 50))
        return value

    def other_records(self, reply: RemotingCommand, command: RemotingCommand) -> RemotingCommand:
        """Records with other numbers, or with bodies that grow."""
        random, body = self._random, bytearray(reply.body)
        if len(body) < HEADS[0].size:
            return self.other_fields(reply, command)
        if random.random() < 0.3:
            flags = random.choice(
                (
                    SysFlag.COMPRESSED,
                    SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB,
                    SysFlag.COMPRESSED | INNER_BATCH,
                    INNER_BATCH,
                    SysFlag.COMPRESSED | 0x200,
                )
            )
            body[:] = _with_body(body, BOMB if random.random() < 0.5 else random.randbytes(50), flags)
        else:
            for name, form in random.sample(_RECORD_FIELDS, 2):
                most = 2 ** (8 * struct.calcsize(form) - 1)
                number = random.choice([number for number in NUMBERS if -most <= number < most])
                struct.pack_into(form, body, HEADS[0].offset(name), number)
        return command.response(reply.code, reply.remark, dict(reply.ext_fields), bytes(body))

    def other_code(self, reply: RemotingCommand, command: RemotingCommand) -> RemotingCommand:
        """Another code, with or without what belongs to the good one."""
        remark = self._random.choice((None, "no", "n" * 5_000, "\x1b[2J\u202e"))
        fields = self._random.choice((dict(reply.ext_fields), {}))
        return command.response(
            self._random.choice(CODES), remark, fields, self._random.choice((bytes(reply.body), b""))
        )

    def other_opaque(self, reply: RemotingCommand, command: RemotingCommand) -> RemotingCommand:
        """An answer to another request, or to none."""
        answer = command.response(reply.code, reply.remark, dict(reply.ext_fields), reply.body)
        answer.opaque = self._random.choice((answer.opaque + 1, answer.opaque - 1, -1, 2**31 - 1, 0))
        return answer

    def other_encoding(self, reply: RemotingCommand, command: RemotingCommand) -> RemotingCommand:
        """The good answer in the binary form."""
        answer = command.response(reply.code, reply.remark, dict(reply.ext_fields), reply.body)
        answer.serialize_type = SerializeType.ROCKETMQ
        return answer

    def twice(self, reply: RemotingCommand, command: RemotingCommand) -> bytes:
        """The good answer, two times."""
        return build_frame(reply) * 2

    def damaged(self, reply: RemotingCommand, command: RemotingCommand) -> bytes:
        """Return the frame with some bytes changed."""
        data = bytearray(build_frame(reply))
        for _ in range(3):
            data[self._random.randrange(len(data))] = self._random.randrange(256)
        return bytes(data)

    def cut(self, reply: RemotingCommand, command: RemotingCommand) -> bytes:
        """The first part of the frame."""
        data = build_frame(reply)
        return data[: self._random.randrange(len(data))]

    def silent(self, reply: RemotingCommand, command: RemotingCommand) -> None:
        """No answer."""

    def gone(self, reply: RemotingCommand, command: RemotingCommand) -> None:
        """The connections break."""
        self.drop_connections()

    def other_route(self, reply: RemotingCommand, command: RemotingCommand) -> RemotingCommand:
        """Routes that lead nowhere, to themselves, or to too much."""
        random = self._random
        if command.code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return self.other_body(reply, command)
        addresses = random.choice(
            (
                {"0": self.address},
                {"1": self.address},
                {},
                {"0": "127.0.0.1:1"},
                {"0": "x"},
                {"0": ":"},
                {"-1": self.address, "9223372036854775807": "[::1]:99999"},
                {"0": "no.such.host.invalid:1"},
            )
        )
        names = random.choice((["broker-a"], ["broker-a", "broker-a"], [f"b{n}" for n in range(200)], [""]))
        count = random.choice((0, 1, 2, 16, 65_536, 65_537, 2**31 - 1, -1))
        perm = random.choice((6, 6, 6, 4, 2, 0, -1, 2**31 - 1))
        route = {
            "brokerDatas": [{"cluster": "c", "brokerName": name, "brokerAddrs": addresses} for name in names],
            "queueDatas": [
                {"brokerName": name, "readQueueNums": count, "writeQueueNums": count, "perm": perm} for name in names
            ],
            "orderTopicConf": random.choice((None, None, "broker-a:2", "x:" + "9" * 5_000, "broker-a:65537")),
        }
        return command.response(ResponseCode.SUCCESS, body=json.dumps(route).encode())


class _Nothing(msgspec.Struct):
    pass


def _with_body(record: bytearray, body: bytes, flags: int) -> bytes:
    """The first record with another body."""
    head = HEADS[0]
    record = record[: struct.unpack_from(">i", record)[0]]
    old = struct.unpack_from(">i", record, head.offset("body_bytes"))[0]
    changed = record[: head.size] + body + record[head.size + old :]
    struct.pack_into(">i", changed, 0, len(changed))
    struct.pack_into(">i", changed, head.offset("body_bytes"), len(body))
    struct.pack_into(">i", changed, head.offset("sys_flag"), flags)
    return bytes(changed)


MISDEEDS: Final = tuple(
    function
    for name, function in inspect.getmembers(HostileServer, inspect.isfunction)
    if name
    in {
        "other_fields",
        "other_body",
        "other_records",
        "other_code",
        "other_opaque",
        "other_encoding",
        "twice",
        "damaged",
        "cut",
        "silent",
        "gone",
        "other_route",
    }
) + 4 * (
    HostileServer.other_fields,
    HostileServer.other_body,
    HostileServer.other_records,
    HostileServer.other_route,
    HostileServer.other_code,
)
"""What most likely meets code of its own comes most often; silence costs time."""
