"""Pulls are on their way before they are needed, and none is forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.client.errors import ConnectionLost
from gateway.spark.errors import DataLoss
from gateway.spark.reading import pulls as module
from gateway.spark.reading.planning import QueueRange
from gateway.spark.reading.pulls import Pulls
from gateway.tests.spark.pretend_cluster import BROKER, PretendCluster, pull_answer, queue
from gateway.tests.spark.reading.test_planning import options
from wire.codes import ResponseCode
from wire.command import RemotingCommand

COUNT = 1000


@pytest.fixture
def cluster() -> PretendCluster:
    """A thousand messages, of which a pull gives 32."""
    found = PretendCluster({queue(0): []})
    found.fill(queue(0), COUNT)
    return found


def pulls(cluster: PretendCluster, store: str = "", **given: Any) -> Pulls:
    pretended: Any = cluster
    work = QueueRange(queue(0), 0, COUNT, store)
    return Pulls(pretended, options(**given), work, wait=lambda _: None, now=lambda: 0.0)


def asked(cluster: PretendCluster) -> list[tuple[int, int]]:
    return [(pull.queue_offset, pull.max_msg_nums) for pull in cluster.pulls]


def test_several_are_on_their_way_where_answers_are_small(cluster: PretendCluster) -> None:
    answers = pulls(cluster).answers()
    next(answers)
    assert asked(cluster) == [(0, COUNT)] + [(32 * place, 32) for place in range(1, 1 + module.LOOKAHEAD)]


def test_every_message_is_asked_for_once(cluster: PretendCluster) -> None:
    assert [answer.next_offset for answer in pulls(cluster).answers()] == [*range(32, COUNT, 32), COUNT]
    assert sorted(start for start, _ in asked(cluster)) == list(range(0, COUNT, 32))
    assert cluster.unanswered == 0


def test_an_answer_shorter_than_expected_leaves_no_gap(cluster: PretendCluster) -> None:
    its = cluster.records[queue(0)]
    cluster.faults.extend([None, pull_answer(ResponseCode.SUCCESS, 40, 0, COUNT, b"".join(its[32:40]))])
    ends = [answer.next_offset for answer in pulls(cluster).answers()]
    assert ends[:3] == [32, 40, 64]
    assert ends[-1] == COUNT
    assert (40, 24) in asked(cluster)


def test_one_is_on_its_way_where_answers_are_large(cluster: PretendCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGE_ANSWER", 32)
    next(pulls(cluster).answers())
    assert asked(cluster) == [(0, COUNT), (32, 32)]


def test_a_broker_that_begins_to_give_more_is_asked_for_more(
    cluster: PretendCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_AGAIN", 5)
    answers = pulls(cluster).answers()
    next(answers)
    cluster.per_pull = 500
    assert [answer.next_offset for answer in answers][-1] == COUNT
    assert max(count for start, count in asked(cluster) if start) > 32


def test_where_a_filter_leaves_messages_out_nothing_can_be_told_in_advance(cluster: PretendCluster) -> None:
    answers = pulls(cluster, subExpression="paid").answers()
    next(answers)
    assert asked(cluster) == [(0, COUNT), (32, COUNT - 32)]


def test_after_a_failure_what_was_on_its_way_is_asked_for_again(cluster: PretendCluster) -> None:
    cluster.faults.extend([None, None, ConnectionLost("10.0.0.7:10911", "reset")])
    assert [answer.next_offset for answer in pulls(cluster).answers()][-1] == COUNT
    assert cluster.unanswered == 0


def test_the_size_of_a_pull_may_be_set(cluster: PretendCluster) -> None:
    next(pulls(cluster, pullBatchSize="7").answers())
    assert asked(cluster)[0] == (0, 7)


class Replaced(PretendCluster):
    """A cluster whose broker is started again, with another store, before one of the answers."""

    def __init__(self, before_answer: int) -> None:
        super().__init__({queue(0): []})
        self.fill(queue(0), COUNT)
        self.stores[BROKER] = "one"
        self._left = before_answer
        self._link: Any = _Link(self)

    def broker(self, broker_name: str, topic: str, *, fresh: bool = False) -> Any:
        return self._link

    def _pulled(self, command: RemotingCommand) -> RemotingCommand:
        self._left -= 1
        if self._left == 0:
            self.stores[BROKER] = "two"
            self._link = _Link(self)
            raise ConnectionLost(self.address, "reset")
        return super()._pulled(command)


class _Link:
    """A connection to the broker."""

    address = "10.0.0.7:10911"

    def __init__(self, cluster: PretendCluster) -> None:
        self.call, self.start, self.finish, self.abandon = cluster.call, cluster.start, cluster.finish, cluster.abandon


@pytest.mark.parametrize(("before_answer", "read"), [(1, 0), (3, 64)])
def test_a_store_that_was_replaced_after_the_plan_is_a_loss_and_not_read(before_answer: int, read: int) -> None:
    with pytest.raises(DataLoss, match=f"offsets {read} to 999 cannot be read: broker broker-a has another store"):
        list(pulls(Replaced(before_answer), "one").answers())
    found = list(pulls(Replaced(before_answer), "one", failOnDataLoss="false").answers())
    assert [answer.next_offset for answer in found if not answer.is_loss][-1:] == [read][:read]
    assert (found[-1].next_offset, found[-1].is_loss) == (COUNT, True)


class Remembering(PretendCluster):
    """A cluster that has a connection to a broker that is no more, and remembers the store of that one."""

    def __init__(self) -> None:
        super().__init__({queue(0): []})
        self.fill(queue(0), COUNT)
        self.stores[BROKER] = "one"
        self._link: Any = _Link(self)

    def broker(self, broker_name: str, topic: str, *, fresh: bool = False) -> Any:
        return self._link

    def forget(self, broker_name: str) -> None:
        self.stores[BROKER] = "two"
        self._link = _Link(self)


def test_what_is_remembered_of_a_connection_to_a_broker_that_was_emptied_since_is_no_loss() -> None:
    cluster = Remembering()
    assert [answer.next_offset for answer in pulls(cluster, "two").answers()][-1] == COUNT
    assert cluster.unanswered == 0


def test_a_broker_that_does_not_tell_its_store_is_read(cluster: PretendCluster) -> None:
    assert [answer.next_offset for answer in pulls(cluster, "one").answers()][-1] == COUNT
