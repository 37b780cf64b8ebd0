"""Settings of replication: who may copy, when the port opens, and how many copies are awaited."""

from __future__ import annotations

import pytest

from gateway.settings import Settings
from gateway.settings.replication import BrokerRole, replica_hosts_expected

SYNC = BrokerRole.SYNC_MASTER


@pytest.mark.parametrize(
    ("settings", "awaited", "opens"),
    [
        (Settings(), 0, False),
        (Settings(broker_role=SYNC), 1, True),
        (Settings(broker_role=SYNC, in_sync_replicas=1), 0, True),
        (Settings(broker_role=SYNC, in_sync_replicas=3), 2, True),
        (Settings(in_sync_replicas=3), 0, False),
        (Settings(ha_listen_port=0), 0, True),
        (Settings(ha_listen_port=10_912), 0, True),
    ],
)
def test_the_role_decides_on_copies_and_a_set_port_opens(settings: Settings, awaited: int, opens: bool) -> None:
    assert (settings.copies_awaited, settings.opens_ha_port) == (awaited, opens)


@pytest.mark.parametrize("text", ["registered", "10.0.0.0/8", "10.0.0.1,10.0.0.2", "::1"])
def test_hosts_are_those_registered_or_networks(text: str) -> None:
    assert replica_hosts_expected(text) is None


@pytest.mark.parametrize("text", ["anybody", "registered,10.0.0.1", "10.0.0.0/99"])
def test_other_words_for_hosts_are_refused(text: str) -> None:
    assert str(replica_hosts_expected(text)).startswith("registered, or IP addresses or networks")
