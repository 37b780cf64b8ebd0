"""Checks of the address that clients get: whether they reach the broker there, as far as this machine can know.

A port mapping, or a router with another address, may forward to the broker. Therefore nothing is refused here: the
operator only gets a warning that says what to check.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

from gateway.settings import Address, Settings
from gateway.settings.addresses import ADVERTISE_AUTO, interface_expected, listens_for


def fixed_address(settings: Settings, listen_port: int) -> Address | None:
    """Return the address that every client gets; None if the address depends on the way by which a client came."""
    host, port = settings.advertised
    return None if host is None else Address(host, listen_port if port is None else port)


def is_of_this_machine(host: str) -> bool:
    """Return whether an IP address belongs to this machine, as far as the system says so.

    Host names are not looked up: they count as addresses of this machine.
    """
    try:
        family = socket.AF_INET if ipaddress.ip_address(host).version == 4 else socket.AF_INET6
    except ValueError:
        return True
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.bind((host, 0))
    except OSError:
        return False
    return True


def unheard(
    settings: Settings,
    advertised: Address,
    listen_port: int,
    is_own: Callable[[str], bool] = is_of_this_machine,
) -> str | None:
    """Return the fault of the address that clients get, with advice; None if the broker listens there.

    :param listen_port: the main port, which is known once it is open.
    """
    key = "brokerIP1" if settings.advertise.strip().lower() == ADVERTISE_AUTO else "gateway.advertise"
    if not listens_for(settings.bind_address, advertised.host):
        is_literal = interface_expected(advertised.host) is None
        bind = advertised.host if is_literal else "0.0.0.0"  # noqa: S104 - an advice
        return (
            f"clients are told {advertised} ({key}), but only {settings.bind_address} is listened on, so they are "
            f"refused unless something forwards: listen there with --bind {bind} (bindAddress), or leave {key} out"
        )
    if not is_own(advertised.host):
        return (
            f"clients are told {advertised} ({key}), which is no address of this machine, so they are refused unless "
            f"something forwards: name one that --bind {settings.bind_address} (bindAddress) listens on, or leave "
            f"{key} out"
        )
    if advertised.port != listen_port:
        return (
            f"clients are told {advertised} ({key}), but port {listen_port} is listened on, so they are refused unless "
            f"something forwards: leave the port out, or listen there with --port {advertised.port} (listenPort)"
        )
    return None


def unheard_at(settings: Settings, name_server: Address, reached_at: str) -> str | None:
    """Return the fault of the address that a name server gets for us; None if the broker listens there.

    The address is ours, and the name server is reached from there.
    """
    if settings.advertised.host is not None or listens_for(settings.bind_address, reached_at):
        return None
    return (
        f"clients of the name server {name_server} are told {reached_at}, from where we reach it, but only "
        f"{settings.bind_address} is listened on, so they are refused unless something forwards: listen there with "
        f"--bind {reached_at} (bindAddress), or name the right address with --advertise (gateway.advertise)"
    )
