"""TLS on the ports of a real server, asked by the standard library's ``ssl`` and by the Python client."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.client import (
    AdminClient,
    ClientSettings,
    LitePullConsumer,
    LitePullSettings,
    Message,
    Producer,
    ProducerSettings,
    TlsSettings,
)
from gateway.client.testing.server import GatewayServer, free_port
from gateway.telemetry.memory_in_use import BLOCKS
from gateway.tests.remoting.tls.speaking import Signed, signed, trusting, verifying
from wire.bodies.fastjson import parse_json
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame
from wire.headers.declare import build_header
from wire.headers.send import ShortSendMessageRequest


def ports(server: GatewayServer) -> dict[str, int]:
    broker = int(server.broker.rpartition(":")[2])
    return {"broker": broker, "VIP": broker - 2, "name server": int(server.nameserver.rpartition(":")[2])}


def answered(port: int, context: ssl.SSLContext | None) -> bool:
    """Whether a request is answered at a port."""
    return asked(port, context) is not None


def asked(port: int, context: ssl.SSLContext | None) -> RemotingCommand | None:
    """The answer to a request for the brokers of the cluster; None if the connection ends without one."""
    try:
        with socket.create_connection(("localhost", port), timeout=10) as plain:
            talk = plain if context is None else context.wrap_socket(plain, server_hostname="localhost")
            talk.sendall(build_frame(RemotingCommand(RequestCode.GET_BROKER_CLUSTER_INFO, opaque=7)))
            connection = Connection()
            while data := talk.recv(65_536):
                if answers := connection.receive_data(data):
                    assert answers[0].opaque == 7
                    return answers[0]
            return None
    except (ssl.SSLError, ConnectionError):
        return None
    finally:
        if context is not None:
            with suppress(OSError, UnboundLocalError):
                talk.close()


@pytest.fixture
def authority(tmp_path: Path) -> Signed:
    return signed(tmp_path, "authority")


@pytest.fixture(params=["true", "false"], ids=["short ways", "plain ways"])
def short_ways(request: pytest.FixtureRequest) -> dict[str, str]:
    return {"gateway.shortWays": request.param}


def test_three_ports_speak_both_unless_told_otherwise(short_ways: dict[str, str]) -> None:
    with GatewayServer(settings=short_ways) as server:
        for name, port in ports(server).items():
            assert answered(port, trusting()), name
            assert answered(port, None), name
        assert 'tls="permissive (self-signed)"' in server.log.read_text()


def test_enforced_with_a_certificate_and_certificates_of_clients(
    tmp_path: Path, authority: Signed, short_ways: dict[str, str]
) -> None:
    own, friend = signed(tmp_path, "own", by=authority), signed(tmp_path, "friend", by=authority)
    file = tmp_path / "tls.properties"
    file.write_text(
        f"tls.server.mode=enforcing\ntls.server.certPath={own.certificate_file}\ntls.server.keyPath={own.key_file}\n"
        f"tls.server.need.client.auth=require\ntls.server.trustCertPath={authority.certificate_file}\n"
    )
    with GatewayServer(settings={"tls.config.file": str(file), **short_ways}) as server:
        for name, port in ports(server).items():
            assert answered(port, verifying(authority, friend)), name
            assert not answered(port, verifying(authority)), name
            assert not answered(port, None), name
        log = server.log.read_text()
        tls = TlsSettings(
            ca_file=str(authority.certificate_file),
            cert_file=str(friend.certificate_file),
            key_file=str(friend.key_file),
        )
        with Producer("producers", ProducerSettings(namesrv=server.nameserver, tls=tls)) as producer:
            for number in range(20):
                producer.send(Message("Encrypted", bytes(100_000) + b"%d" % number))
        assert "plain connection refused: only TLS is served" in log
        assert f'tls="enforcing ({own.certificate_file})"' in log


def test_disabled_speaks_plain_only() -> None:
    with GatewayServer(settings={"tls.server.mode": "disabled"}) as server:
        for name, port in ports(server).items():
            assert not answered(port, trusting()), name
            assert answered(port, None), name
        assert "TLS connection refused: TLS is switched off" in server.log.read_text()


def test_the_python_client_sends_and_pulls_over_tls() -> None:
    """Large bodies fill the kernel's buffers in both directions."""
    tls = TlsSettings(verify=False)
    bodies = [b"%d" % number * 200_000 for number in range(10)]
    with GatewayServer(settings={"tls.server.mode": "enforcing"}) as server:
        with Producer("producers", ProducerSettings(namesrv=server.nameserver, tls=tls)) as producer:
            for body in bodies:
                producer.send(Message("Encrypted", body))
        with LitePullConsumer("consumers", LitePullSettings(namesrv=server.nameserver, tls=tls)) as consumer:
            queues = consumer.message_queues("Encrypted")
            consumer.assign(queues)
            for queue in queues:
                consumer.seek_to_begin(queue)
            found: list[bytes] = []
            while len(found) < len(bodies):
                messages = consumer.poll(10)
                assert messages
                found += [message.body for message in messages]
            assert sorted(found) == sorted(bodies)


