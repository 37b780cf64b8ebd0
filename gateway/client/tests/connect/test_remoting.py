import asyncio
import random
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.client.connect.remoting import Remoting
from gateway.client.connect.settings import ClientSettings, TlsSettings
from gateway.client.errors import ClientClosed, ConfigurationError, ConnectError, ConnectionLost, RequestTimeout
from gateway.client.tests.scripted_broker import ScriptedBroker, run
from wire.codes import LanguageCode, RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.groups import GetConsumerListByGroupRequest
from wire.signature import RequestSigner, signature

QUICK = ClientSettings(reconnect_backoff_min=0.01, reconnect_backoff_max=0.02, connect_timeout=2.0)
HEARTBEAT = RequestCode.HEART_BEAT


async def no_answer(command: RemotingCommand, address: str) -> RemotingCommand | None:
    return None


@asynccontextmanager
async def remoting_with(settings: ClientSettings = QUICK, **options: object) -> AsyncIterator[Remoting]:
    remoting = Remoting(settings, jitter=random.Random(1), **{"asked": no_answer, **options})  # type: ignore[arg-type]
    try:
        yield remoting
    finally:
        await remoting.close()


def test_a_request_gets_its_answer_whatever_the_code() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with() as remoting:
            broker.answer(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ResponseCode.SYSTEM_ERROR, "no consumer")
            header = GetConsumerListByGroupRequest(consumer_group="g")
            answer = await remoting.request(
                broker.address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header, b"body", timeout=5
            )
            assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "no consumer")
            (request,) = broker.requests
            assert request.ext_fields == {"consumerGroup": "g"}
            assert (request.body, request.language) == (b"body", LanguageCode.PYTHON)

    run(test())


def test_everyone_shares_one_attempt_to_connect() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with() as remoting:
            await asyncio.gather(*(remoting.request(broker.address, HEARTBEAT, timeout=5) for _ in range(20)))
            assert broker.connections == 1

    run(test())


def test_a_call_needs_no_task_once_the_connection_is_open() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with() as remoting:
            first = remoting.call(broker.address, HEARTBEAT, timeout=5)
            assert (await first).code == 0
            second = remoting.call(broker.address, HEARTBEAT, timeout=5)
            assert not isinstance(second, asyncio.Task)
            assert (await second).code == 0

    run(test())


def test_a_oneway_request_is_not_waited_for() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with() as remoting:
            await remoting.oneway(broker.address, RequestCode.UPDATE_CONSUMER_OFFSET, None, b"x")
            (request,) = await broker.wait_for(RequestCode.UPDATE_CONSUMER_OFFSET)
            assert request.is_oneway

    run(test())


def test_nobody_there_is_told_with_cause() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            address = broker.address
        async with remoting_with() as remoting:
            with pytest.raises(ConnectError, match=address) as caught:
                await remoting.request(address, HEARTBEAT, timeout=1)
            assert not caught.value.outcome_unknown
            remoting.advertised = {address: "broker-a"}
            with pytest.raises(ConnectError, match="brokerIP1"):
                await remoting.request(address, HEARTBEAT, timeout=1)

    run(test())


@pytest.mark.parametrize("address", ["no-such-host.invalid:10911", "127.0.0.1:notaport", "localhost"])
def test_an_address_that_is_none_is_a_connect_error(address: str) -> None:
    async def test() -> None:
        async with remoting_with() as remoting:
            with pytest.raises(ConnectError):
                await remoting.request(address, HEARTBEAT, timeout=2)

    run(test())


def test_it_connects_again_after_the_broker_came_back() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with() as remoting:
            await remoting.request(broker.address, HEARTBEAT, timeout=5)
            await broker.stop()
            with pytest.raises(ConnectError):
                await remoting.request(broker.address, HEARTBEAT, timeout=1)
            await broker.start()
            assert (await remoting.request(broker.address, HEARTBEAT, timeout=5)).code == 0

    run(test())


def test_who_cannot_wait_for_the_next_attempt_is_told_at_once() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            address = broker.address
        settings = ClientSettings(reconnect_backoff_min=50, reconnect_backoff_max=50)
        async with remoting_with(settings) as remoting:
            for _ in range(2):
                with pytest.raises(ConnectError):
                    await remoting.request(address, HEARTBEAT, timeout=1)
            with pytest.raises(ConnectError, match="next attempt in"):
                await remoting.request(address, HEARTBEAT, timeout=1)

    run(test())


def test_pauses_grow_with_jitter_up_to_the_limit() -> None:
    async def test() -> None:
        settings = ClientSettings(reconnect_backoff_min=1, reconnect_backoff_max=10)
        async with remoting_with(settings) as remoting:
            pauses = [remoting._pause(failures) for failures in range(1, 30)]
            assert 0.5 <= pauses[0] <= 1.0
            assert 1.0 <= pauses[1] <= 2.0
            assert all(5.0 <= pause <= 10.0 for pause in pauses[4:])
            assert len(set(pauses)) == len(pauses)

    run(test())


def test_no_answer_in_time_is_a_timeout_with_an_open_outcome() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with() as remoting:
            broker.on(HEARTBEAT, lambda _: None)
            with pytest.raises(RequestTimeout) as caught:
                await remoting.request(broker.address, HEARTBEAT, timeout=0.05)
            assert caught.value.outcome_unknown

    run(test())


