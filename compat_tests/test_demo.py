"""The demonstration, whole, with each choice of producers; and its Java producers without Spark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from compat_tests.environment import REPOSITORY, engine, wait_until
from demo.java_producers import build_image, java_producers
from demo.orders import Orders, Shop
from gateway.client import AdminClient
from gateway.client.testing.plugin import GatewayForTest

TIMEOUT_S = 240.0
"""On a busy machine; it takes half a minute."""


@pytest.fixture(scope="session")
def rocketmq_gateway_settings() -> dict[str, str]:
    """Checks come as soon as in the demonstration."""
    return {"transactionTimeOut": "1000", "transactionCheckInterval": "500"}


@pytest.fixture
def spark() -> None:
    """Skip the tests if Spark is not installed (`make setup-spark`), except in CI."""
    if "CI" not in os.environ:
        pytest.importorskip("pyspark")


@contextmanager
def demo(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the demonstration in a process group of its own."""
    command = [sys.executable, "-m", "demo", "--output", str(folder / "out"), *arguments]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None, "it is a pipe"
        process.stdout.close()


def containers() -> list[str]:
    """Return the containers of demonstrations, running or not."""
    with engine() as client:
        found = client.containers.list(all=True, filters={"name": "rocketmq-gateway-demo"}, ignore_removed=True)
        return [container.name for container in found]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("producers", ["java", "python"])
def test_the_demonstration_ends_by_itself_with_a_right_archive_and_a_report(tmp_path: Path, producers: str) -> None:
    with demo(tmp_path, "--producers", producers, "--seconds", "3") as process:
        said, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, said
    assert f"2 {producers.capitalize()} producers place orders for 3 s" in said
    assert "each one there once, none of the others" in said
    assert "checks were answered" in said
    amounts = re.findall(r"\| *(\d+\.\d+)\|", said)
    assert amounts, "the totals of the customers"
    assert all(re.fullmatch(r"\d+\.\d\d", amount) for amount in amounts), said
    assert "<html" in (tmp_path / "out" / "report.html").read_text()
    assert not containers(), said


@pytest.mark.usefixtures("spark")
def test_an_interrupted_demonstration_leaves_no_process_and_no_container(tmp_path: Path) -> None:
    with demo(tmp_path, "--producers", "java", "--seconds", "60") as process:
        wait_until(lambda: bool(containers()), "the producers' container runs", timeout_s=TIMEOUT_S)
        started = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
        said, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130, said
    assert "] stopped\n" in said
    _, alive = psutil.wait_procs(started, timeout=30)
    assert not alive
    assert not containers()


def test_javas_producers_place_orders_and_answer_checks(rocketmq_gateway: GatewayForTest) -> None:
    topic = rocketmq_gateway.topic(queues=4)
    orders = Orders()
    shop = Shop(rocketmq_gateway.nameserver, topic, (rocketmq_gateway.group(), rocketmq_gateway.group()), orders)
    with java_producers(build_image(), shop) as producers:
        producers.trade(2)
        assert orders.committed
        assert orders.rolled_back
        wait_until(lambda: not orders.forgotten, "the broker asks for the forgotten ones", timeout_s=60)
    with AdminClient(namesrv=rocketmq_gateway.nameserver) as admin:
        wait_until(lambda: len(orders.committed) == stored(admin, topic), "what is committed is there")
    assert not containers()


def stored(admin: AdminClient, topic: str) -> int:
    """Messages that a topic has."""
    return sum(queue.max_offset for queue in admin.topics.stats(topic).values())
