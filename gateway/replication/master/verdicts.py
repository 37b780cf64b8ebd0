"""The verdicts about a peer at the port for slaves, as pure functions: who may copy, and which reports fit.

A host is an IP address, as connections show it. All offsets are offsets of the commit log.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Container, Mapping, Sequence

from gateway.settings.addresses import Address, parse_networks
from gateway.settings.replication import REGISTERED
from gateway.settings.tls import TlsMode

MASTER_ID = 0


def plain_host(host: str) -> str:
    """Return the IP address of a host as text, an IPv4 address in IPv6 as IPv4; other texts unchanged."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def is_listed(host: str, replica_hosts: str) -> bool:
    """Return whether ``gateway.replicaHosts`` names a host by its address."""
    if replica_hosts == REGISTERED:
        return False
    address = ipaddress.ip_address(plain_host(host))
    return any(address in network for network in parse_networks(replica_hosts))


def may_copy(host: str, replica_hosts: str, slaves: Mapping[int, Address], *, is_guarded: bool) -> bool:
    """Return whether a host may copy the log.

    :param slaves: the slaves that name servers list at this host.
    :param is_guarded: True if slaves show a token unless ``gateway.replicaHosts`` names their host.
    """
    if slaves and (is_guarded or replica_hosts == REGISTERED):
        return True
    return is_listed(host, replica_hosts)


def fault_of_entry(*, is_proven: bool, is_listed: bool, has_token: bool) -> str | None:
    """Return why a peer may not enter where accounts are checked; None if it may.

    :param is_proven: True if its token counts.
    :param is_listed: True if ``gateway.replicaHosts`` names the host.
    """
    if is_proven or is_listed:
        return None
    if has_token:
        return "its token was not given to its host or certificate, was used already, or is too old"
    return (
        "it shows no token, and accounts are checked: set innerClientAuthenticationCredentials at a gateway; a slave "
        "of Apache RocketMQ has no token and is let in if gateway.replicaHosts names its address"
    )


def fault_of_language(mode: TlsMode, *, is_tls: bool, is_listed: bool) -> str | None:
    """Return why a connection is refused by its first byte; None if it is not.

    :param is_listed: True if ``gateway.replicaHosts`` names the host, which may then speak plain.
    """
    if is_tls and mode is TlsMode.DISABLED:
        return "it speaks TLS, which is switched off here: tls.server.mode=permissive serves both"
    if not is_tls and mode is TlsMode.ENFORCING and not is_listed:
        return (
            "it speaks no TLS, and tls.server.mode=enforcing: set tls.enable=true at a gateway; a slave of Apache "
            "RocketMQ has no TLS here and is let in if gateway.replicaHosts names its address"
        )
    return None


def slaves_at(host: str, members: Mapping[int, Address], hosts_of: Mapping[str, Sequence[str]]) -> dict[int, Address]:
    """Return the slaves of a broker name whose registered address is at a host.

    :param members: the brokers of the name by id, as name servers list them.
    :param hosts_of: the IP addresses of the host names in ``members``.
    """
    wanted = plain_host(host)
    found = {
        broker_id: address
        for broker_id, address in members.items()
        if broker_id != MASTER_ID and wanted in map(plain_host, hosts_of.get(address.host, (address.host,)))
    }
    return dict(sorted(found.items()))


def in_turn(slaves: Mapping[int, Address], connected: Container[int]) -> list[int]:
    """Return the ids that a peer may have, those without a connection first: several slaves may share a host."""
    return sorted(slaves, key=lambda broker_id: (broker_id in connected, broker_id))


def fault_of_later(report: int, before: int, sent_end: int) -> str | None:
    """Return why a report cannot be true; None if it can."""
    if report > sent_end:
        return f"it reports {report} bytes, and {sent_end} were sent"
    if report < before:
        return f"it reports {report} bytes after {before}"
    return None
