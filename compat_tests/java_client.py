"""The stock Java client in a container, under remote control.

One JVM serves a whole test session: on two cores starting one costs more than most tests. The verbs and their
options are described in `java_client/src/compat`; an answer is one JSON object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from compat_tests.client_program import Answer, ClientProgram, client_program
from compat_tests.images import image

__all__ = ["CLIENT_VERSIONS", "OVER_TLS", "Answer", "JavaClient", "java_client"]

CLIENT_VERSIONS = ("4.9.8", "5.5.0")
"""With every verb. The image has 4.3.2, 4.5.1 (and beside it ons-client), 4.9.3 and 5.3.3 as well."""

OVER_TLS = {"JDK_JAVA_OPTIONS": "-Dtls.enable=true"}
"""The environment of a container whose Java clients speak TLS."""
JavaClient = ClientProgram


@contextmanager
def java_client(version: str, environment: Mapping[str, str] = {}) -> Iterator[JavaClient]:
    """A running client container of one rocketmq-client version."""
    with client_program(image("java-client"), version, {"ROCKETMQ_VERSION": version, **environment}) as client:
        yield client
