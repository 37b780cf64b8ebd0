"""A stream plans its batches: each row of the trap list that is a matter of planning has a test here."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.client.errors import BrokerError, ConnectError, RocketMQError, broker_error
from gateway.client.message_queue import MessageQueue
from gateway.spark.errors import Away, DataLoss
from gateway.spark.offsets import Checkpoint
from gateway.spark.reading.lives import QUIET_LOOK_S
from gateway.spark.reading.micro_batches import MicroBatches
from gateway.spark.reading.planning import QueueRange
from gateway.tests.spark.pretend_cluster import BROKER, ChangingCluster, PretendCluster, queue
from gateway.tests.spark.reading.test_planning import stream_options
from wire.codes import ResponseCode

OTHER = queue(0, broker_name="broker-b")


class Stream:
    """A query's driver: a plan, a clock, and what Spark would have written down."""

    def __init__(self, cluster: PretendCluster, **given: object) -> None:
        self.cluster = cluster
        self.given = {"startingOffsets": "earliest", **given}
        self.now = 100.0
        self.returns = False
        """Whether what is down is back after a wait."""
        self.plan = self.restarted()

    def restarted(self) -> MicroBatches:
        self.plan = MicroBatches(self.cluster, stream_options(**self.given), lambda: self.now, self.wait)
        return self.plan

    def wait(self, seconds: float) -> None:
        self.now += seconds
        if self.returns:
            self.cluster.down = None

    def initial(self) -> Checkpoint:
        return through_json(self.plan.initial())

    def latest(self, start: Checkpoint, most: int | None = None, *, later_s: float = 10.0) -> Checkpoint:
        self.now += later_s
        return self.plan.latest(start, most)

    def ranges(self, start: Checkpoint, end: Checkpoint) -> list[str]:
        return [str(piece) for piece in self.plan.ranges(through_json(start), through_json(end))]


def through_json(checkpoint: Checkpoint) -> Checkpoint:
    return Checkpoint.parse(json.loads(json.dumps(checkpoint.to_json())))


@pytest.fixture
def cluster() -> PretendCluster:
    """Ten messages in queue 0 of orders, none in queue 1."""
    found = PretendCluster({queue(0): [], queue(1): []})
    found.fill(queue(0), 10)
    return found


