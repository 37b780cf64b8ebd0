"""What is loaded with a client: not what few need. Modules are counted, not seconds, which a busy machine changes."""

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
    "gateway.client.aio.tracing",
    "gateway.client.consume_trace",
    "gateway.client.testing",
)


def loaded_with(name: str) -> set[str]:
    code = f"import sys; from gateway.client import {name}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize(
    ("name", "most", "others"),
    [
        ("Message", 30, ("asyncio", "ssl", "gateway.client.aio")),
        ("Producer", 80, ("gateway.client.aio.admin", "gateway.client.allocation", "gateway.client.aio.pull_loop")),
        ("PushConsumer", 105, ("gateway.client.aio.pops", "gateway.client.aio.admin", "wire.bodies.pop")),
        ("SimpleConsumer", 80, ("gateway.client.aio.pull_loop", "gateway.client.aio.admin")),
        ("AdminClient", 85, ("gateway.client.aio.pull_loop", "gateway.client.aio.producer")),
    ],
)
def test_a_name_loads_what_it_needs_and_little_else(name: str, most: int, others: tuple[str, ...]) -> None:
    modules = loaded_with(name)
    assert not modules.intersection((*SELDOM, *others))
    own = {module for module in modules if module.startswith(("gateway", "wire"))}
    assert len(own) <= most, sorted(own)


def test_the_package_itself_loads_next_to_nothing() -> None:
    code = "import sys, gateway.client; print(*(name for name in sys.modules if name.startswith(('gateway', 'wire'))))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert found == ["gateway", "gateway.client"]
