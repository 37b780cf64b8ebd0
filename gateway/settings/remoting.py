"""Settings of the listening sockets and their connections, for broker and name server alike."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.settings.addresses import interface_expected, networks_expected
from gateway.settings.declare import Mark, Range, setting
from gateway.settings.tls import ServerTlsSettings


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class RemotingSettings(ServerTlsSettings):
    """Sockets, and the limits of a connection. The class has no slots, because ``Settings`` joins several groups."""

    bind_address: str = setting(
        "127.0.0.1",
        "bindAddress",
        "Address to listen on; 0.0.0.0 is every IPv4 network (Apache's default), :: also IPv6.",
        within=interface_expected,
    )
    proxy_addresses: str = setting(
        "",
        "gateway.proxyProtocolAddresses",
        "Proxies that are believed when they name the client (PROXY protocol): addresses or networks "
        "(10.0.0.0/8), separated by commas; each of their connections has to begin with a header.",
        networks_expected,
    )
    server_socket_backlog: int = setting(
        1_024, "serverSocketBacklog", "Connections the system accepts on our behalf before we do.", Range(1, 65_535)
    )
    server_channel_max_idle_time_seconds: int = setting(
        120,
        "serverChannelMaxIdleTimeSeconds",
        "A connection on which nothing was received or sent for this long is closed.",
        Range(1, 86_400, "seconds"),
        marks=Mark.LIMIT,
    )
    max_connections: int = setting(
        20_000,
        "gateway.maxConnections",
        "Connections open at once; further ones are closed when they arrive.",
        Range(1, 1_000_000),
        marks=Mark.LIMIT,
    )
    reserved_descriptors: int = setting(
        1_024,
        "gateway.reservedDescriptors",
        "Open files that connections leave to the store, at most half of what the system allows (ulimit -n); beyond "
        "this idle connections are closed, or the new one is.",
        Range(16, 1_000_000),
        marks=Mark.LIMIT,
    )
    max_frame_bytes: int = setting(
        16_777_216,
        "gateway.maxFrameBytes",
        "Longest request accepted; clients of Apache RocketMQ stop at 16 MiB too.",
        Range(65_536, 16_777_216, "bytes"),
        marks=Mark.LIMIT,
    )
    incomplete_frame_bytes_limit: int = setting(
        134_217_728,
        "gateway.incompleteFrameBytesLimit",
        "Incomplete requests held for all connections of a server together, at most two thirds of "
        "gateway.heldBytesTotal; beyond this the one that holds the most is closed.",
        Range(16_777_216, 1_099_511_627_776, "bytes"),
        marks=Mark.LIMIT,
    )
    unsent_bytes_limit: int = setting(
        33_554_432,
        "gateway.unsentBytesLimit",
        "Answers waiting for a client that does not read; beyond this its connection is closed.",
        Range(65_536, 2_147_483_647, "bytes"),
        marks=Mark.LIMIT,
    )
    unsent_bytes_total: int = setting(
        268_435_456,
        "gateway.unsentBytesTotal",
        "Answers waiting for all clients of a server together. From three quarters of it on large answers wait, and "
        "connections that do not read are closed; beyond it the one that holds the most is closed.",
        Range(16_777_216, 1_099_511_627_776, "bytes"),
        marks=Mark.LIMIT,
    )
    held_bytes_total: int = setting(
        201_326_592,
        "gateway.heldBytesTotal",
        "Incomplete requests, long lists in the making and answers waiting for clients, of all servers of a process "
        "together. From three quarters of it on large answers wait; beyond it connections are closed.",
        Range(33_554_432, 1_099_511_627_776, "bytes"),
        marks=Mark.LIMIT,
    )
    call_timeout_ms: int = setting(
        3_000,
        "gateway.callTimeoutMs",
        "Time a client or a name server has to answer a request of ours.",
        Range(100, 600_000, "ms"),
    )
    short_ways: bool = setting(
        True,
        "gateway.shortWays",
        "Read, store and answer frequent requests, and wait for sockets, threads and disks, in shorter ways. The plain "
        "ways give the same answers more slowly: take them (false) to see whether a fault comes from a short one.",
    )
