"""Request code → the method that answers it, and the one place that turns exceptions into answers.

Two kinds of methods. ``answers`` is for requests asked now and then: the declared header is parsed, the
method returns an ``Answer`` or something to wait for. ``answers_directly`` is for the data path: the method
gets the bare request and answers it whenever it is done. Every request of either kind passes ``admit`` first.

One-way requests are never answered. Upstream: ``NettyRemotingAbstract.processRequestCommand``.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar, cast, overload

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.python.failure import Failure

from gateway.errors import RequestRefused, forget_frames
from gateway.remoting.channel import Channel
from gateway.remoting.declared import Right, Size
from gateway.remoting.descriptors import NO_DESCRIPTOR
from gateway.remoting.lists import Lists
from gateway.telemetry.logs import EventLog
from wire.codes import RequestCode, ResponseCode, request_code_name
from wire.command import ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand
from wire.errors import LocalError, RemoteError
from wire.headers.declare import Header, build_header, read_header

log = EventLog("remoting")

KNOWN_CODES = {int(code): code.name for code in RequestCode}
MAX_LOGGED_FAILURES = 1_000
"""Places in the code whose failures are remembered, so that each writes one traceback, then single lines."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request is answered: response code, declared header (or none), body and remark."""

    code: int = ResponseCode.SUCCESS
    header: Header | None = None
    body: bytes = b""
    remark: str | None = None


class Request:
    """One command that came in, and how to answer it.

    A plain class with slots: one is made for each message sent and pulled.
    """

    __slots__ = ("answered", "channel", "command")

    def __init__(self, channel: Channel, command: RemotingCommand) -> None:
        self.channel = channel
        self.command = command
        self.answered = command.flag & ONEWAY_FLAG != 0

    def answer(self, code: int, header: Header | None = None, body: bytes = b"", remark: str | None = None) -> None:
        """Answer with a declared header; ignored when one-way, already answered or the channel is closed."""
        ext_fields = None if header is None else build_header(header)
        self.send(self.command.response(code, remark, ext_fields, body))

    def send(self, response: RemotingCommand) -> None:
        """Answer with a response made from this request's command; the same cases are ignored."""
        if self.answered:
            return
        try:
            self.channel.send(response)
        except LocalError as error:
            # An answer too large for a frame is our limit, not the caller's mistake: the client gets to know.
            log.error("answer cannot be framed", failure=error, code=self.command.code)
            self.channel.send(self.command.response(ResponseCode.SYSTEM_ERROR, str(error)))
        self.answered = True

    def send_frame(self, frame: bytes) -> None:
        """Answer with a frame already built; the same cases are ignored."""
        if not self.answered:
            self.answered = True
            self.channel.send_frame(frame)

    def send_parts(self, parts: Sequence[bytes | memoryview]) -> None:
        """Answer with a frame already built in parts; the same cases are ignored."""
        if not self.answered:
            self.answered = True
            self.channel.send_parts(parts)


H = TypeVar("H", bound=Header)
Outcome = Answer | Awaitable[Answer | None] | None
DirectMethod = Callable[[Request], None]
CarryOut = Callable[[Request], Deferred[Any] | None]
"""Carries a request out. The result fires when the request is answered; None: nobody has to wait for that."""


class RequestGroup(Protocol):
    """Requests that belong together."""

    def register(self, dispatch: Dispatch, /) -> None:
        """Take over the codes this class answers."""


class Entry:
    """One request as it was declared, and how it is answered."""

    __slots__ = ("begin", "carry_out", "code", "right", "size")

    def __init__(self, code: RequestCode, right: Right, size: Size, carry_out: CarryOut, begin: CarryOut) -> None:
        self.code = code
        self.right = right
        self.size = size
        self.carry_out = carry_out
        self.begin = begin
        """Carries the request out at once, or when there is room for what its answer costs."""


Admit = Callable[[Request, Right], None]
"""Lets a request through that declares this right, or raises ``RequestRefused``."""


def admit_everybody(request: Request, right: Right) -> None:
    """Let every request through."""


