"""The table of connected clients."""

from __future__ import annotations

from gateway.membership.clients import Clients
from gateway.tests.remoting.conversation import Conversation


def test_a_connection_has_one_client_and_the_last_heartbeat_describes_it() -> None:
    channel = Conversation().connect("192.0.2.9").channel
    clients = Clients()
    first, is_new = clients.seen(channel, "c1", 0, 409, 1_000)
    again, is_new_again = clients.seen(channel, "c1b", 5, 513, 2_000)
    assert (is_new, is_new_again) == (True, False)
    assert first is again
    assert (again.client_id, again.language, again.version, again.last_heartbeat_ms) == ("c1b", 5, 513, 2_000)
    assert again.address == f"192.0.2.9:{channel.remote[1]}"
    assert [client.client_id for client in clients] == ["c1b"]
    assert len(clients) == 1
    assert (clients.id_of(channel), clients.id_of(Conversation().connect().channel)) == ("c1b", "")


def test_a_client_leaves_once() -> None:
    clients = Clients()
    client, _ = clients.seen(Conversation().connect().channel, "c", 0, 513, 1_000)
    assert clients.remove(client.channel) is client
    assert clients.remove(client.channel) is None
    assert clients.get(client.channel) is None


def test_a_producer_is_found_by_the_client_id_that_it_has_now() -> None:
    server = Conversation()
    clients = Clients()
    consumer, _ = clients.seen(server.connect().channel, "c1", 0, 513, 1_000)
    first, _ = clients.seen(server.connect().channel, "c1", 0, 513, 1_000)
    second, _ = clients.seen(server.connect().channel, "c1", 0, 513, 1_000)
    consumer.consumer_groups["g"] = 1
    assert clients.producer_of("c1") is None
    for producer in (first, second):
        producer.producer_groups["g"] = 1
    assert clients.producer_of("c1") is first
    clients.seen(first.channel, "c2", 0, 513, 2_000)
    assert (clients.producer_of("c1"), clients.producer_of("c2")) == (second, first)
    clients.remove(second.channel)
    assert clients.producer_of("c1") is None
    for client in (consumer, first):
        clients.remove(client.channel)
    assert clients._by_id == {}
