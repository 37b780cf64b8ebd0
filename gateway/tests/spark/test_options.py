"""Options: names, values, and what does not go together."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from gateway.client.connect.credentials import Credentials
from gateway.client.message_queue import MessageQueue
from gateway.spark.errors import OptionRefused
from gateway.spark.options import (
    Bound,
    Edge,
    check_names,
    ignored_options,
    read_options,
    wants_json_properties,
    write_options,
)

PLACE = {"nameserver": "a:9876;b:9876"}
TOPIC = {**PLACE, "subscribe": "orders"}


def test_defaults_are_those_of_a_careful_reader() -> None:
    options = read_options(TOPIC, is_stream=False)
    assert options.access.name_servers == ("a:9876", "b:9876")
    assert (options.topics, options.start, options.end) == (
        ("orders",),
        Bound(edge=Edge.EARLIEST),
        Bound(edge=Edge.LATEST),
    )
    assert options.fail_on_data_loss
    assert options.fails_on_bad_bodies
    assert not options.is_filtered
    assert options.group.startswith("spark-rocketmq-")
    assert read_options(TOPIC, is_stream=True).start == Bound(edge=Edge.LATEST)


def test_options_travel_to_the_workers() -> None:
    options = read_options({**TOPIC, "accesskey": "k", "secretkey": "s", "usetls": "true"}, is_stream=False)
    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(options.access) == hash(pickle.loads(pickle.dumps(options.access)))
    assert "secret" not in repr(options.access).replace("secret_key", "")


def test_the_driver_reads_the_file_of_the_keys_and_nothing_shows_them(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("AccessKey=shop\nSecretKey=very-secret\nSecurityToken=very-secret-token\n")
    for options in (
        read_options({**TOPIC, "credentialsFile": str(file)}, is_stream=False),
        write_options({**PLACE, "topic": "t", "credentialsFile": str(file)}),
    ):
        assert options.access.keys == Credentials("shop", "very-secret", "very-secret-token")
        assert "very-secret" not in repr(options)
        assert pickle.loads(pickle.dumps(options)) == options, "the workers need no file"


def test_names_of_the_old_connector_are_known() -> None:
    old = read_options({"namesrvAddr": "a:1", "topic": "orders", "filterExpression": "A||B"}, is_stream=True)
    assert (old.topics, old.tag_expression.tags) == (("orders",), frozenset("AB"))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"subscrbe": "orders"}, "unknown option 'subscrbe'; did you mean 'subscribe'?"),
        ({"storePath": "/data", "expressionType": "SQL92", **TOPIC}, "brokers alone evaluate SQL92"),
        ({"storePath": '{"broker-a": 1}', **TOPIC}, "storePath takes a directory, or JSON"),
        ({"failondataloos": "true", **TOPIC}, "did you mean 'failOnDataLoss'"),
        ({"batchBytes": "1", **TOPIC}, "unknown option 'batchBytes'"),
        ({"topic": "orders", **TOPIC}, "subscribe is given twice"),
        ({"assign": '{"t":{"b":[0]}}', **TOPIC}, "subscribe and assign are given"),
        ({"subscribePattern": "o.*", **TOPIC}, "subscribe and subscribePattern are given"),
        (PLACE, "none is given"),
        ({"subscribe": "orders"}, "nameServer is required"),
        ({**TOPIC, "nameserver": "no port"}, "nameServer is 'no port'"),
        ({**PLACE, "subscribe": "or ders"}, "subscribe names 'or ders'"),
        ({**PLACE, "subscribe": ","}, "names no topic"),
        ({**PLACE, "subscribePattern": "("}, "no regular expression"),
        ({**TOPIC, "startingOffsets": "latest"}, "startingOffsets=latest is for streams"),
        ({**TOPIC, "startingOffsets": '{"t":{"b":{"0":-1}}}'}, "that is for streams"),
        ({**TOPIC, "endingOffsets": "earliest"}, "leaves nothing to read"),
        ({**TOPIC, "endingOffsets": '{"t":{"b":{"0":-2}}}'}, "leaves nothing to read"),
        ({**TOPIC, "startingOffsets": "first"}, "'earliest', 'latest' or JSON"),
        ({**TOPIC, "startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({**TOPIC, "startingOffsetsByTimestampStrategy": "guess"}, "one of error, latest"),
        ({**TOPIC, "failOnDataLoss": "maybe"}, "one of true, false"),
        ({**TOPIC, "maxOffsetsPerTrigger": "0"}, "whole number from 1"),
        ({**TOPIC, "minPartitions": "-4"}, "whole number from 1"),
        ({**TOPIC, "maxTriggerDelay": "soon"}, "a duration like"),
        ({**TOPIC, "mode": "dropmalformed"}, "one of failfast, fail, permissive"),
        ({**TOPIC, "subExpression": "||"}, "no tag expression"),
        ({**TOPIC, "expressionType": "xpath"}, "one of tag, sql92"),
        ({**TOPIC, "accessKey": "k"}, "belong together"),
        ({**TOPIC, "credentialsFile": "/none"}, "credentialsFile is '/none'; it must be a readable file"),
        ({**TOPIC, "credentialsFile": "/none", "accessKey": "k", "secretKey": "s"}, "keep one of them"),
        ({**TOPIC, "commitOffsetsToBroker": "true"}, "needs consumerGroup"),
        ({**TOPIC, "rocketmq.client.addressMap": "x"}, "not JSON"),
        ({**TOPIC, "rocketmq.client.addressMap": '{"a:1":"b"}'}, "rocketmq.client.addressMap is 'b'"),
        ({**TOPIC, "propertiesFormat": "xml"}, "one of map, json"),
        ({**TOPIC, "startingTimestamp": "9" * 30}, "milliseconds since 1970"),
        ({**TOPIC, "batchBytes": "1"}, "unknown option 'batchBytes': it is for writing"),
        ({**TOPIC, "path": "orders"}, "unknown option 'path'; the topic is said by the option topic"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_opened(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionRefused) as caught:
        read_options(given, is_stream=False)
    assert text in str(caught.value)


def test_an_option_of_reads_is_refused_in_writes_with_what_to_say_instead() -> None:
    with pytest.raises(OptionRefused, match="'subscribe': it is for reading; the option topic says where to write"):
        write_options(TOPIC)


@pytest.mark.parametrize("given", [{}, {"option.nameServer": "a:9876", "option.subscribe": "orders"}])
def test_tables_of_the_catalogue_are_refused_with_what_works_instead(given: dict[str, str]) -> None:
    with pytest.raises(OptionRefused, match="Use CREATE TEMPORARY VIEW name USING rocketmq"):
        check_names(given)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionRefused, match="endingTimestamp is for batch queries"):
        read_options({**TOPIC, "endingTimestamp": "5"}, is_stream=True)


def test_a_time_wins_over_times_and_times_over_offsets() -> None:
    times = {"startingOffsetsByTimestamp": '{"orders":{"b":{"0":5}}}', "startingOffsets": "earliest"}
    assert read_options({**TOPIC, **times}, is_stream=True).start == Bound(
        timestamps_ms={MessageQueue("orders", "b", 0): 5}, or_latest=False
    )
    one = {"startingTimestamp": "7", "startingOffsetsByTimestampStrategy": "latest", **times}
    assert read_options({**TOPIC, **one}, is_stream=True).start == Bound(timestamp_ms=7)


def test_durations_have_units() -> None:
    for text, seconds in (("200ms", 0.2), ("10s", 10.0), ("15m", 900.0), ("1h", 3600.0), ("250", 0.25), ("1.5 s", 1.5)):
        assert read_options({**TOPIC, "maxTriggerDelay": text}, is_stream=True).max_delay_s == seconds


def test_trigger_options_have_no_effect_in_a_batch() -> None:
    assert ignored_options({**TOPIC, "MAXOFFSETSPERTRIGGER": "5"}) == ["maxOffsetsPerTrigger"]


def test_the_schema_depends_on_one_option_alone() -> None:
    assert wants_json_properties({"propertiesformat": "JSON"})
    assert not wants_json_properties({"startingOffsets": "latest"})


def test_names_are_checked_before_it_is_known_what_for() -> None:
    check_names({**TOPIC, "topic": "x", "batchBytes": "1"})
    with pytest.raises(OptionRefused, match="did you mean 'producerGroup'"):
        check_names({"producerGrup": "x"})


def test_options_that_spark_hands_over_with_the_sink_s_are_left_to_spark() -> None:
    assert write_options({**PLACE, "checkpointlocation": "/x", "queryname": "q"}) == write_options(PLACE)
    check_names({"checkpointLocation": "/x"})


def test_the_sink_has_options_of_its_own() -> None:
    options = write_options(
        {**PLACE, "topic": "orders", "batchBytes": "1000", "maxInFlight": "2", "sendTimeoutMs": "500"}
    )
    assert (options.topic, options.batch_bytes, options.max_in_flight, options.send_timeout_s) == (
        "orders",
        1000,
        2,
        0.5,
    )
    assert write_options(PLACE).topic is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"subscribe": "orders"}, "unknown option 'subscribe'"),
        ({"topic": "or ders"}, "topic is 'or ders'"),
        ({"topic": "orders", "deliveryMode": "exactly-once"}, "one of at-least-once, transactional"),
        ({"topic": "orders", "deliveryMode": "transactional"}, "needs the option checkpointLocation"),
        ({"topic": "orders", "batchBytes": "5000000"}, "from 1 to 4000000"),
    ],
)
def test_what_the_sink_cannot_do_is_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(OptionRefused) as caught:
        write_options({**PLACE, **given})
    assert text in str(caught.value)
