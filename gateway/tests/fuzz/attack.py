"""The connections that send what the grammar makes: a few at once, each for some requests, then closed in some way."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from socket import SO_LINGER, SOL_SOCKET, socket
from typing import Final

from gateway.tests.fuzz.accounts.judge import Judge
from gateway.tests.fuzz.encrypted import Encryption, faulty
from gateway.tests.fuzz.journal import ENCRYPTED, INSIDE, Journal
from gateway.tests.fuzz.requests.frames import frame_of, spoiled
from gateway.tests.fuzz.requests.grammar import Asked, Grammar, Server
from gateway.tests.fuzz.requests.sequences import a_sequence
from wire.command import RESPONSE_FLAG, RemotingCommand
from wire.connection import Connection
from wire.errors import RemoteError

SESSIONS: Final = 6
"""Connections at a time, each with one server or with both."""
ANSWER_PATIENCE_S: Final = 0.5
"""Seconds until a request is taken to have no answer; most that are good have one in a millisecond."""
SPOILED_FRAMES: Final = 0.04
BINARY_SESSIONS: Final = 0.3
ENCRYPTED_LINKS: Final = 0.4
"""Connections that speak TLS."""
BROKEN_HANDSHAKES: Final = 0.15
"""Of those, the ones whose handshake is spoiled, and goes no further."""
FAULTS_INSIDE: Final = 0.01
"""Requests over TLS before which there are bytes that no TLS would send, or a renegotiation."""
HALF_OPEN: Final = 0.05
"""Sessions that end with a frame that is never completed, and stay for ``HALF_OPEN_S`` seconds."""
HALF_OPEN_S: Final = 5.0


class Link:
    """One connection of a session to one server; it may be encrypted."""

    def __init__(
        self, number: int, server: Server, journal: Journal, random: Random, judge: Judge | None = None
    ) -> None:
        self.number = number
        self._judge = judge
        self._server = server
        self._journal = journal
        self._random = random
        self._encryption = Encryption(random) if random.random() < ENCRYPTED_LINKS else None
        self._connection = Connection()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    @property
    def is_encrypted(self) -> bool:
        """True if requests go over TLS."""
        return self._encryption is not None

    async def open(self, address: tuple[str, int]) -> None:
        """Connect, and do the handshake if there is one.

        :raises OSError: the server has closed, or the handshake was spoiled.
        """
        self._reader, self._writer = await asyncio.open_connection(*address)
        if self._encryption is None:
            return
        try:
            async with asyncio.timeout(HALF_OPEN_S):
                if self._random.random() < BROKEN_HANDSHAKES:
                    await self._break_handshake(self._encryption)
                await self._encryption.handshake(self._reader, self._writer)
        except (OSError, TimeoutError):
            self._writer.close()
            raise

    async def _break_handshake(self, encryption: Encryption) -> None:
        data = faulty(encryption.begun(), self._random)
        self._journal.add(self.number, self._server, data)
        self._writer.write(data)
        await self._writer.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_PATIENCE_S):
                await self._reader.read()
        self._journal.add(self.number, self._server, None)
        raise ConnectionAbortedError("the handshake is spoiled")

    async def ask(self, frame: bytes) -> RemotingCommand | None:
        """Send, and return the next answer if one comes in time.

        :raises OSError: the server has closed.
        """
        self.say(frame)
        answer: RemotingCommand | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_PATIENCE_S):
                await self._writer.drain()
                while answer is None:
                    answer = await self._next()
        return answer

    async def _next(self) -> RemotingCommand | None:
        data = await self._reader.read(1 << 16)
        if not data:
            raise ConnectionResetError("closed by the server")
        if self._encryption is not None:
            data = self._encryption.unseal(data)
        try:
            commands = self._connection.receive_data(data)
        except RemoteError as error:
            raise ConnectionResetError(f"the server sent what cannot be read: {error}") from error
        answers = [command for command in commands if command.flag & RESPONSE_FLAG]
        if self._judge is not None:
            for answer in answers:
                self._judge.answered(self.number, answer)
        return answers[-1] if answers else None

    def say(self, data: bytes) -> None:
        """Send and wait for nothing."""
        if self._judge is not None:
            self._judge.sent(self.number, data)
        if self._encryption is None:
            self._journal.add(self.number, self._server, data)
            self._writer.write(data)
            return
        if self._random.random() < FAULTS_INSIDE:
            fault = self._encryption.renegotiation() if self._random.random() < 0.3 else self._fault(self._encryption)
            self._journal.add(self.number, self._server + INSIDE, fault)
            self._writer.write(fault)
        self._journal.add(self.number, self._server + ENCRYPTED, data)
        self._writer.write(self._encryption.seal(data))

    def _fault(self, encryption: Encryption) -> bytes:
        return faulty(encryption.seal(self._random.randbytes(self._random.randint(0, 100))), self._random)

    def close(self, *, at_once: bool) -> None:
        """End it; ``at_once`` with a reset, which leaves answers unread."""
        self._journal.add(self.number, self._server, None)
        if at_once:
            link = self._writer.get_extra_info("socket")
            if isinstance(link, socket) or hasattr(link, "setsockopt"):
                with suppress(OSError):
                    link.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.close()


class Attack:
    """All sessions.

    :param rate: requests a second, of all together.
    :param judge: looks at every request and answer, while there are accounts.
    :param frame_of: makes the bytes of a request, and may sign it.
    """

    def __init__(
        self,
        random: Random,
        grammar: Grammar,
        addresses: Mapping[Server, tuple[str, int]],
        rate: float,
        judge: Judge | None = None,
        frame_of: Callable[[Asked], bytes] = frame_of,
    ) -> None:
        self._judge = judge
        self._frame_of = frame_of
        self.journal = Journal()
        self.requests = 0
        self.answers: Counter[tuple[int, int]] = Counter()
        """How often each code was answered with each response code."""
        self._random = random
        self._grammar = grammar
        self._addresses = addresses
        self._pause_s = SESSIONS / rate
        self._last = 0
        self.encrypted = 0
        """The connections that were opened over TLS."""

    async def run(self, ended: asyncio.Event) -> None:
        """Go on until the end is told."""
        await asyncio.gather(*(self._sessions(ended) for _ in range(SESSIONS)))

    async def _sessions(self, ended: asyncio.Event) -> None:
        while not ended.is_set():
            with suppress(OSError):
                await self._session(ended)
            await asyncio.sleep(self._pause_s)

    async def _session(self, ended: asyncio.Event) -> None:
        links: dict[Server, Link] = {}
        is_binary = self._random.random() < BINARY_SESSIONS
        try:
            if self._random.random() < 0.5:
                for _ in range(self._random.randint(1, 20)):
                    await self._ask(links, self._grammar.any_request(), is_binary, ended)
            else:
                await self._follow(links, is_binary, ended)
            if self._random.random() < HALF_OPEN:
                for link in links.values():
                    link.say(self._frame_of(self._grammar.any_request())[:-1])
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), HALF_OPEN_S)
        finally:
            for link in links.values():
                link.close(at_once=self._random.random() < 0.2)

    async def _follow(self, links: dict[Server, Link], is_binary: bool, ended: asyncio.Event) -> None:
        requests = a_sequence(self._grammar)
        answer: RemotingCommand | None = None
        with suppress(StopIteration):
            asked = next(requests)
            while self._random.random() > 0.02:  # else it is broken off
                answer = await self._ask(links, asked, is_binary, ended)
                asked = requests.send(answer)

    async def _ask(
        self, links: dict[Server, Link], asked: Asked, is_binary: bool, ended: asyncio.Event
    ) -> RemotingCommand | None:
        if ended.is_set():
            raise ConnectionAbortedError("the run is over")
        link = links.get(asked.server)
        if link is None:
            self._last += 1
            link = Link(self._last, asked.server, self.journal, self._random, self._judge)
            await link.open(self._addresses[asked.server])
            self.encrypted += link.is_encrypted
            links[asked.server] = link
        asked.is_binary = is_binary
        frame = self._frame_of(asked)
        if self._random.random() < SPOILED_FRAMES:
            frame = spoiled(frame, self._random)
        await asyncio.sleep(self._random.uniform(0, 2 * self._pause_s))
        self.requests += 1
        answer = await link.ask(frame)
        if answer is not None:
            self.answers[asked.code, answer.code] += 1
        return answer
