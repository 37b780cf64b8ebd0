from __future__ import annotations

import pytest

from gateway.access.policies.resources import Pattern, Resource, address_of, network_of


@pytest.mark.parametrize(
    ("text", "kind", "pattern", "name"),
    [
        ("*", "", Pattern.ANY, ""),
        ("Topic:orders", "Topic", Pattern.LITERAL, "orders"),
        ("topic:orders", "Topic", Pattern.LITERAL, "orders"),
        ("GROUP:ord*", "Group", Pattern.PREFIXED, "ord"),
        ("Cluster:*", "Cluster", Pattern.ANY, ""),
        ("Topic:a*b", "Topic", Pattern.LITERAL, "a*b"),  # only a star at the end counts
        ("Topic:a*b*", "Topic", Pattern.PREFIXED, "a"),  # and then the name ends at the first one
        ("Topic:**", "Topic", Pattern.ANY, ""),
        ("Topic:%DLQ%g", "Topic", Pattern.LITERAL, "%DLQ%g"),
        ("Topic:a:b", "Topic", Pattern.LITERAL, "a:b"),
        ("Namespace:n", "Namespace", Pattern.LITERAL, "n"),
    ],
)
def test_a_resource_is_read(text: str, kind: str, pattern: Pattern, name: str) -> None:
    assert Resource.parse(text) == Resource(kind, pattern, name)


@pytest.mark.parametrize(
    "text",
    ["", "orders", "Topic:", "Topic", ":orders", "Any:x", "User:x", "Topic: ", "Topic:a\nb", "Topic:" + "x" * 256],
)
def test_a_text_that_names_nothing_is_no_resource(text: str) -> None:
    assert Resource.parse(text) is None


@pytest.mark.parametrize("text", ["*", "Topic:orders", "Group:ord*", "Cluster:*", "Topic:a*b"])
def test_a_resource_is_written_as_it_was_read(text: str) -> None:
    assert str(Resource.parse(text)) == text


@pytest.mark.parametrize(
    ("source", "inside", "outside"),
    [
        ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
        ("10.1.0.0/16", "10.1.255.1", "10.2.0.1"),
        ("10.1.2.3/16", "10.1.9.9", "10.2.0.1"),
        ("10.1.2.3", "::ffff:10.1.2.3", "::1"),
        ("::ffff:10.1.0.0/112", "10.1.9.9", "10.2.0.1"),
        ("2001:db8::1", "2001:0db8:0:0::0001", "2001:db8::2"),
        ("2001:db8::/32", "2001:db8:1::5", "2001:db9::1"),
        ("fe80::/10", "fe80::1%eth0", "10.0.0.1"),
        ("0.0.0.0/0", "1.2.3.4", "::1"),
    ],
)
def test_a_network_holds_its_addresses_in_any_spelling(source: str, inside: str, outside: str) -> None:
    network = network_of(source)
    assert network is not None
    assert [address_of(host) in network for host in (inside, outside)] == [True, False]


@pytest.mark.parametrize(
    "text", ["", "*", "10.1.*.*", "10.1.2", "localhost", "10.1.2.3/33", "10.1.2.3,10.1.2.4", "fe80::1%a"]
)
def test_a_text_that_is_no_address_and_no_network_is_refused(text: str) -> None:
    assert network_of(text) is None


def test_a_host_that_is_no_address_has_none() -> None:
    assert address_of("unknown") is None