class Dispatch:
    """The methods of one server.

    :param admit: decides about every request that is answered here, before its header is read.
    """

    def __init__(self, admit: Admit = admit_everybody) -> None:
        self._admit = admit
        self._entries: dict[int, Entry] = {}
        self._late: list[Callable[[], RequestGroup]] = []
        self._failures: set[tuple[int, str, int]] = set()
        self._lists = Lists(self._list, self._refuse, self._is_change)

    @overload
    def answers(
        self,
        code: RequestCode,
        header: type[H],
        method: Callable[[Request, H], Outcome],
        right: Right,
        size: Size = ...,
    ) -> None: ...

    @overload
    def answers(
        self,
        code: RequestCode,
        header: None,
        method: Callable[[Request, None], Outcome],
        right: Right,
        size: Size = ...,
    ) -> None: ...

    def answers(
        self,
        code: RequestCode,
        header: type[Header] | None,
        method: Callable[[Request, Any], Outcome],
        right: Right,
        size: Size = Size.SMALL,
    ) -> None:
        """``method(request, header)`` answers this code; ``header`` is the declared class or None.

        The method returns an Answer, an awaitable of one, or None when it answers through the request.
        """
        self._add(code, right, size, partial(self._carry_out, header, method))

    def answers_directly(self, code: RequestCode, method: DirectMethod, right: Right, size: Size = Size.SMALL) -> None:
        """``method(request)`` answers this code itself, now or later."""
        self._add(code, right, size, method)

    def _add(self, code: RequestCode, right: Right, size: Size, carry_out: CarryOut) -> None:
        if code in self._entries:
            raise ValueError(f"{code.name} already has a method")
        begin = carry_out
        if size is Size.LARGE:
            begin = partial(self._begin, carry_out)
        elif size is not Size.SMALL:
            begin = self._lists.ask
        self._entries[code] = Entry(code, right, size, carry_out, begin)

    def loads_late(self, loads: Iterable[Callable[[], RequestGroup]]) -> None:
        """When a code comes that nobody answers yet, make more of the requests, one group at a time, until one does.

        For rare requests: most processes end without one, and their code need not be loaded at start.
        """
        self._late += loads

    def entries(self) -> list[Entry]:
        """Load what is still missing and list every request that is answered here, by its number."""
        for load in list(self._late):
            self._load(load)
        return [self._entries[code] for code in sorted(self._entries)]

    def _load(self, load: Callable[[], RequestGroup]) -> None:
        """Load a group of rare requests; one that cannot be loaded now is loaded for a later request."""
        load().register(self)
        self._late.remove(load)

    def commands(self, channel: Channel, commands: list[RemotingCommand]) -> None:
        """Carry out all commands of one read, in order; never raises."""
        entries, admit = self._entries, self._admit
        for command in commands:
            if command.flag & RESPONSE_FLAG:
                channel.answer_arrived(command)
                continue
            request = Request(channel, command)
            try:
                entry = entries.get(command.code)
                if entry is None:
                    entry = self._late_entry(command.code)
                admit(request, entry.right)
                entry.begin(request)
            except Exception as error:  # noqa: BLE001 - the one place where any failure becomes an answer
                self._refuse(request, error)

    def _late_entry(self, code: int) -> Entry:
        """Find a request that is not loaded yet. A group that cannot be loaded keeps nobody from the others.

        :raises RequestRefused: REQUEST_CODE_NOT_SUPPORTED, there is no such request.
        """
        failure: Exception | None = None
        for load in list(self._late):
            try:
                self._load(load)
            except Exception as error:  # noqa: BLE001 - raised below, if the request is in none of the others
                failure = failure or error
                if isinstance(error, OSError) and error.errno in NO_DESCRIPTOR:
                    break  # nor would the others find one
            entry = self._entries.get(code)
            if entry is not None:
                return entry
        raise failure or RequestRefused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, _not_supported(code))

    def _is_change(self, request: Request) -> bool:
        return self._entries[request.command.code].size is Size.CHANGING_LIST

    def _begin(self, carry_out: CarryOut, request: Request) -> None:
        """Carry out a request with a large answer, when there is room for it."""
        if request.channel.must_wait:
            wait_for_room(request, partial(self._begin_again, carry_out, request))
        else:
            carry_out(request)

    def _begin_again(self, carry_out: CarryOut, request: Request) -> None:
        try:
            self._begin(carry_out, request)
        except Exception as error:  # noqa: BLE001 - as in ``commands``
            self._refuse(request, error)

    def _list(self, request: Request) -> Deferred[Any] | None:
        """Begin to answer a request for a list, see ``Lists``."""
        try:
            return self._entries[request.command.code].carry_out(request)
        except Exception as error:  # noqa: BLE001 - as in ``commands``
            self._refuse(request, error)
            return None

    def _carry_out(
        self, header_class: type[Header] | None, method: Callable[[Request, Any], Outcome], request: Request
    ) -> Deferred[Any] | None:
        """Carry a request out; the result fires when it is answered, None when it is answered already."""
        header = None if header_class is None else read_header(header_class, request.command)
        outcome = method(request, header)
        if isinstance(outcome, Answer):
            _answer(request, outcome)
        elif outcome is not None:
            waiting: Deferred[Any] = ensureDeferred(cast(Any, _outcome(outcome)))
            waiting.addCallback(lambda answer: _answer(request, answer))
            waiting.addErrback(self._failed_later, request)
            return waiting
        return None

    def _failed_later(self, failure: Failure, request: Request) -> None:
        failure.trap(Exception)  # type: ignore[no-untyped-call]
        error = cast(Exception, failure.value)
        if not (isinstance(error, CancelledError) and self._is_dropped(request)):
            self._refuse(request, error)
        failure.cleanFailure()  # type: ignore[no-untyped-call]
        forget_frames(error)

    def _is_dropped(self, request: Request) -> bool:
        """Whether a list was dropped: with its peer, or because it is long and is made again later."""
        return request.channel.closed or self._lists.is_dropped(request)

    def _refuse(self, request: Request, error: Exception) -> None:
        if isinstance(error, RequestRefused):
            request.answer(error.code, remark=error.remark)
        elif isinstance(error, RemoteError):
            request.answer(ResponseCode.SYSTEM_ERROR, remark=str(error))
        elif isinstance(error, OSError) and error.errno in NO_DESCRIPTOR:
            log.error("no file can be opened", code=request_code_name(request.command.code), error=str(error))
            request.answer(ResponseCode.SYSTEM_BUSY, remark=f"too many open files, try again later: {error}")
        else:
            self._log_failure(request, error)
            request.answer(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")
        forget_frames(error)

    def _log_failure(self, request: Request, error: Exception) -> None:
        """The traceback once for each place, then a line each time: clients repeat requests at will."""
        line = error.__traceback__.tb_lineno if error.__traceback__ is not None else 0
        place = (request.command.code, type(error).__name__, line)
        code, remote = request_code_name(request.command.code), request.channel.remote_text
        if place in self._failures or len(self._failures) >= MAX_LOGGED_FAILURES:
            log.error("request failed again", error=f"{type(error).__name__}: {error}", code=code, remote=remote)
        else:
            self._failures.add(place)
            log.error("request failed", failure=error, code=code, remote=remote)


def answer_failures(request: Request, go_on: Callable[[], None]) -> None:
    """Go on with a request that waited, for a thread or a turn: what stops it is its answer.

    It is nothing to those who woke the request, and nothing to the others who wait for the same turn.
    """
    try:
        go_on()
    except RequestRefused as refused:
        request.answer(refused.code, remark=refused.remark)
        forget_frames(refused)
    except RemoteError as error:
        request.answer(ResponseCode.SYSTEM_ERROR, remark=str(error))
        forget_frames(error)
    except OSError as error:
        log.error("read failed", code=request_code_name(request.command.code), error=repr(error))
        if error.errno in NO_DESCRIPTOR:
            request.answer(ResponseCode.SYSTEM_BUSY, remark=f"too many open files, try again later: {error}")
        else:
            request.answer(ResponseCode.SYSTEM_ERROR, remark=f"reading the store failed: {error}")
        forget_frames(error)
    except Exception as error:  # noqa: BLE001 - as in ``Dispatch.commands``
        log.error("request failed", failure=error, code=request_code_name(request.command.code))
        request.answer(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")
        forget_frames(error)


def wait_for_room(request: Request, begin: Callable[[], None]) -> None:
    """Call ``begin``, which must not raise, when ``must_wait`` of the request's channel may have become false.

    :raises RequestRefused: SYSTEM_BUSY, too many requests wait already; stock clients come again in 3 s.
    """
    if not request.channel.when_room(begin):
        raise RequestRefused(
            ResponseCode.SYSTEM_BUSY,
            "too many requests wait until clients have read their answers (gateway.unsentBytesTotal); try again later",
        )


async def _outcome(awaitable: Awaitable[Answer | None]) -> Answer | None:
    return await awaitable


def _answer(request: Request, answer: Answer | None) -> None:
    if answer is not None:
        request.answer(answer.code, answer.header, answer.body, answer.remark)


def _not_supported(code: int) -> str:
    """Upstream's text, leading space and all, since tools look for it; the name is ours."""
    name = f": {KNOWN_CODES[code]}" if code in KNOWN_CODES else ""
    return f" request type {code} not supported{name}"