def test_batches_follow_each_other_without_gap_or_overlap(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    start = stream.initial()
    first = stream.latest(start)
    assert stream.ranges(start, first) == ["orders/broker-a/0 [0, 10)"]
    cluster.fill(queue(1), 3)
    second = stream.latest(first)
    assert stream.ranges(first, second) == ["orders/broker-a/1 [0, 3)"]
    assert second.base is None


def test_nothing_new_is_the_same_offset_again(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    again = through_json(first)
    assert stream.latest(again) is again


def test_a_stream_from_the_latest_offset_that_crashed_in_its_first_batch_begins_where_it_began(
    cluster: PretendCluster,
) -> None:
    """Spark does not store the initial offset: after the crash it asks again, and then everything is newer."""
    stream = Stream(cluster, startingOffsets="latest")
    start = stream.initial()
    cluster.fill(queue(0), 5)
    end = through_json(stream.latest(start))
    assert stream.ranges(start, end) == ["orders/broker-a/0 [10, 15)"]
    cluster.fill(queue(0), 100)
    stream.restarted()
    newer = stream.initial()
    assert newer.offsets[queue(0)] == 115
    assert stream.ranges(newer, end) == ["orders/broker-a/0 [10, 15)"]
    assert stream.ranges(end, stream.latest(end)) == ["orders/broker-a/0 [15, 115)"]


def test_a_batch_whose_beginning_is_after_its_end_is_a_loss(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    with pytest.raises(DataLoss, match="offsets 150 to 299 cannot be read: the batch begins at 300"):
        stream.ranges(Checkpoint(offsets={queue(0): 300}), Checkpoint(offsets={queue(0): 150}))


def test_the_initial_offset_is_the_same_when_it_is_asked_twice(cluster: PretendCluster) -> None:
    stream = Stream(cluster, startingOffsets="latest")
    start = stream.initial()
    cluster.fill(queue(0), 5)
    assert stream.initial() == start


def test_an_empty_first_batch_keeps_the_beginning(cluster: PretendCluster) -> None:
    stream = Stream(cluster, startingOffsets="latest")
    start = stream.initial()
    assert stream.latest(start) is start
    cluster.fill(queue(0), 5)
    end = stream.latest(start)
    assert (end.base or {})[queue(0)] == 10


def test_brokers_are_not_asked_more_often_than_the_poll_interval_says(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    cluster.questions = 0
    for _ in range(100):
        assert stream.latest(first, later_s=0.01) is first
    assert cluster.questions <= 6


def test_most_offsets_of_a_batch_are_shared_by_backlog(cluster: PretendCluster) -> None:
    cluster.fill(queue(1), 90)
    stream = Stream(cluster)
    start = stream.initial()
    assert stream.latest(start, 10).offsets == {queue(0): 1, queue(1): 9}
    assert stream.latest(start, None).offsets == {queue(0): 10, queue(1): 90}


def test_most_bytes_of_a_batch_are_counted_by_the_size_of_messages(cluster: PretendCluster) -> None:
    stream = Stream(cluster, maxBytesPerTrigger="400")
    assert stream.latest(stream.initial()).offsets[queue(0)] == 4
    assert stream.latest(stream.initial(), 2).offsets[queue(0)] == 2


def test_few_messages_wait_for_more_but_not_for_ever(cluster: PretendCluster) -> None:
    stream = Stream(cluster, minOffsetsPerTrigger="20", maxTriggerDelay="60s")
    start = stream.initial()
    assert stream.latest(start) is start
    assert stream.latest(start, later_s=30) is start
    end = stream.latest(start, later_s=30)
    assert end.offsets[queue(0)] == 10
    cluster.fill(queue(0), 20)
    assert stream.latest(end, later_s=1).offsets[queue(0)] == 30


def test_available_now_goes_to_where_queues_were_and_ends(cluster: PretendCluster) -> None:
    stream = Stream(cluster, minOffsetsPerTrigger="1000")
    at = stream.initial()
    stream.plan.fix_target()
    seen = []
    cluster.fill(queue(0), 50)
    cluster.fill(queue(0, "other"), 5)
    while (end := stream.latest(at, 4)) is not at:
        seen += stream.ranges(at, end)
        at = end
    assert seen == ["orders/broker-a/0 [0, 4)", "orders/broker-a/0 [4, 8)", "orders/broker-a/0 [8, 10)"]


def test_available_now_does_not_end_because_a_broker_is_away(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    start = stream.initial()
    stream.plan.fix_target()
    cluster.down = ConnectError("10.0.0.7:10911", "refused")
    with pytest.raises(ConnectError):
        stream.latest(start)
    cluster.down = None
    first = stream.latest(start, 4)
    del cluster.records[queue(0)]
    with pytest.raises(DataLoss, match="not there any more"):
        stream.latest(first)


@pytest.mark.parametrize(
    "away",
    [ConnectError("10.0.0.7:10911", "refused"), broker_error(ResponseCode.SERVICE_NOT_AVAILABLE, "starting", "a:1")],
)
def test_available_now_waits_for_a_broker_that_is_away_when_it_begins(
    cluster: PretendCluster, away: RocketMQError
) -> None:
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    cluster.fill(queue(0), 5)
    stream.restarted()
    cluster.down = away
    stream.plan.fix_target()
    stream.returns = True
    end = stream.latest(first)
    assert stream.ranges(first, end) == ["orders/broker-a/0 [10, 15)"]
    cluster.fill(queue(0), 5)
    assert stream.latest(end) is end


def test_available_now_waits_for_queues_that_no_name_server_knows_when_it_begins(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    cluster.fill(queue(0), 5)
    stream.restarted()
    missing, cluster.records = cluster.records, {}
    stream.plan.fix_target()
    cluster.records = missing
    end = stream.latest(first)
    assert stream.ranges(first, end) == ["orders/broker-a/0 [10, 15)"]


def test_what_a_broker_refuses_for_good_is_an_error_at_once(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    cluster.down = broker_error(ResponseCode.NO_PERMISSION, "no", "a:1")
    with pytest.raises(BrokerError):
        stream.latest(first)
    with pytest.raises(BrokerError):
        stream.plan.fix_target()


def test_available_now_obeys_a_limit_of_all(cluster: PretendCluster) -> None:
    stream = Stream(cluster, maxOffsetsPerTrigger="4")
    start = stream.initial()
    stream.plan.fix_target()
    assert stream.latest(start, None).offsets[queue(0)] == 10


def test_a_new_queue_is_read_from_its_beginning_also_when_its_batch_is_repeated(cluster: PretendCluster) -> None:
    stream = Stream(cluster, startingOffsets="latest")
    first = stream.latest(stream.initial())
    cluster.fill(queue(2), 8)
    cluster.expire(queue(2), 3)
    second = stream.latest(first)
    cluster.expire(queue(2), 2)
    stream.restarted()
    assert stream.ranges(first, second) == ["orders/broker-a/2 [3, 8)"]


def test_a_new_topic_of_a_pattern_is_read_from_its_beginning(cluster: PretendCluster) -> None:
    stream = Stream(cluster, subscribePattern="ord.*", startingOffsets="latest")
    first = stream.latest(stream.initial())
    cluster.fill(queue(0, "ordinary"), 2)
    cluster.fill(queue(0, "other"), 2)
    assert stream.ranges(first, stream.latest(first)) == ["ordinary/broker-a/0 [0, 2)"]


def test_a_queue_that_is_gone_may_come_back(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    missing = cluster.records.pop(queue(1))
    assert stream.latest(first) is first
    cluster.records[queue(1)] = missing
    cluster.fill(queue(1), 1)
    assert stream.ranges(first, stream.latest(first)) == ["orders/broker-a/1 [0, 1)"]


def test_a_queue_with_more_that_stays_away_is_a_loss(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = stream.latest(stream.initial(), 4)
    del cluster.records[queue(0)]
    assert stream.latest(first) is first
    with pytest.raises(DataLoss, match="offsets 4 to 9 cannot be read: the queue is not there any more: its topic"):
        stream.latest(first, later_s=31)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("is_registered", [False, True])
def test_point_12_a_queue_that_was_read_to_its_end_and_stays_away_is_no_loss(
    cluster: PretendCluster, restarts: bool, is_registered: bool
) -> None:
    stream = Stream(cluster)
    first = through_json(stream.latest(stream.initial()))
    cluster.hidden.add(queue(0))
    cluster.registered = {BROKER} if is_registered else set()
    if restarts:
        stream.restarted()
    assert stream.latest(first) is first
    second = through_json(stream.latest(first, later_s=31))
    assert (second.offsets, second.away) == ({queue(1): 0}, {queue(0): 10})
    assert stream.latest(second, later_s=99) is second
    cluster.fill(queue(1), 2)
    third = through_json(stream.latest(second))
    assert (stream.ranges(second, third), third.away) == (["orders/broker-a/1 [0, 2)"], {queue(0): 10})
    cluster.hidden.clear()
    cluster.fill(queue(0), 3)
    fourth = through_json(stream.latest(third))
    assert (stream.ranges(third, fourth), fourth.away) == (["orders/broker-a/0 [10, 13)"], {})


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_queue_that_was_deleted_for_sure_is_another_one_when_it_is_there_again(
    cluster: PretendCluster, fails: str
) -> None:
    stream = Stream(cluster, failOnDataLoss=fails)
    first = stream.latest(stream.initial())
    del cluster.records[queue(0)]
    assert stream.latest(first) is first
    second = through_json(stream.latest(first, later_s=31))
    assert (second.offsets, second.away) == ({queue(1): 0}, {})
    cluster.fill(queue(0), 15)
    assert stream.ranges(second, stream.latest(second)) == ["orders/broker-a/0 [0, 15)"]


def test_what_was_not_read_of_a_queue_that_was_deleted_is_told_of(
    cluster: PretendCluster, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(cluster, failOnDataLoss="false")
    first = stream.latest(stream.initial(), 4)
    del cluster.records[queue(0)]
    stream.latest(first)
    with caplog.at_level(logging.WARNING):
        assert stream.latest(first, later_s=31).away == {}
    assert "6 offsets of orders/broker-a/0 are skipped: offsets 4 to 9 cannot be read: the queue is not" in caplog.text


def test_after_a_restart_it_is_known_what_a_queue_had_that_stays_away(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = through_json(stream.latest(stream.initial(), 4))
    del cluster.records[queue(0)]
    stream.restarted()
    assert stream.latest(first) is first
    with pytest.raises(DataLoss, match="offsets 4 to 9 cannot be read"):
        stream.latest(first, later_s=31)


def test_a_checkpoint_of_version_1_does_not_say_what_a_queue_had(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = Checkpoint.parse({"q": {"orders": {BROKER: {"0": 10, "1": 0}}}, "v": 1})
    assert stream.latest(first) is first
    del cluster.records[queue(0)]
    stream.restarted()
    assert stream.latest(first) is first
    with pytest.raises(DataLoss, match="offsets from 10 on, as far as there were any, cannot be read"):
        stream.latest(first, later_s=31)


def test_a_queue_with_more_whose_broker_is_down_is_no_loss(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = stream.latest(stream.initial(), 4)
    missing, cluster.records = cluster.records, {}
    cluster.registered.clear()
    assert stream.latest(first) is first
    with pytest.raises(Away, match=r"orders/broker-a/0 is away: its broker is down, .* offsets 4 to 9 are not read"):
        stream.latest(first, later_s=31)
    cluster.records = missing
    stream.restarted()
    assert stream.ranges(first, stream.latest(first)) == ["orders/broker-a/0 [4, 10)"]


@pytest.mark.parametrize("fails", ["true", "false"])
def test_point_12_a_queue_that_cannot_be_read_for_a_while_is_not_read_twice(
    cluster: PretendCluster, fails: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The read queues go from 4 to 2 to 4, or permission is taken and given back."""
    stream = Stream(cluster, failOnDataLoss=fails)
    at = stream.latest(stream.initial())
    cluster.hidden.add(queue(0))
    assert stream.latest(at) is at
    with caplog.at_level(logging.WARNING):
        at = through_json(stream.latest(at, later_s=31))
    assert "goes on without it, and reads it from offset 10 on when it is back" in caplog.text
    assert "skipped" not in caplog.text
    cluster.hidden.clear()
    cluster.fill(queue(0), 2)
    stream.restarted()
    assert stream.ranges(at, stream.latest(at)) == ["orders/broker-a/0 [10, 12)"]


def test_point_12_a_queue_with_more_that_cannot_be_read_is_no_loss(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = stream.latest(stream.initial(), 4)
    cluster.hidden.add(queue(0))
    assert stream.latest(first) is first
    with pytest.raises(Away, match="fewer queues or no permission to read, and offsets 4 to 9 are not read yet"):
        stream.latest(first, later_s=31)


def test_point_12_a_queue_that_stays_away_keeps_its_offset_when_losses_are_allowed(
    cluster: PretendCluster, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(cluster, failOnDataLoss="false")
    first = stream.latest(stream.initial(), 4)
    cluster.hidden.add(queue(0))
    stream.latest(first)
    with caplog.at_level(logging.WARNING):
        second = through_json(stream.latest(first, later_s=31))
    assert (second.offsets, second.away, second.more) == ({queue(1): 0}, {queue(0): 4}, {queue(0): 10})
    assert "goes on without it although offsets 4 to 9 were not read, and reads it from offset 4 on" in caplog.text
    assert stream.ranges(first, second) == []
    stream.restarted()
    cluster.hidden.clear()
    assert stream.ranges(second, stream.latest(second)) == ["orders/broker-a/0 [4, 10)"]


def test_a_queue_that_is_made_again_shorter_is_a_loss_of_what_it_has_now(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    del cluster.records[queue(0)][3:]
    with pytest.raises(
        DataLoss, match="offsets 0 to 2 cannot be read: the queue was read to offset 10 and ends at 3 now"
    ):
        stream.latest(first)


def test_a_queue_that_is_made_again_and_empty_has_lost_nothing_that_was_not_read(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    del cluster.records[queue(0)][:]
    second = stream.latest(first)
    cluster.fill(queue(0), 2)
    assert stream.ranges(second, stream.latest(second)) == ["orders/broker-a/0 [0, 2)"]


def test_point_12_a_shorter_queue_goes_on_at_its_end_when_losses_are_allowed_and_it_is_said_what_that_skips(
    cluster: PretendCluster, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(cluster, failOnDataLoss="false")
    first = stream.latest(stream.initial(), 7)
    del cluster.records[queue(0)][3:]
    with caplog.at_level(logging.WARNING):
        second = stream.latest(first)
    assert [entry.getMessage().split(": the queue")[0] for entry in caplog.records] == [
        "3 offsets of orders/broker-a/0 are skipped: offsets 7 to 9 cannot be read",
        "3 offsets of orders/broker-a/0 are skipped: offsets 0 to 2 cannot be read",
    ]
    assert stream.ranges(first, second) == []
    cluster.fill(queue(0), 1)
    assert stream.ranges(second, stream.latest(second)) == ["orders/broker-a/0 [3, 4)"]


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("count", [10, 15, 3])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_topic_made_again_in_the_same_store_is_read_from_its_beginning(
    cluster: PretendCluster, fails: str, count: int, restarts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(cluster, failOnDataLoss=fails)
    first = through_json(stream.latest(stream.initial()))
    cluster.make_again(queue(0), count)
    if restarts:
        stream.restarted()
    with caplog.at_level(logging.WARNING):
        second = through_json(stream.latest(first))
    assert stream.ranges(first, second) == [f"orders/broker-a/0 [0, {count})"]
    assert "orders/broker-a/0: its topic was deleted and made again" in caplog.text
    assert "skipped" not in caplog.text
    assert stream.latest(second) is second
    cluster.fill(queue(0), 2)
    assert stream.ranges(second, stream.latest(second)) == [f"orders/broker-a/0 [{count}, {count + 2})"]


@pytest.mark.parametrize("count", [10, 15, 7, 3])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_not_read_of_a_topic_made_again_in_the_same_store_is_a_loss(
    cluster: PretendCluster, count: int, restarts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(cluster)
    first = through_json(stream.latest(stream.initial(), 7))
    cluster.make_again(queue(0), count)
    if restarts:
        stream.restarted()
    with pytest.raises(DataLoss, match="offsets 7 to 9 cannot be read: its topic was deleted and made again"):
        stream.latest(first)
    stream.given = {"failOnDataLoss": "false"}
    stream.restarted()
    second = through_json(stream.latest(first))
    assert "3 offsets of orders/broker-a/0 are skipped: offsets 7 to 9 cannot be read: its topic" in caplog.text
    assert stream.ranges(first, second) == [f"orders/broker-a/0 [0, {count})"]


def test_a_quiet_queue_that_is_made_again_as_long_as_before_is_noticed_after_a_while(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    cluster.make_again(queue(0), 10)
    assert stream.latest(first, later_s=1) is first
    assert stream.ranges(first, stream.latest(first, later_s=QUIET_LOOK_S)) == ["orders/broker-a/0 [0, 10)"]


@pytest.mark.parametrize("taken", [3, 10])
def test_retention_is_no_other_life(cluster: PretendCluster, taken: int, caplog: pytest.LogCaptureFixture) -> None:
    stream = Stream(cluster)
    at = through_json(stream.latest(stream.initial()))
    cluster.expire(queue(0), taken)
    assert stream.latest(at, later_s=99) is at
    cluster.fill(queue(0), 2)
    at, before = through_json(stream.latest(at)), at
    assert stream.ranges(before, at) == ["orders/broker-a/0 [10, 12)"]
    assert caplog.text == ""
    cluster.make_again(queue(0), 12)
    assert stream.ranges(at, stream.latest(at)) == ["orders/broker-a/0 [0, 12)"]


def test_a_topic_made_again_during_a_look_is_read_as_far_as_it_goes() -> None:
    cluster = ChangingCluster({queue(0): []})
    cluster.fill(queue(0), 10)
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    cluster.fill(queue(0), 5)
    cluster.after("ends", lambda: cluster.make_again(queue(0), 3))
    assert stream.ranges(first, stream.latest(first)) == ["orders/broker-a/0 [0, 3)"]


def test_a_store_that_is_replaced_while_lives_are_asked_for_is_no_topic_made_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = ChangingCluster({queue(0): []})
    cluster.empty(queue(0), "one", 10)
    stream = Stream(cluster)
    first = stream.latest(stream.initial())

    cluster.after("ends", lambda: cluster.empty(queue(0), "two", 0), lambda: cluster.make_again(queue(0), 12))
    second = stream.latest(first)
    assert (second.stores, stream.ranges(first, second)) == ({BROKER: "two"}, ["orders/broker-a/0 [0, 12)"])
    assert "another store" in caplog.text


def test_a_store_that_is_replaced_while_a_new_broker_is_looked_at_is_read_once() -> None:
    """Where its queues begin was asked of the store before; the look is made again for a topic made again elsewhere."""
    cluster = ChangingCluster({queue(0): []})
    cluster.empty(queue(0), "one", 10)
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    cluster.make_again(queue(0), 12)
    cluster.empty(OTHER, "two", 5)

    def replaced() -> None:
        cluster.empty(OTHER, "three", 0)
        cluster.make_again(OTHER, 5)

    # The first question is about the known queues, the second about the new broker's, too.
    cluster.after("first_stored", lambda: cluster.after("first_stored", replaced))
    second = stream.latest(first)
    assert second.stores == {BROKER: "one", "broker-b": "three"}
    assert stream.ranges(first, second) == ["orders/broker-a/0 [0, 12)", "orders/broker-b/0 [0, 5)"]
    cluster.fill(OTHER, 1)
    assert stream.ranges(second, stream.latest(second)) == ["orders/broker-b/0 [5, 6)"]


def test_who_knows_no_lives_goes_on(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = through_json(stream.latest(stream.initial()))
    old = replace(first, lives={})
    assert stream.latest(old) is old
    cluster.fill(queue(0), 1)
    second = stream.latest(old)
    assert stream.ranges(old, second) == ["orders/broker-a/0 [10, 11)"]
    cluster.make_again(queue(0), 11)
    assert stream.ranges(second, stream.latest(second)) == ["orders/broker-a/0 [0, 11)"]


@pytest.mark.parametrize("left", [15, 3])
def test_another_store_in_the_place_of_the_one_that_was_read_is_a_loss_of_what_was_not_read(
    cluster: PretendCluster, left: int
) -> None:
    cluster.stores[BROKER] = "one"
    cluster.fill(queue(0), 5)
    stream = Stream(cluster)
    first = stream.latest(stream.initial(), 4)
    assert first.stores == {BROKER: "one"}
    cluster.stores[BROKER] = "two"
    del cluster.records[queue(0)][left:]
    with pytest.raises(DataLoss, match="offsets 4 to 14 cannot be read: broker broker-a has another store"):
        stream.latest(first)


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("left", [10, 3, 0])
@pytest.mark.parametrize("later_s", [10.0, 0.01])
def test_another_store_is_read_from_its_beginning_when_the_one_before_was_read_to_its_end(
    cluster: PretendCluster, fails: str, left: int, later_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.stores[BROKER] = "one"
    stream = Stream(cluster, failOnDataLoss=fails)
    first = through_json(stream.latest(stream.initial()))
    cluster.stores[BROKER] = "two"
    del cluster.records[queue(0)][left:]
    cluster.fill(queue(0), 5)
    second = through_json(stream.latest(first, later_s=later_s))
    assert stream.ranges(first, second) == [f"orders/broker-a/0 [0, {left + 5})"]
    assert second.stores == {BROKER: "two"}
    assert "skipped" not in caplog.text


def test_a_queue_that_was_away_in_another_store_begins_anew_in_this_one(
    cluster: PretendCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.stores[BROKER] = "one"
    stream = Stream(cluster, failOnDataLoss="false")
    first = stream.latest(stream.initial(), 4)
    cluster.hidden.add(queue(0))
    stream.latest(first)
    second = through_json(stream.latest(first, later_s=31))
    cluster.stores[BROKER] = "two"
    third = through_json(stream.latest(second))
    assert "6 offsets of orders/broker-a/0 are skipped: offsets 4 to 9 cannot be read: broker" in caplog.text
    assert third.away == {}
    cluster.hidden.clear()
    assert stream.ranges(third, stream.latest(third)) == ["orders/broker-a/0 [0, 10)"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_broker_that_comes_back_emptied_while_another_is_looked_at_begins_anew(
    caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    cluster = ChangingCluster({queue(0): [], OTHER: []})
    cluster.empty(queue(0), "one", 10)
    cluster.empty(OTHER, "three", 2)
    stream = Stream(cluster, failOnDataLoss=fails)
    first = stream.latest(stream.initial())
    assert first.offsets == {queue(0): 10, OTHER: 2}
    cluster.hidden.add(OTHER)
    cluster.empty(queue(0), "two", 10)
    cluster.after("store_ids", lambda: cluster.empty(OTHER, "four", 5), lambda: stream.wait(1.0))
    second = next(end for _ in range(3) if (end := stream.latest(first)) is not first)
    assert second.stores == {BROKER: "two", "broker-b": "four"}
    assert stream.ranges(first, second) == ["orders/broker-a/0 [0, 10)", "orders/broker-b/0 [0, 5)"]
    assert "skipped" not in caplog.text


def test_a_store_that_is_replaced_twice_during_a_look_is_read_as_far_as_the_last_one_goes() -> None:
    cluster = ChangingCluster({queue(0): []})
    cluster.empty(queue(0), "one", 10)
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    cluster.empty(queue(0), "two", 10)
    cluster.after("store_ids", lambda: cluster.empty(queue(0), "three", 3))
    second = stream.latest(first)
    assert second.stores == {BROKER: "three"}
    assert stream.ranges(first, second) == ["orders/broker-a/0 [0, 3)"]


@pytest.mark.parametrize("edge", ["earliest", "latest"])
def test_a_stream_begins_in_one_store(edge: str) -> None:
    cluster = ChangingCluster({queue(0): []})
    cluster.empty(queue(0), "one", 10)
    cluster.expire(queue(0), 5)
    cluster.after("begins" if edge == "earliest" else "ends", lambda: cluster.empty(queue(0), "two", 3))
    initial = Stream(cluster, startingOffsets=edge).initial()
    assert initial.stores == {BROKER: "two"}
    assert initial.offsets == {queue(0): 0 if edge == "earliest" else 3}


def test_a_task_is_told_which_store_it_is_to_read(cluster: PretendCluster) -> None:
    cluster.stores[BROKER] = "one"
    stream = Stream(cluster)
    start = stream.initial()
    assert [piece.store for piece in stream.plan.ranges(start, stream.latest(start))] == ["one"]


def test_a_topic_that_is_not_subscribed_to_any_more_is_told_of_at_once(cluster: PretendCluster) -> None:
    cluster.fill(queue(0, "others"), 3)
    stream = Stream(cluster, subscribe="orders,others")
    first = stream.latest(stream.initial())
    for way, what in (
        ("subscribe", "orders"),
        ("subscribePattern", "or.*"),
        ("assign", '{"orders":{"broker-a":[0,1]}}'),
    ):
        stream.given = {way: what}
        stream.restarted()
        with pytest.raises(DataLoss, match="this query does not subscribe to it"):
            stream.latest(first)


def test_a_store_that_is_not_told_now_is_still_the_one_that_was(cluster: PretendCluster) -> None:
    cluster.stores[BROKER] = "one"
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    del cluster.stores[BROKER]
    cluster.fill(queue(0), 1)
    assert stream.latest(first, later_s=31).stores == {BROKER: "one"}


def test_a_broker_that_is_down_for_a_while_stops_nothing(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    first = stream.latest(stream.initial())
    cluster.down = ConnectError("10.0.0.7:10911", "refused")
    assert stream.latest(first) is first
    cluster.down = None
    cluster.fill(queue(0), 1)
    assert stream.latest(first).offsets[queue(0)] == 11
    cluster.down = ConnectError("10.0.0.7:10911", "refused")
    assert stream.latest(first) is first
    with pytest.raises(ConnectError):
        stream.latest(first, later_s=31)


def test_a_stream_does_not_begin_when_nobody_answers(cluster: PretendCluster) -> None:
    cluster.down = ConnectError("10.0.0.7:10911", "refused")
    with pytest.raises(ConnectError):
        Stream(cluster).initial()


def test_progress_reports_say_where_the_queues_end(cluster: PretendCluster) -> None:
    stream = Stream(cluster)
    assert stream.plan.reported() is None
    stream.latest(stream.initial(), 1)
    reported = stream.plan.reported()
    assert reported is not None
    assert reported.offsets[queue(0)] == 10


class Driver:
    """Spark's driver: writes down a batch's end, runs the batch, and notes that it is done. It may die in between."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.began: dict[MessageQueue, int] = {}
        self.written: list[Checkpoint] = []
        self.done: list[list[QueueRange]] = []

    def step(self, most: int, *, dies: bool) -> None:
        """Plan a batch unless one is written already, and run it unless the driver dies before."""
        start = self.written[len(self.done) - 1] if self.done else self.stream.initial()
        if len(self.written) == len(self.done):
            end = self.stream.latest(start, most)
            if end is start and self.written:
                return
            self.began = self.began or dict(start.offsets)
            self.written.append(through_json(end))
        if dies:
            self.stream.restarted()
        else:
            self.done.append(self.stream.plan.ranges(start, self.written[-1]))

    def check(self) -> None:
        """Every offset since the beginning is in one batch."""
        for name in self.stream.cluster.records:
            expected = self.began.get(name, 0)
            for piece in [piece for batch in self.done for piece in batch if piece.queue == name]:
                assert piece.start == expected
                expected = piece.end
            if self.done:
                assert expected == self.written[len(self.done) - 1].offsets.get(name, 0)


ACTS = st.lists(
    st.tuples(st.just("fill"), st.integers(0, 3), st.integers(1, 9))
    | st.tuples(st.just("batch"), st.integers(1, 12), st.booleans()),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(ACTS, st.sampled_from(["earliest", "latest"]), st.booleans())
def test_whenever_the_driver_dies_every_offset_is_in_exactly_one_batch(
    acts: list[tuple[str, int, int]], starting: str, prefilled: bool
) -> None:
    cluster = PretendCluster({queue(0): []})
    if prefilled:
        cluster.fill(queue(0), 5)
    driver = Driver(Stream(cluster, startingOffsets=starting))
    for act, one, other in acts:
        if act == "fill":
            cluster.fill(queue(one), other)
        else:
            driver.step(one, dies=bool(other))
    driver.check()