def test_a_certificate_is_renewed_under_sends_without_a_failed_one(tmp_path: Path, authority: Signed) -> None:
    own = signed(tmp_path, "own", by=authority)
    files = {"tls.server.certPath": str(own.certificate_file), "tls.server.keyPath": str(own.key_file)}
    with GatewayServer(settings={"tls.server.mode": "enforcing", **files}) as server:
        tls = TlsSettings(ca_file=str(authority.certificate_file))
        with Producer("producers", ProducerSettings(namesrv=server.nameserver, tls=tls)) as producer:
            producer.send(Message("Renewed", b"before"))
            renewed = signed(tmp_path, "own", by=authority)
            while (
                ssl.get_server_certificate(("127.0.0.1", ports(server)["broker"]), timeout=10).strip()
                != renewed.certificate.public_bytes(Encoding.PEM).decode().strip()
            ):
                producer.send(Message("Renewed", b"meanwhile"))
            producer.send(Message("Renewed", b"after"))
        assert "certificate renewed" in server.log.read_text()


def test_brokers_of_one_command_register_over_tls(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gateway.cli", "serve", "--brokers", "2", "--data", str(tmp_path / "data")]
    command += ["--port", "0", "--nameserver-port", "0", "--set", "tls.server.mode=enforcing"]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        name_server = int(process.stdout.readline().split()[1].rpartition(":")[2])
        try:
            answer = asked(name_server, trusting())
            assert answer is not None
            assert len(parse_json(answer.body)["brokerAddrTable"]) == 2
        finally:
            process.terminate()


def test_a_file_that_is_missing_ends_the_start_before_a_port_opens(tmp_path: Path) -> None:
    files = {"tls.server.certPath": "/no/cert.pem", "tls.server.keyPath": "/no/key.pem"}
    command = [sys.executable, "-m", "gateway.cli", "serve", "--data", str(tmp_path / "data"), "--port", "0"]
    for key, value in files.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(
        "Error: tls.server.certPath=/no/cert.pem: cannot read /no/cert.pem: "
    )
    assert "listening" not in done.stderr


@pytest.mark.parametrize("mode", ["enforcing", "permissive"])
def test_a_scraper_reads_the_metrics_over_tls(tmp_path: Path, authority: Signed, mode: str) -> None:
    own, port = signed(tmp_path, "own", by=authority), free_port()
    settings = {
        "tls.server.certPath": str(own.certificate_file),
        "tls.server.keyPath": str(own.key_file),
        "metricsExporterType": "PROM",
        "metricsPromExporterPort": str(port),
        "gateway.metricsTlsMode": mode,
    }
    with GatewayServer(settings=settings) as server:
        with urlopen(f"https://localhost:{port}/metrics", timeout=10, context=verifying(authority)) as page:
            figures = page.read().decode()
            assert "\nrocketmq_half_messages{" in figures
            assert f"\n{BLOCKS}{{" in figures
        for path in ("healthz", "readyz"):
            with urlopen(f"https://localhost:{port}/{path}", timeout=10, context=verifying(authority)) as page:
                assert page.read() == b"ok\n"
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urlopen(f"https://localhost:{port}/metrics", timeout=10, context=ssl.create_default_context())
        if mode == "permissive":
            with urlopen(f"http://localhost:{port}/readyz", timeout=10) as page:
                assert page.read() == b"ok\n"
        else:
            with pytest.raises((URLError, ConnectionError)):
                urlopen(f"http://localhost:{port}/readyz", timeout=10)
            assert "plain connection refused: only TLS is served" in server.log.read_text()
        assert f'path=/metrics tls="{mode} ({own.certificate_file})"' in server.log.read_text()


def test_an_enforcing_broker_stores_none_of_a_thousand_plain_sends() -> None:
    header = ShortSendMessageRequest(
        producer_group="p",
        topic="Plain",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
    )
    command = RemotingCommand(RequestCode.SEND_MESSAGE_V2, opaque=1, ext_fields=build_header(header), body=b"plain")
    frame, settings = build_frame(command), {"tls.server.mode": "enforcing"}
    with GatewayServer(settings=settings) as server:
        for _ in range(1_000):
            place = "127.0.0.1", ports(server)["broker"]
            with socket.create_connection(place, timeout=10) as plain, suppress(ConnectionError):
                plain.sendall(frame)
                assert plain.recv(1) == b""
        tls = TlsSettings(verify=False)
        with AdminClient(ClientSettings(namesrv=server.nameserver, tls=tls)) as admin:
            assert "Plain" not in admin.topics.list()
        with Producer("p", ProducerSettings(namesrv=server.nameserver, tls=tls)) as producer:
            assert producer.send(Message("Plain", b"first")).queue_offset == 0
