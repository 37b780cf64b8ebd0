"""The modules that a client loads: none that only few need. A busy machine changes seconds, so modules are counted."""

from __future__ import annotations

import subprocess
import sys

import pytest

SELDOM = (
    "construct",
    "twisted",
    "opentelemetry",
    "lz4",
    "zstandard",
    "click",
    "gateway.broker",
    "gateway.store",
    "gateway.client.send.trace_sender",
    "gateway.client.send.consume_trace",
    "gateway.client.testing",
)


def loaded_with(name: str, package: str = "gateway.client") -> set[str]:
    code = f"import sys; from {package} import {name}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def own(modules: set[str]) -> set[str]:
    return {module for module in modules if module.startswith(("gateway", "wire"))}


FIRST_USE = ("wire.signature", "wire.bodies.topics")
"""What even an asyncio client loads only when it signs, or has connected."""


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("Message", 25),
        ("Producer", 51),
        ("TransactionProducer", 56),
        ("PushConsumer", 35),
        ("LitePullConsumer", 31),
        ("SimpleConsumer", 29),
        ("AdminClient", 18),
    ],
)
def test_a_blocking_name_loads_neither_the_loop_nor_the_client_that_runs_on_it(name: str, most: int) -> None:
    modules = loaded_with(name)
    assert not modules.intersection((*SELDOM, "asyncio", "ssl", "gateway.client.connect.client", *FIRST_USE))
    assert len(own(modules)) <= most, sorted(own(modules))


@pytest.mark.parametrize(
    ("name", "most", "others"),
    [
        ("Producer", 73, (*FIRST_USE, "gateway.client.admin.admin", "gateway.client.allocation")),
        ("PushConsumer", 108, ("gateway.client.consume.pop.pops", "gateway.client.admin.admin", "wire.bodies.pop")),
        ("SimpleConsumer", 81, ("gateway.client.consume.pull_loop", "gateway.client.admin.admin")),
        ("AdminClient", 89, ("gateway.client.consume.pull_loop", "gateway.client.send.producer")),
    ],
)
def test_a_name_for_asyncio_loads_what_it_needs_and_little_else(name: str, most: int, others: tuple[str, ...]) -> None:
    modules = loaded_with(name, "gateway.client.aio")
    assert not modules.intersection((*SELDOM, *others))
    assert len(own(modules)) <= most, sorted(own(modules))


@pytest.mark.parametrize("name", ["PushConsumer", "LitePullConsumer", "SimpleConsumer", "AdminClient"])
def test_who_only_consumes_loads_neither_messages_nor_what_other_clients_are_set_by(name: str) -> None:
    modules = loaded_with(name)
    assert not modules.intersection(
        ("msgspec", "hashlib", "gateway.client.message", "gateway.client.connect.producer_settings")
    )
    assert len({module for module in modules if module.endswith("_settings")}) <= 2  # its own and the consumers'


def test_the_package_itself_loads_next_to_nothing() -> None:
    code = "import sys, gateway.client; print(*(name for name in sys.modules if name.startswith(('gateway', 'wire'))))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert set(found) == {"gateway", "gateway.client", "gateway.client.default_log"}
