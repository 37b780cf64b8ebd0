"""The port of the pages: which pages there are, and how many connections may ask for them.

If there are too many connections, the oldest connection of the host with most connections is cut off. A host that opens
as many connections as it can therefore does not shut others out. The limit is low, so the last descriptors of the
process stay free for its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from operator import attrgetter
from typing import Any

from twisted.internet.protocol import Factory

from gateway.broker.pages.answers import Answered, Page, text_answer
from gateway.broker.pages.connection import PageConnection
from gateway.reactor.interface import TimeSource
from gateway.remoting.answers.answer_room import AnswerRoom
from gateway.remoting.descriptors import takes_reserve
from gateway.remoting.tls.first_byte import FirstByte
from gateway.shares import oldest_of_greediest
from gateway.telemetry.logs import EventLog

log = EventLog("pages")

MAX_PAGE_CONNECTIONS = 64
"""The number of connections to the pages that may be open at once."""
MAX_PAGE_CONNECTIONS_IN_RESERVE = 4
"""The number of connections that may be open while a new one takes a descriptor reserved for files.

The limit is not 0, because somebody may ask what is wrong.
"""


class PagePort(Factory):
    """Makes the connections of a listening port.

    :param pages: pages by path, with the slash.
    :param room: the room in which bytes count that peers have not taken.
    :param reserved_descriptors: how many descriptors are kept for files.
    :param first_byte: decides for each connection whether it is encrypted.
    """

    noisy = False

    def __init__(
        self,
        pages: Mapping[str, Page],
        reactor: TimeSource,
        room: AnswerRoom,
        reserved_descriptors: int,
        first_byte: FirstByte,
    ) -> None:
        self.reactor = reactor
        self.room = room
        self.first_byte = first_byte
        self._pages = dict(pages)
        self._reserved_descriptors = reserved_descriptors
        self._open: dict[PageConnection, None] = {}

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._open)

    def buildProtocol(self, addr: object) -> PageConnection:  # noqa: N802 (Twisted's name)
        """Make the object for a new connection."""
        del addr
        return PageConnection(self)

    def opened(self, connection: PageConnection) -> None:
        """Implement ``ConnectionOwner.opened``."""
        self._open[connection] = None
        transport: Any = connection.transport
        in_reserve = takes_reserve(transport, self._reserved_descriptors)
        most = MAX_PAGE_CONNECTIONS_IN_RESERVE if in_reserve else MAX_PAGE_CONNECTIONS
        while len(self._open) > most:
            self._cut_off_one(f"{most} connections at most, the oldest one of a host gives way")

    def closed(self, connection: PageConnection) -> None:
        """Implement ``ConnectionOwner.closed``."""
        self._open.pop(connection, None)

    def close_all(self) -> None:
        """Cut off every connection."""
        while self._open:
            self._cut_off_one("the broker stops")

    def ask(self, path: str, answered: Answered) -> None:
        """Implement ``ConnectionOwner.ask``."""
        page = self._pages.get(path)
        if page is None:
            answered(text_answer(HTTPStatus.NOT_FOUND, f"no such page; there are {', '.join(sorted(self._pages))}"))
            return
        try:
            page(answered)
        except Exception as error:  # noqa: BLE001 - whatever a figure does, monitors get an answer
            log.error("a page could not be made", failure=error, path=path)
            answered(text_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "the page could not be made; the log says why"))

    def _cut_off_one(self, reason: str) -> None:
        connection = oldest_of_greediest(self._open, attrgetter("host"))
        del self._open[connection]
        connection.drop(reason)
