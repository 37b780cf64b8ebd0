from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from demo import java_producers
from demo.java_producers import JavaProducers, JavaProducersMissingError, build_image
from demo.orders import Orders, Shop
from demo.tests import fake_docker


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put a Docker on the path that has a trouble, or none; the file with what it was asked."""

    def put(trouble: str = "") -> Path:
        calls = tmp_path / "calls"
        script = tmp_path / "docker"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake_docker.__file__}" "$@"\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("FAKE_DOCKER", trouble)
        monkeypatch.setenv("FAKE_DOCKER_CALLS", str(calls))
        return calls

    return put


def shop() -> Shop:
    return Shop("127.0.0.1:9876", "orders", ("web-shop", "call-centre"), Orders())


def test_what_the_container_says_of_its_orders_is_noted(engine: Callable[..., Path]) -> None:
    calls = engine()
    made = shop()
    with java_producers.java_producers(build_image(), made) as producers:
        producers.trade(1.5)
    assert (made.orders.committed, made.orders.rolled_back) == ({"A", "C"}, {"B"})
    assert made.orders.forgotten == {"D": False}
    assert made.orders.checks == 1
    ran = calls.read_text().splitlines()[-1]
    assert ran.startswith("run --interactive --rm --network host --name rocketmq-gateway-demo-")
    assert ran.endswith("sha256:5409 127.0.0.1:9876 orders web-shop call-centre")


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("no engine", "no Docker engine answers: Cannot connect to the Docker daemon"),
        ("no build", "the image does not build: Step 2: unable to resolve host"),
    ],
)
def test_an_image_that_cannot_be_had_is_told_in_a_line(engine: Callable[..., Path], trouble: str, said: str) -> None:
    engine(trouble)
    with pytest.raises(JavaProducersMissingError) as error:
        build_image()
    assert str(error.value) == said


def test_an_engine_that_does_not_answer_is_not_waited_for(
    engine: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine("hangs")
    monkeypatch.setattr(java_producers, "ENGINE_TIMEOUT_S", 0.5)
    with pytest.raises(JavaProducersMissingError, match=r"no Docker engine answers: not within 0\.5 s"):
        build_image()


def test_without_docker_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaProducersMissingError, match="there is no docker on this machine"):
        build_image()


def test_a_program_that_does_not_start_is_told_by_its_last_words(engine: Callable[..., Path]) -> None:
    engine("no route")
    with (
        pytest.raises(JavaProducersMissingError, match="the Java program ended: No route info of this topic: orders"),
        java_producers.java_producers("image", shop()),
    ):
        pytest.fail("it is not ready")


def test_a_program_that_dies_while_it_trades_is_told(engine: Callable[..., Path]) -> None:
    engine("dies")
    with (
        pytest.raises(JavaProducersMissingError, match="ended: failed RemotingTooMuchRequestException"),
        java_producers.java_producers("image", shop()) as producers,
    ):
        producers.trade(1)


def test_a_container_that_does_not_end_is_removed(engine: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = engine("stays")
    monkeypatch.setattr(java_producers, "STOP_TIMEOUT_S", 0.5)
    producers = JavaProducers("image", shop())
    producers.wait_for("ready", 30)
    producers.close()
    assert calls.read_text().splitlines()[-1] == f"rm --force rocketmq-gateway-demo-{os.getpid()}"
