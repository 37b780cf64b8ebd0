"""The bodies about a sync state set and about epochs: the texts of Apache RocketMQ's controller and brokers."""

from __future__ import annotations

from wire.bodies.controller import EpochSpan, EpochSpans, SyncStateSet
from wire.tests.bodies.strategies import assert_comes_back


def test_a_sync_state_set_is_as_a_java_controller_writes_it() -> None:
    text = b'{"syncStateSet":[1,2],"syncStateSetEpoch":1}'
    assert SyncStateSet.parse(text) == SyncStateSet((1, 2), 1)
    assert SyncStateSet((1, 2), 1).build() == text


def test_the_body_of_an_election_has_the_set_beside_the_addresses() -> None:
    text = b'{"brokerMemberGroup":{"brokerAddrs":{1:"h:1",2:"h:2"},"brokerName":"b","cluster":"c"},"syncStateSet":[2]}'
    assert SyncStateSet.parse(text).sync_state_set == (2,)


def test_epochs_are_as_a_java_broker_writes_them() -> None:
    epochs = EpochSpans("c", "b", 1, (EpochSpan(1, 0, 723), EpochSpan(2, 723, 2**63 - 1)), 1205)
    assert epochs.build() == (
        b'{"brokerId":1,"brokerName":"b","clusterName":"c","epochList":'
        b'[{"endOffset":723,"epoch":1,"startOffset":0},{"endOffset":9223372036854775807,"epoch":2,"startOffset":723}],'
        b'"maxOffset":1205}'
    )
    assert_comes_back(epochs)
