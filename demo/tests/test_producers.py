from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from demo import producers
from demo.java_producers import JavaProducersMissingError
from demo.orders import Orders, Shop
from demo.producers import Choice, image_of, start_producers

SHOP = Shop("127.0.0.1:9876", "orders", ("web-shop",), Orders())


class Some:
    def __init__(self, name: str) -> None:
        self.name = name

    def trade(self, seconds: float) -> None:
        """Nothing is placed."""


@pytest.fixture(autouse=True)
def python(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def start(shop: Shop) -> Iterator[Some]:
        yield Some("Python")

    monkeypatch.setattr(producers, "python_producers", start)


def java(monkeypatch: pytest.MonkeyPatch, trouble: str = "") -> None:
    @contextmanager
    def start(image: str, shop: Shop) -> Iterator[Some]:
        if trouble:
            raise JavaProducersMissingError(trouble)
        yield Some("Java")

    monkeypatch.setattr(producers, "java_producers", start)


def build(monkeypatch: pytest.MonkeyPatch, trouble: str = "") -> None:
    def build_image() -> str:
        if trouble:
            raise JavaProducersMissingError(trouble)
        return "sha256:5409"

    monkeypatch.setattr(producers, "build_image", build_image)


def test_where_docker_is_the_producers_are_javas(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    build(monkeypatch)
    java(monkeypatch)
    image = image_of(Choice.AUTO, said.append)
    with start_producers(Choice.AUTO, image, SHOP, said.append) as started:
        assert started.name == "Java"
    assert "the first time it is downloaded" in said[0], "who waits is told for what"


def test_without_docker_they_are_pythons_and_one_line_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    build(monkeypatch, "there is no docker on this machine")
    image = image_of(Choice.AUTO, said.append)
    with start_producers(Choice.AUTO, image, SHOP, said.append) as started:
        assert started.name == "Python"
    assert said[1:] == ["the producers are Python's: there is no docker on this machine"]


def test_a_container_that_does_not_start_is_replaced_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    java(monkeypatch, "the Java program ended: No route info")
    with start_producers(Choice.AUTO, "sha256:5409", SHOP, said.append) as started:
        assert started.name == "Python"
    assert said == ["the producers are Python's: the Java program ended: No route info"]


def test_python_by_choice_asks_for_no_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    build(monkeypatch, "it was asked")
    said: list[str] = []
    assert image_of(Choice.PYTHON, said.append) is None
    assert said == []


def test_java_by_choice_fails_without_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    build(monkeypatch, "there is no docker on this machine")
    with pytest.raises(JavaProducersMissingError, match="there is no docker"):
        image_of(Choice.JAVA, lambda _: None)


def test_java_by_choice_fails_when_the_container_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    java(monkeypatch, "the Java program ended")
    with (
        pytest.raises(JavaProducersMissingError, match="the Java program ended"),
        start_producers(Choice.JAVA, "sha256:5409", SHOP, lambda _: None),
    ):
        pytest.fail("nothing else will do")
