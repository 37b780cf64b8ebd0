"""A gateway in a container, for testcontainers, which only this module imports: ``pip install testcontainers``.

    with RocketMQGatewayContainer("rocketmq-gateway") as container:
        producer = Producer("group", namesrv=container.nameserver)

A broker tells clients its own address, and clients must reach the broker there. So the broker's port, a free port of
this machine, is the same inside and outside the container. The advertised host is the host at which testcontainers
publishes ports. Tests that run in a container themselves reach the broker at its container's address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from testcontainers.core.config import ConnectionMode
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from gateway.client.testing.server import free_port

IMAGE = "rocketmq-gateway"
"""The image that ``docker build -t rocketmq-gateway -f docker/gateway/Dockerfile .`` makes."""
NAMESERVER_PORT = 9876
START_TIMEOUT_S = 60


class RocketMQGatewayContainer(DockerContainer):
    """A name server and a broker in one container; a context manager.

    :param image: the name and tag of the image.
    :param settings: settings by Apache RocketMQ's names.
    :param keywords: further arguments of ``DockerContainer``.
    """

    def __init__(self, image: str = IMAGE, *, settings: Mapping[str, str] | None = None, **keywords: Any) -> None:
        super().__init__(image, **keywords)
        self._settings = dict(settings or {})
        self._port = 0
        self.with_exposed_ports(NAMESERVER_PORT)
        self.waiting_for(LogMessageWaitStrategy("ready nameserver=").with_startup_timeout(START_TIMEOUT_S))

    @property
    def nameserver(self) -> str:
        """The ``host:port`` of the name server, for the ``namesrv`` of clients on this machine."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(NAMESERVER_PORT)}"

    @property
    def broker(self) -> str:
        """The ``host:port`` of the broker.

        If the tests run in a container, clients are told another host that leads to the same broker.
        """
        return f"{self.get_container_host_ip()}:{self._port}"

    def start(self) -> Self:
        """Start the container, and return when clients may connect."""
        self._port = free_port()
        self.with_bind_ports(self._port, self._port)
        self.with_command(self._arguments())
        return super().start()

    def _advertised(self) -> str:
        """Return the address that the broker tells clients; called before the container runs."""
        docker = self.get_docker_client()
        if docker.get_connection_mode() == ConnectionMode.docker_host:
            return f"{docker.host()}:{self._port}"
        return "auto"  # where they reached the name server

    def _arguments(self) -> list[str]:
        arguments = ["serve", "--data", "/data", "--bind", "0.0.0.0"]  # noqa: S104 - within the container
        arguments += ["--port", str(self._port), "--advertise", self._advertised()]
        for key, value in self._settings.items():
            arguments += ["--set", f"{key}={value}"]
        return arguments
