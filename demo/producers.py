"""The producers that place the orders: in Java if possible, otherwise in Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import Protocol

from demo.java_producers import JavaProducersMissingError, build_image, java_producers
from demo.orders import Shop
from demo.python_producers import python_producers


class Choice(StrEnum):
    """The choice of the producers' language; ``AUTO``: Java, if it can run."""

    AUTO = "auto"
    JAVA = "java"
    PYTHON = "python"


class Producers(Protocol):
    """The producers: they place orders on request, and answer checks until they are closed."""

    name: str

    def trade(self, seconds: float) -> None:
        """Place orders for so long, at least one from each producer."""


def image_of(choice: Choice, say: Callable[[str], None]) -> str | None:
    """The image of the Java producers; None where they are not wanted, or cannot be had.

    :raises JavaProducersMissingError: they cannot be had, and nothing else will do.
    """
    if choice is Choice.PYTHON:
        return None
    say("preparing a container of the Java client; the first time it is downloaded, in a minute or two …")
    begun = time.monotonic()
    try:
        image = build_image()
    except JavaProducersMissingError as error:
        _fall_back(choice, error, say)
        return None
    say(f"prepared in {time.monotonic() - begun:.0f} s")
    return image


@contextmanager
def start_producers(choice: Choice, image: str | None, shop: Shop, say: Callable[[str], None]) -> Iterator[Producers]:
    """A producer for each group, that notes what becomes of its orders; closed with the block.

    :param image: of the Java producers, if they are to be tried.
    :raises JavaProducersMissingError: the container does not start, and nothing else will do.
    """
    with ExitStack() as stack:
        producers: Producers | None = None
        if image is not None:
            try:
                producers = stack.enter_context(java_producers(image, shop))
            except JavaProducersMissingError as error:
                _fall_back(choice, error, say)
        yield producers or stack.enter_context(python_producers(shop))


def _fall_back(choice: Choice, error: JavaProducersMissingError, say: Callable[[str], None]) -> None:
    if choice is Choice.JAVA:
        raise error
    say(f"the producers are Python's: {error}")
