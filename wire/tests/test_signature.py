"""Signatures are those of stock clients: the vectors were made by the classes of Apache RocketMQ 4.9.8 and 5.5.0."""

import base64
import hashlib
import hmac
from collections.abc import Iterator

import pytest

from wire.command import RemotingCommand
from wire.signature import MAX_SIGNED_FIELDS, RequestSigner, SigningKey, signature
from wire.signed_fields import UNSIGNED

BODY = b"Hello RocketMQ 0"
PROPERTIES = "TAGS\x02TagA\x01WAIT\x02true\x01"
SHORT_SEND = {
    "a": "ProducerGroup",
    "b": "TopicTest",
    "c": "TBW102",
    "d": "4",
    "e": "3",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": PROPERTIES,
    "j": "0",
    "k": "false",
    "m": "false",
}
LONG_SEND = {
    "producerGroup": "ProducerGroup",
    "topic": "TopicTest",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "3",
    "sysFlag": "0",
    "bornTimestamp": "1700000000000",
    "flag": "0",
    "properties": PROPERTIES,
    "reconsumeTimes": "0",
    "unitMode": "false",
    "batch": "false",
}
HEARTBEAT = b'{"clientID":"192.0.2.1@1","consumerDataSet":[],"producerDataSet":[{"groupName":"ProducerGroup"}]}'
QUERY = {
    "topic": "TopicTest",
    "key": "7F0000010000",
    "maxNum": "32",
    "beginTimestamp": "0",
    "endTimestamp": "9223372036854775807",
    "_UNIQUE_KEY_QUERY": "true",
}
PULL = {
    "OnsChannel": "CLOUD",
    "consumerGroup": "GID_x",
    "topic": "TopicTest",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "2",
    "commitOffset": "0",
    "suspendTimeoutMillis": "15000",
    "subVersion": "1700000000000",
}
ZONED = {"a": "g", "B": "upper", "b": "t", "ns": "N", "nsd": "true", "__ZONE_NAME": "z"}
SECRET = "12345678"
LONG_SECRET = "密钥密钥密钥密钥"
UNICODE = {"a": "G", "b": "主题", "i": "KEYS\x02é€😀\x01", "n": "broker-a"}

VECTORS = [
    pytest.param(SECRET, None, {}, b"", "IUc8rrO/0gDch8CjObLQsW2rsiA=", id="1"),
    pytest.param(SECRET, None, {"topic": "TopicTest"}, b"", "0jiwhsaYp5ObE5GObbZH1I8/FT4=", id="2"),
    pytest.param(SECRET, None, SHORT_SEND, BODY, "0/xxsfnfNti/bMBILaHGMBIZH6A=", id="3"),
    pytest.param(SECRET, "sts-token-1", LONG_SEND, BODY, "yBfOSkSqkMf/LryM7vWn0CLZLJ0=", id="4"),
    pytest.param(SECRET, None, {}, HEARTBEAT, "K7tfH8nev66Hni0BEloDzLoHoN4=", id="5"),
    pytest.param(LONG_SECRET, None, UNICODE, b"\x00\xff\x80\x01", "M8FU2qPcykwBoy9XZt0xzcjDGlg=", id="6"),
    pytest.param(SECRET, None, QUERY, b"", "s0OIn2fwKAc/07aQYq6pkN4E96Q=", id="7"),
    pytest.param(SECRET, "tok", PULL, b"", "KD1+YHzUVFSWWCIYpSM/Pvo+oro=", id="8"),
    pytest.param(SECRET, None, ZONED, b"x", "CCCsLrD+SDa2sTR/IRtP4BpUL4M=", id="9"),
    pytest.param(SECRET, None, {"topic": "TopicTest", "x": "null"}, b"", "356mLBBLLrWmH+p5JN2BPhnOnBQ=", id="10"),
]
LEFT_OUT = [
    pytest.param(LONG_SEND | {"SecurityToken": "sts-token-1"}, BODY, "ZNq4enJuXjYFBlvId75gngZcFy8=", id="4g"),
    pytest.param(QUERY, b"", "L+0K9UZyc0EGpVrJGoFDtnoW0Do=", id="7b"),
]


@pytest.mark.parametrize(("secret", "token", "fields", "body", "expected"), VECTORS)
def test_a_request_is_signed_as_stock_clients_sign_it(
    secret: str, token: str | None, fields: dict[str, str], body: bytes, expected: str
) -> None:
    command = RemotingCommand(310, ext_fields=dict(fields), body=body)
    RequestSigner("RocketMQ", secret, token).sign(command)
    assert command.ext_fields["Signature"] == expected
    assert SigningKey(secret.encode()).has_signed(command.ext_fields, body)


@pytest.mark.parametrize(("fields", "body", "given"), LEFT_OUT)
def test_fields_that_a_client_leaves_out_of_the_signature_are_accepted(
    fields: dict[str, str], body: bytes, given: str
) -> None:
    assert SigningKey(b"12345678").has_signed({**fields, "AccessKey": "RocketMQ", "Signature": given}, body)


def test_a_zone_that_is_added_after_signing_is_accepted() -> None:
    command = RemotingCommand(310, ext_fields=dict(SHORT_SEND), body=BODY)
    RequestSigner("RocketMQ", SECRET).sign(command)
    fields = {**command.ext_fields, "__ZONE_NAME": "z", "__ZONE_MODE": "true"}
    assert SigningKey(b"12345678").has_signed(fields, BODY)


