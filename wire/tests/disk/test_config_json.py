from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.bodies.fastjson import MEMBERS_PER_PIECE, build_json
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import DataVersion, TopicConfig
from wire.disk import config_json
from wire.disk.config_json import (
    ConfigFile,
    ConsumerOffsetsFile,
    DelayOffsetsFile,
    GroupsFile,
    TopicsFile,
    build_kv_config,
    parse_kv_config,
)
from wire.errors import LayoutError
from wire.tests.message.strategies import QUICK

FILES: list[type[ConfigFile]] = [TopicsFile, GroupsFile, ConsumerOffsetsFile, DelayOffsetsFile]
VERSION = DataVersion(5, 1_700_000_000_000, 0)


def test_offsets_are_written_as_apache_writes_them() -> None:
    assert ConsumerOffsetsFile({"%RETRY%g@g": {0: 0}, "t@g": {1: 7, 0: 5}}, VERSION).build().decode() == (
        "{\n"
        '\t"dataVersion":{\n'
        '\t\t"counter":5,\n'
        '\t\t"stateVersion":0,\n'
        '\t\t"timestamp":1700000000000\n'
        "\t},\n"
        '\t"offsetTable":{\n'
        '\t\t"%RETRY%g@g":{0:0\n'
        "\t\t},\n"
        '\t\t"t@g":{0:5,1:7\n'
        "\t\t}\n"
        "\t}\n"
        "}"
    )


def test_offsets_of_both_versions_and_of_strict_json_are_read() -> None:
    expected = {"t@g": {0: 5, 1: 7}}
    assert ConsumerOffsetsFile.parse('{"offsetTable":{"t@g":{0:5,1:7}}}') == ConsumerOffsetsFile(expected)
    assert ConsumerOffsetsFile.parse('{"offsetTable":{"t@g":{"0":5,"1":7}}}') == ConsumerOffsetsFile(expected)
    later = ConsumerOffsetsFile.parse(
        '{"dataVersion":{"counter":5,"stateVersion":0,"timestamp":1700000000000},'
        '"groupTopicMap":{"g":["t"]},"offsetTable":{"t@g":{0:5,1:7\n}}}'
    )
    assert later == ConsumerOffsetsFile(expected, VERSION), "groupTopicMap is derived and dropped"


def test_delay_offsets_are_by_level() -> None:
    assert DelayOffsetsFile.parse('{\n\t"offsetTable":{1:10,3:30\n\t}\n}') == DelayOffsetsFile({1: 10, 3: 30})
    assert b'"offsetTable":{1:10,3:30\n\t}' in DelayOffsetsFile({3: 30, 1: 10}).build()


def test_topics_and_groups_keep_what_this_version_does_not_know() -> None:
    topics = TopicsFile.parse(
        '{"dataVersion":{"counter":1,"timestamp":2},"later":[1],'
        '"topicConfigTable":{"t":{"topicName":"t","perm":4,"laterToo":{"a":1}}}}'
    )
    assert topics == TopicsFile(
        {"t": TopicConfig("t", perm=4, extra={"laterToo": {"a": 1}})}, DataVersion(1, 2), {"later": [1]}
    )
    assert TopicsFile.parse(topics.build()) == topics
    groups = GroupsFile.parse(
        '{"dataVersion":{"counter":1,"timestamp":2},"forbiddenTable":{"g":{"t":1}},'
        '"subscriptionGroupTable":{"g":{"groupName":"g","x":1}},"y":2}'
    )
    config = SubscriptionGroupConfig("g", extra={"x": 1})
    assert groups == GroupsFile({"g": config}, DataVersion(1, 2), {"g": {"t": 1}}, {"y": 2})
    assert GroupsFile.parse(groups.build()) == groups


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
longs = st.integers(0, 2**63 - 1)


