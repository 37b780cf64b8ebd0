"""A proxy in front of a broker that breaks one promise, once: proof that the tests notice.

It stands where clients believe the broker to be, and passes everything on but for the fault that is set.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from compat_tests import frames
from compat_tests.frames import Frame

# What to send to the broker, and what to answer the client at once, for a frame of the client.
Verdict = tuple[list[bytes], list[bytes]]
Fault = Callable[[Frame], Verdict | None]
_ROLLBACK, _COMMIT = "12", "8"


def lose_a_message(frame: Frame) -> Verdict | None:
    """Acknowledge a send that never reaches the broker."""
    if frame.code != frames.SEND_V2:
        return None
    header = {"code": 0, "flag": 1, "language": "JAVA", "opaque": frame.header["opaque"], "version": 479}
    answer = Frame({**header, "extFields": {"msgId": "7F00000100002A9F0000000000000000"}})
    answer.fields.update(queueId="0", queueOffset="0")
    return [], [answer.pack()]


def store_a_message_twice(frame: Frame) -> Verdict | None:
    """Send a message a second time; the client drops the answer, whose opaque it does not know."""
    if frame.code != frames.SEND_V2:
        return None
    once = frame.pack()
    frame.header["opaque"] = 2_000_000_000
    return [once, frame.pack()], []


def commit_what_was_rolled_back(frame: Frame) -> Verdict | None:
    """Turn a rollback into a commit."""
    if frame.code != frames.END_TRANSACTION or frame.fields.get("commitOrRollback") != _ROLLBACK:
        return None
    frame.fields["commitOrRollback"] = _COMMIT
    return [frame.pack()], []


class FaultyProxy:
    """Set `fault`; it strikes once, at the first frame it applies to, after `skip` such frames."""

    def __init__(self, port: int) -> None:
        self.fault: Fault | None = None
        self.skip = 0
        self.struck = 0
        self.target = ("", 0)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("", port))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def strike_with(self, fault: Fault, *, skip: int = 10) -> None:
        """Arm the proxy."""
        with self._lock:
            self.fault, self.skip, self.struck = fault, skip, 0

    def close(self) -> None:
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads:
            thread.join(timeout=5)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self.target, timeout=10)
            except OSError:
                return
            server.settimeout(None)
            self._open += [client, server]
            for source, work in ((client, self._requests), (server, self._answers)):
                other = server if source is client else client
                thread = threading.Thread(target=work, args=(source, other), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), ending(server):
            while (frame := frames.read(client)) is not None:
                onward, back = self._judge(frame)
                server.sendall(b"".join(onward))
                client.sendall(b"".join(back))

    def _answers(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError), ending(client):
            while data := server.recv(1 << 16):
                client.sendall(data)

    def _judge(self, frame: Frame) -> Verdict:
        plain = frame.pack()
        with self._lock:
            verdict = self.fault(frame) if self.fault is not None and not self.struck else None
            if verdict is None:
                return [plain], []
            if self.skip > 0:
                self.skip -= 1
                return [plain], []
            self.struck += 1
            return verdict


@contextmanager
def ending(connection: socket.socket) -> Iterator[None]:
    """Pass the end of one direction on to the other side."""
    try:
        yield
    finally:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