@pytest.mark.parametrize("name", sorted({*SHORT_SEND, "AccessKey"}))
def test_a_changed_or_missing_field_is_not_signed(name: str) -> None:
    fields = {"AccessKey": "RocketMQ", **SHORT_SEND, "Signature": "0/xxsfnfNti/bMBILaHGMBIZH6A="}
    key = SigningKey(b"12345678")
    assert key.has_signed(fields, BODY)
    assert not key.has_signed({**fields, name: fields[name] + "x"}, BODY)
    assert not key.has_signed({other: value for other, value in fields.items() if other != name}, BODY)


@pytest.mark.parametrize(
    "given", ["", "x", "é", "IUc8rrO/0gDch8CjObLQsW2rsiA", "IUc8rrO/0gDch8CjObLQsW2rsiA=\n", "\ud800"]
)
def test_other_texts_are_no_signature(given: str) -> None:
    assert not SigningKey(b"12345678").has_signed({"AccessKey": "RocketMQ", "Signature": given}, b"")


def test_a_request_without_a_signature_or_with_another_body_or_secret_is_not_signed() -> None:
    fields = {"AccessKey": "RocketMQ", **SHORT_SEND}
    signed = {**fields, "Signature": signature(b"12345678", fields, BODY)}
    assert not SigningKey(b"12345678").has_signed(fields, BODY)
    assert not SigningKey(b"12345678").has_signed(signed, BODY + b"x")
    assert not SigningKey(b"87654321").has_signed(signed, BODY)


def test_only_the_fields_of_known_clients_may_be_unsigned_and_only_one_kind_at_a_time() -> None:
    fields = {"AccessKey": "RocketMQ", "topic": "TopicTest", "Signature": "0jiwhsaYp5ObE5GObbZH1I8/FT4="}
    key = SigningKey(b"12345678")
    for left_out in UNSIGNED:
        assert key.has_signed({**fields, **dict.fromkeys(left_out, "x")}, b"")
    assert not key.has_signed({**fields, "SecurityToken": "x", "__ZONE_NAME": "z"}, b"")
    assert not key.has_signed({**fields, "another": "x"}, b"")


def test_a_key_of_any_length_signs_as_hmac_does() -> None:
    for length in (1, 20, 63, 64, 65, 200):
        secret = bytes(range(length))
        expected = base64.b64encode(hmac.new(secret, b"valuesbody", hashlib.sha1).digest())
        assert SigningKey(secret).signature(b"values", b"body") == expected


def test_values_are_signed_in_the_order_of_their_names() -> None:
    command = RemotingCommand(310, ext_fields={"b": "topic", "a": "group", "Z": "last?"}, body=b"body")
    RequestSigner("key", "secret").sign(command)
    # Upper case sorts before lower case: AccessKey, Z, a, b.
    expected = hmac.new(b"secret", b"key" + b"last?" + b"group" + b"topic" + b"body", hashlib.sha1).digest()
    assert command.ext_fields["Signature"] == base64.b64encode(expected).decode()
    assert command.ext_fields["AccessKey"] == "key"


def test_a_token_is_sent_and_signed() -> None:
    command = RemotingCommand(34)
    RequestSigner("key", "secret", "token").sign(command)
    expected = hmac.new(b"secret", b"key" + b"token", hashlib.sha1).digest()
    assert command.ext_fields["SecurityToken"] == "token"
    assert command.ext_fields["Signature"] == base64.b64encode(expected).decode()


def test_signing_again_gives_the_same() -> None:
    command = RemotingCommand(34, ext_fields={"a": "Zürich"})
    signer = RequestSigner("key", "secret")
    signer.sign(command)
    first = command.ext_fields["Signature"]
    signer.sign(command)
    assert command.ext_fields["Signature"] == first


def test_names_sort_by_utf16_units_as_in_java() -> None:
    # U+1F680 is D83D DE80 in UTF-16 and so before U+FF5E, though after it by code point.
    fields = {"\uff5e": "b", "\U0001f680": "a"}
    assert signature(b"s", fields, b"") == base64.b64encode(hmac.new(b"s", b"ab", hashlib.sha1).digest()).decode()


class CountedFields(dict[str, str]):
    """Fields that count the names and values that are read."""

    reads = 0

    def __iter__(self) -> Iterator[str]:
        for name in super().__iter__():
            self.reads += 1
            yield name

    def __getitem__(self, name: str) -> str:
        self.reads += 1
        return super().__getitem__(name)


def fields_of_nobody(count: int, given: str) -> CountedFields:
    marks = {name: "x" for names in UNSIGNED for name in names}
    fields = {"AccessKey": "nobody", "Signature": given, **marks}
    return CountedFields({**fields, **{f"n{number}": "v" for number in range(count - len(fields))}})


@pytest.mark.parametrize(
    ("count", "given"), [(MAX_SIGNED_FIELDS + 1, "A" * 28), (MAX_SIGNED_FIELDS, "AAAA"), (MAX_SIGNED_FIELDS, "A" * 29)]
)
def test_too_many_fields_and_what_has_no_length_of_a_signature_are_refused_before_any_sum(
    count: int, given: str
) -> None:
    fields = fields_of_nobody(count, given)
    assert not SigningKey(b"12345678").has_signed(fields, BODY)
    assert fields.reads == 0


def test_so_many_fields_may_be_signed() -> None:
    fields = fields_of_nobody(MAX_SIGNED_FIELDS, "")
    fields["Signature"] = signature(b"12345678", fields, BODY)
    assert SigningKey(b"12345678").has_signed(fields, BODY)
    fields = fields_of_nobody(MAX_SIGNED_FIELDS, "A" * 28)
    assert not SigningKey(b"12345678").has_signed(fields, BODY)
    assert fields.reads <= (2 + len(UNSIGNED)) * MAX_SIGNED_FIELDS