def test_a_connection_that_breaks_while_waiting_is_told_apart() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with() as remoting:

            def crash(request: RemotingCommand) -> None:
                broker.drop_connections()

            broker.on(HEARTBEAT, crash)
            with pytest.raises(ConnectionLost):
                await remoting.request(broker.address, HEARTBEAT, timeout=5)

    run(test())


def test_a_broker_that_goes_away_is_asked_once_more_on_a_new_connection() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with() as remoting:
            answers = [ResponseCode.GO_AWAY, ResponseCode.SUCCESS]
            broker.on(HEARTBEAT, lambda request: request.response(answers.pop(0)))
            answer = await remoting.request(broker.address, HEARTBEAT, timeout=5)
            assert answer.code == ResponseCode.SUCCESS
            assert broker.connections == 2

    run(test())


def test_a_connection_that_was_left_is_closed_with_the_client_though_an_answer_is_missing() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with() as remoting:
            answers = [None, ResponseCode.GO_AWAY, ResponseCode.SUCCESS]

            def answer(request: RemotingCommand) -> RemotingCommand | None:
                code = answers.pop(0)
                return None if code is None else request.response(code)

            broker.on(HEARTBEAT, answer)
            waiting = asyncio.ensure_future(remoting.request(broker.address, HEARTBEAT, timeout=60))
            await broker.wait_for(HEARTBEAT)
            await remoting.request(broker.address, HEARTBEAT, timeout=5)
            assert broker.connections == 2
            await remoting.close()
            with pytest.raises(ClientClosed):
                await asyncio.wait_for(waiting, 5)

    run(test())


def test_an_address_can_be_mapped_to_a_reachable_one() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker:
            settings = ClientSettings(address_map={"10.99.99.99:10911": broker.address})
            async with remoting_with(settings) as remoting:
                assert (await remoting.request("10.99.99.99:10911", HEARTBEAT, timeout=5)).code == 0

    run(test())


def test_requests_of_the_broker_are_answered() -> None:
    async def answer(command: RemotingCommand, address: str) -> RemotingCommand | None:
        if command.code == 1:
            raise ValueError("listener broke")
        return command.response(ResponseCode.SUCCESS, body=address.encode())

    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with(asked=answer) as remoting:
            await remoting.request(broker.address, HEARTBEAT, timeout=5)
            response = await broker.push(RemotingCommand(307))
            assert response.body == broker.address.encode()
            response = await broker.push(RemotingCommand(1))
            assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "ValueError: listener broke")

    run(test())


def test_requests_are_signed() -> None:
    async def test() -> None:
        signer = RequestSigner("who", "secret")
        async with ScriptedBroker() as broker, remoting_with(sign=signer.sign) as remoting:
            header = GetConsumerListByGroupRequest(consumer_group="g")
            await remoting.request(broker.address, HEARTBEAT, header, b"body", timeout=5)
            fields = broker.requests[0].ext_fields
            assert fields["AccessKey"] == "who"
            assert fields["Signature"] == signature(b"secret", fields, b"body")

    run(test())


def test_a_closed_client_tells_who_waits_and_takes_nothing_more() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with() as remoting:
            broker.on(HEARTBEAT, lambda _: None)
            waiting = asyncio.ensure_future(remoting.request(broker.address, HEARTBEAT, timeout=60))
            await broker.wait_for(HEARTBEAT)
            await remoting.close()
            with pytest.raises(ClientClosed):
                await waiting
            with pytest.raises(ClientClosed):
                await remoting.request(broker.address, HEARTBEAT, timeout=5)

    run(test())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key."""
    directory = tmp_path_factory.mktemp("tls")
    key, cert = directory / "key.pem", directory / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return cert, key


def _server_context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


@pytest.mark.parametrize("check_host_name", [True, False])
def test_connections_can_be_encrypted(certificate: tuple[Path, Path], check_host_name: bool) -> None:
    async def test() -> None:
        tls = TlsSettings(ca_file=str(certificate[0]), check_host_name=check_host_name)
        async with (
            ScriptedBroker(tls=_server_context(certificate)) as broker,
            remoting_with(ClientSettings(tls=tls)) as remoting,
        ):
            assert (await remoting.request(broker.address, HEARTBEAT, timeout=5)).code == 0

    run(test())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_certificate_nobody_vouches_for_is_refused_with_a_hint(certificate: tuple[Path, Path]) -> None:
    async def test() -> None:
        async with (
            ScriptedBroker(tls=_server_context(certificate)) as broker,
            remoting_with(ClientSettings(tls=True)) as remoting,
        ):
            with pytest.raises(ConnectError, match="certificate trusted"):
                await remoting.request(broker.address, HEARTBEAT, timeout=5)

    run(test())


def test_a_server_without_tls_is_named_as_the_cause() -> None:
    async def test() -> None:
        async with ScriptedBroker() as broker, remoting_with(ClientSettings(tls=TlsSettings(verify=False))) as remoting:
            with pytest.raises(ConnectError, match="speak TLS here"):
                await remoting.request(broker.address, HEARTBEAT, timeout=5)

    run(test())


def test_a_missing_certificate_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="tls"):
        Remoting(
            ClientSettings(tls=TlsSettings(ca_file=str(tmp_path / "none"))), asked=no_answer, jitter=random.Random(1)
        )
