"""Requests to a running broker over a socket, for commands, which need no reactor.

The calls block, with a time limit on every step.
"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Self

from gateway.cli.tls_options import HINT_PLAIN, HINT_TLS, HINT_TRUST
from gateway.client.errors import AclError, broker_error
from gateway.errors import GatewayError
from gateway.settings.addresses import Address
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.errors import RemoteError
from wire.headers.declare import Header, build_header

if TYPE_CHECKING:
    from wire.signature import RequestSigner

TIMEOUT_S = 10.0
"""Seconds for connecting, and for each answer."""
READ_BYTES = 1 << 16
_KEYS = "The keys are those of ROCKETMQ_ACCESS_KEY and ROCKETMQ_SECRET_KEY, or of the file ROCKETMQ_CREDENTIALS_FILE"


class BrokerRefused(GatewayError):  # noqa: N818 (an answer)
    """The broker refused the request; the text is the broker's own.

    :param code: a ``ResponseCode``.
    """

    exit_code = 1

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class BrokerUnreachable(GatewayError):  # noqa: N818 (a state of the network)
    """No server at the address speaks the protocol."""

    exit_code = 2


class BrokerCall:
    """A connection to one broker.

    :param tls: encrypts it.
    :param signer: signs each request.
    """

    def __init__(
        self, address: Address, tls: ssl.SSLContext | None = None, signer: RequestSigner | None = None
    ) -> None:
        self._address = address
        self._tls = tls
        self._signer = signer
        self._socket: socket.socket | None = None
        self._connection = Connection()
        self._waiting: list[RemotingCommand] = []
        self._opaque = 0
        self._was_answered = False

    def __enter__(self) -> Self:
        host, port = self._address.host, self._address.port
        try:
            self._socket = socket.create_connection((host, port), TIMEOUT_S)
        except OSError as error:
            raise BrokerUnreachable(
                f"no broker answers at {self._address}: {error.strerror or error}. "
                "Is it running? --broker HOST:PORT names another one"
            ) from error
        if self._tls is not None:
            try:
                self._socket = self._tls.wrap_socket(self._socket, server_hostname=host)
            except OSError as error:
                self._socket.close()
                hint = HINT_TRUST if isinstance(error, ssl.SSLCertVerificationError) else HINT_TLS
                raise BrokerUnreachable(f"no TLS with {self._address}: {_reason(error)}; {hint}") from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()

    def ask(self, code: RequestCode, header: Header, body: bytes = b"") -> bytes:
        """Send a request, and return the body of the answer.

        :raises BrokerRefused: the answer is not SUCCESS.
        :raises BrokerUnreachable: there is no answer, or the answer cannot be read.
        """
        assert self._socket is not None, "entered"
        self._opaque += 1
        command = RemotingCommand(code, opaque=self._opaque, ext_fields=build_header(header), body=body)
        if self._signer is not None:
            self._signer.sign(command)
        try:
            self._socket.sendall(self._connection.send(command))
            answer = self._answer()
        except TimeoutError as error:
            raise BrokerUnreachable(
                f"the broker at {self._address} did not answer {code.name} within {TIMEOUT_S:g} s"
            ) from error
        except (OSError, RemoteError) as error:
            hint = "" if self._tls is not None or self._was_answered else f"; {HINT_PLAIN}"
            raise BrokerUnreachable(f"the connection to {self._address} failed: {_reason(error)}{hint}") from error
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise BrokerRefused(
                answer.code,
                f"the server at {self._address} does not know {code.name}: it is not a RocketMQ Gateway broker, or an "
                "older one. --broker takes the broker's port (10911), not the name server's (9876)",
            )
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, _refusal(answer, self._address))
        return answer.body

    def _answer(self) -> RemotingCommand:
        assert self._socket is not None, "entered"
        while True:
            for command in self._waiting:
                if command.is_response and command.opaque == self._opaque:
                    self._waiting = []
                    return command
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise ConnectionResetError("closed by the other side")
            self._was_answered = True
            self._waiting = self._connection.receive_data(data)


def _reason(error: Exception) -> str:
    """Return the cause in a few words, without the place in OpenSSL's source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (isinstance(error, ssl.SSLError) and error.reason) or str(error) or type(error).__name__


def _refusal(answer: RemotingCommand, address: Address) -> str:
    """Return the broker's text, with what to do if access was refused."""
    found = broker_error(answer.code, answer.remark, str(address))
    if isinstance(found, AclError):
        return f"{found.remark.rstrip('.')}. {found.advice}. {_KEYS}"
    return answer.remark or f"the broker answered with code {answer.code}"