@QUICK
@given(
    st.dictionaries(names, st.dictionaries(st.integers(0, 99), longs, max_size=4), max_size=4),
    st.dictionaries(st.integers(1, 99), longs, max_size=4),
    st.dictionaries(names, st.dictionaries(names, names, max_size=3), max_size=3),
)
def test_tables_come_back(
    offsets: dict[str, dict[int, int]], delays: dict[int, int], values: dict[str, dict[str, str]]
) -> None:
    assert ConsumerOffsetsFile.parse(ConsumerOffsetsFile(offsets).build()).offset_table == offsets
    assert DelayOffsetsFile.parse(DelayOffsetsFile(delays, VERSION).build()) == DelayOffsetsFile(delays, VERSION)
    assert parse_kv_config(build_kv_config(values)) == values


def test_key_value_settings_are_by_namespace() -> None:
    assert build_kv_config({"ORDER": {"t": "b:4"}}).decode() == (
        '{\n\t"configTable":{\n\t\t"ORDER":{\n\t\t\t"t":"b:4"\n\t\t}\n\t}\n}'
    )
    assert parse_kv_config("{}") == {}


@pytest.mark.parametrize("file", FILES)
def test_an_empty_file_of_ours_comes_back(file: Any) -> None:
    assert file.parse(file().build()) == file()


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("content", [b"", b"\x00" * 40, b"[]", b'{"offsetTable":', b'{"dataVersion":5}'])
def test_a_damaged_file_is_a_layout_error(file: type[ConfigFile], content: bytes) -> None:
    with pytest.raises(LayoutError):
        file.parse(content)


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        (ConsumerOffsetsFile, '{"offsetTable":{"t@g":{"x":5}}}', "64-bit integer"),
        (ConsumerOffsetsFile, '{"offsetTable":{"t@g":5}}', "not an object"),
        (DelayOffsetsFile, '{"offsetTable":{1:"soon"}}', "64-bit integer"),
        (TopicsFile, '{"topicConfigTable":{"t":{}}}', "topicName is missing"),
        (GroupsFile, '{"subscriptionGroupTable":{"g":[]}}', "SubscriptionGroupConfig is a JSON object"),
    ],
)
def test_a_wrong_member_is_named(file: type[ConfigFile], content: str, reason: str) -> None:
    with pytest.raises(LayoutError, match=reason):
        file.parse(content)


@QUICK
@given(st.binary(max_size=60))
def test_any_content_is_a_file_or_a_layout_error(content: bytes) -> None:
    for file in FILES:
        try:
            file.parse(content)
        except LayoutError:
            continue


def test_a_file_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_json, "MAX_FILE_BYTES", 10)
    with pytest.raises(LayoutError, match="over the limit of 10"):
        parse_kv_config('{"configTable":{}}')


def test_the_references_of_a_file_may_stand_for_as_much_as_a_file_may_hold() -> None:
    attributes = ",".join(f'"+a{n}":"{n}"' for n in range(1_000))
    groups = ",".join(f'"g{n}":{{"groupName":"g{n}","attributes":{{"$ref":"$.attributes"}}}}' for n in range(100))
    file = GroupsFile.parse(f'{{"attributes":{{{attributes}}},"subscriptionGroupTable":{{{groups}}}}}')
    assert file.configs["g99"].attributes["+a999"] == "999"


@pytest.mark.parametrize("count", [1, MEMBERS_PER_PIECE, 2 * MEMBERS_PER_PIECE + 1])
def test_a_table_is_written_piece_by_piece_and_its_parts_one_at_a_time(count: int) -> None:
    groups = {f"g{number:04}": SubscriptionGroupConfig(group_name=f"g{number:04}") for number in range(count)}
    file = GroupsFile(groups)
    assert file.to_json()["subscriptionGroupTable"]["g0000"] is groups["g0000"]
    raw = file.build()
    assert GroupsFile.parse(raw) == file
    lines = raw.decode().split('"subscriptionGroupTable":{\n')[1].splitlines()
    names = [line.strip()[1:6] for line in lines if line.endswith("{") and line.startswith('\t\t"')]
    assert names == sorted(groups)
    assert json.loads(build_json(file.to_json(), java_form=False)) == json.loads(raw)
