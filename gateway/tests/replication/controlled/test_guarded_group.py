"""Two members of a controller as processes that speak nothing but TLS and check accounts: a switch loses nothing."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.client import Producer, ProducerSettings
from gateway.client.testing.server import GatewayServer, free_port
from gateway.tests.cli.serving.test_guarded_pair import HERE, INNER, ROOT, TLS, Follower, guarded, sent, until
from gateway.tests.remoting.tls.speaking import Signed, signed
from gateway.tests.replication.controlled.one_controller import OneController
from wire.codes import RequestCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.headers.controller import (
    AlterSyncStateSetRequest,
    ApplyBrokerIdRequest,
    ElectMasterRequest,
    NextBrokerIdRequest,
    RegisterToControllerRequest,
    ReplicaInfoRequest,
)
from wire.headers.declare import Header, build_header, parse_header
from wire.headers.name_server import BrokerHeartbeatRequest

HEADERS: dict[int, type[Header]] = {
    RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: NextBrokerIdRequest,
    RequestCode.CONTROLLER_APPLY_BROKER_ID: ApplyBrokerIdRequest,
    RequestCode.CONTROLLER_REGISTER_BROKER: RegisterToControllerRequest,
    RequestCode.CONTROLLER_ELECT_MASTER: ElectMasterRequest,
    RequestCode.CONTROLLER_GET_REPLICA_INFO: ReplicaInfoRequest,
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: AlterSyncStateSetRequest,
}


class TlsController(OneController):
    """A controller that listens for TLS alone and sends no notices: members learn what it decided by asking."""

    def __init__(self, certificate: Signed) -> None:
        super().__init__()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.certificate_file, certificate.key_file)
        self._listening = socket.create_server((HERE, 0))
        self._turn = threading.Lock()
        self.leader = f"{HERE}:{self._listening.getsockname()[1]}"
        self.signers: set[str | None] = set()
        """The access keys of all requests."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def elect(self, broker_id: int) -> None:
        """Elect a member of the set in place of the master."""
        with self._turn:
            assert broker_id in self.set & set(self.living)
            self.set, self.master = {broker_id}, None
            self._elect()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        connection = Connection()
        with suppress(OSError), self._context.wrap_socket(peer, server_side=True) as talk:
            while data := talk.recv(65_536):
                for request in connection.receive_data(data):
                    with self._turn:
                        answer = self._answered(request)
                    if answer is not None:
                        talk.sendall(connection.send(answer))

    def _answered(self, request: RemotingCommand) -> RemotingCommand | None:
        self.signers.add(request.ext_fields.get("AccessKey"))
        if request.code == RequestCode.BROKER_HEARTBEAT:
            broker_id = parse_header(BrokerHeartbeatRequest, request.ext_fields).broker_id
            assert broker_id is not None
            self.living[broker_id] = lambda _header, _body: None
            return None
        kind = HEADERS.get(request.code)
        header = None if kind is None else parse_header(kind, request.ext_fields)
        code, answer, body = self.answer(RequestCode(request.code), header, request.body)
        return request.response(code, ext_fields=None if answer is None else build_header(answer), body=body)


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[TlsController]:
    controller = TlsController(signed(tmp_path, "controller"))
    yield controller
    controller.close()


@pytest.mark.long
def test_members_with_tls_and_accounts_copy_are_switched_and_copy_again(
    tmp_path: Path, controller: TlsController
) -> None:
    def settings(name: str) -> dict[str, str]:
        return {
            **guarded(tmp_path / f"{name}.json"),
            "enableControllerMode": "true",
            "controllerAddr": controller.leader,
            "haListenPort": str(free_port()),
        }

    one = GatewayServer(tmp_path / "one", settings=settings("one"))
    name, password = ROOT.values()
    with one, Follower(one.nameserver, tmp_path / "two", settings("two")) as two:
        keys = ProducerSettings(namesrv=one.nameserver, tls=TLS, access_key=name, secret_key=password)
        with Producer("producers", keys) as producer:
            until(lambda: controller.set == {1, 2}, "the second member is not in the set")
            sent(producer, b"before the switch")
            controller.elect(2)
            until(lambda: controller.set == {1, 2}, "the former master did not come back as a slave")
            sent(producer, b"after the switch")
        logs = [server.data / "commitlog" / f"{0:020d}" for server in (one, two)]
        until(lambda: logs[0].read_bytes() == logs[1].read_bytes(), "the logs differ")
        for body in (b"before the switch", b"after the switch"):
            assert body in logs[0].read_bytes()
        assert controller.master == 2
        for server in (one, two):
            log = server.log.read_text()
            assert "copying from a master" in log
            assert "slave copies" in log
            assert "its token" not in log
            assert "shows no token" not in log
        assert controller.signers == {INNER["accessKey"]}
