from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import LocalError, RemoteError
from wire.fixed_layout import FixedLayout
from wire.message.message_id import (
    PORT_AND_OFFSET,
    UNIQUE_KEY_HEAD,
    UNIQUE_KEY_TAIL,
    UniqueKeys,
    build_offset_message_id,
    build_offset_message_ids,
    pack_host,
    parse_offset_message_id,
    unpack_host,
)
from wire.tests.message.layouts import assert_declared_and_derived_agree, values_of
from wire.tests.message.strategies import QUICK, hosts


def test_an_offset_id_is_address_port_and_offset_in_hex() -> None:
    host = pack_host("127.0.0.1", 10911)
    assert build_offset_message_id(host, 1234) == "7F00000100002A9F00000000000004D2"
    assert parse_offset_message_id("7F00000100002A9F00000000000004D2") == (host, 1234)
    assert parse_offset_message_id("7f00000100002a9f00000000000004d2") == (host, 1234)


def test_an_id_with_an_ipv6_address_is_longer() -> None:
    text = build_offset_message_id(pack_host("::1", 10911), 0)
    assert text == "0" * 31 + "1" + "00002A9F" + "0" * 16
    assert len(text) == 56


@QUICK
@given(hosts, st.lists(st.integers(0, 2**63 - 1), max_size=5))
def test_ids_of_a_batch_are_those_of_its_messages(host: bytes, offsets: list[int]) -> None:
    ids = ",".join(build_offset_message_id(host, each) for each in offsets)
    assert build_offset_message_ids(host, offsets) == ids.encode()


@QUICK
@given(hosts, st.integers(0, 2**63 - 1))
def test_offset_ids_come_back(host: bytes, offset: int) -> None:
    text = build_offset_message_id(host, offset)
    assert parse_offset_message_id(text) == (host, offset)
    assert PORT_AND_OFFSET.unpack_from(bytes.fromhex(text), len(host) - 4)[1] == offset


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has 0 characters"),
        ("7F00000100002A9F00000000000004D", "has 31 characters"),
        ("7F00000100002A9F00000000000004D200", "has 34 characters"),
        ("7G00000100002A9F00000000000004D2", "not hexadecimal"),
        ("7F 0000100002A9F 00000000000004D", "not hexadecimal"),
        (" 7F00000100002A9F00000000000004 ", "not hexadecimal"),
        ("7F00000100002A9FFFFFFFFFFFFFFFFF", "negative offset -1"),
        ("é" * 32, "not hexadecimal"),
    ],
)
def test_a_malformed_offset_id_is_refused(text: str, reason: str) -> None:
    with pytest.raises(RemoteError, match=reason):
        parse_offset_message_id(text)


@QUICK
@given(st.text(max_size=60) | st.text("0123456789ABCDEFabcdef ", min_size=32, max_size=32))
def test_any_text_is_an_id_or_a_remote_error(text: str) -> None:
    try:
        host, offset = parse_offset_message_id(text)
    except RemoteError:
        return
    assert build_offset_message_id(host, offset) == text.upper()


@pytest.mark.parametrize(
    ("ip", "port", "packed"),
    [
        ("127.0.0.1", 10911, "7f00000100002a9f"),
        ("::ffff:10.1.2.3", 80, "0a01020300000050"),
        ("::1", 0, "00" * 15 + "0100000000"),
        ("fe80::1%eth0", 1, "fe80" + "00" * 13 + "0100000001"),
    ],
)
def test_hosts_are_packed_as_records_keep_them(ip: str, port: int, packed: str) -> None:
    assert pack_host(ip, port).hex() == packed


@pytest.mark.parametrize(("ip", "port"), [("localhost", 1), ("", 1), ("1.2.3.4", -1), ("1.2.3.4", 65536)])
def test_what_is_no_host_is_not_packed(ip: str, port: int) -> None:
    with pytest.raises(LocalError):
        pack_host(ip, port)


@QUICK
@given(st.ip_addresses(), st.integers(0, 65535))
def test_packed_hosts_come_back(ip: object, port: int) -> None:
    text, found = unpack_host(pack_host(str(ip), port))
    assert found == port
    assert pack_host(text, port) == pack_host(str(ip), port)


@pytest.mark.parametrize("size", [0, 4, 7, 9, 16, 21])
def test_a_host_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(RemoteError, match="8 or 20 bytes"):
        unpack_host(bytes(size))


def test_unique_keys_hold_address_process_time_and_counter() -> None:
    moments = iter([1000, 2000])
    keys = UniqueKeys(
        ip=bytes([192, 168, 0, 1]),
        process_id=0x1ABCD,
        instance_hash=0x18B4AAC2,
        elapsed_ms=lambda: next(moments),
        counter=0xFFFF,
    )
    assert keys.create_unique_key() == "C0A80001" + "ABCD" + "18B4AAC2" + "000003E8" + "FFFF"
    assert keys.create_unique_key() == "C0A80001" + "ABCD" + "18B4AAC2" + "000007D0" + "0000"


def test_unique_keys_of_an_ipv6_host_have_56_characters() -> None:
    keys = UniqueKeys(ip=bytes(16), process_id=1, instance_hash=-1, elapsed_ms=lambda: 0)
    assert keys.create_unique_key() == "0" * 32 + "0001" + "FFFFFFFF" + "00000000" + "0000"


def test_an_address_of_another_size_makes_no_keys() -> None:
    with pytest.raises(LocalError):
        UniqueKeys(ip=bytes(5), process_id=1, instance_hash=1, elapsed_ms=lambda: 0)


@pytest.mark.parametrize("layout", [PORT_AND_OFFSET, UNIQUE_KEY_HEAD, UNIQUE_KEY_TAIL], ids=lambda layout: layout.name)
def test_declared_and_derived_layouts_agree(layout: FixedLayout) -> None:
    @QUICK
    @given(values_of(layout))
    def agree(values: tuple[int, ...]) -> None:
        assert_declared_and_derived_agree(layout, values)

    agree()
