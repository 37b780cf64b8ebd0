"""Request code → the method that answers it, and the one place that turns exceptions into answers.

Two kinds of methods. ``answers`` is for requests asked now and then: the declared header is parsed, the
method returns an ``Answer`` or something to wait for. ``answers_directly`` is for the data path: the method
gets the bare request and answers it whenever it is done.

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

from gateway.errors import RequestRefused
from gateway.remoting.answer_room import LARGE_ANSWERS
from gateway.remoting.channel import Channel
from gateway.remoting.descriptors import NO_DESCRIPTOR
from gateway.remoting.lists import LISTS, Lists
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


class RequestGroup(Protocol):
    """Requests that belong together."""

    def register(self, dispatch: Dispatch, /) -> None:
        """Take over the codes this class answers."""


class Dispatch:
    """The methods of one server."""

    def __init__(self) -> None:
        self._direct: dict[int, DirectMethod] = {}
        self._cold: dict[int, tuple[type[Header] | None, Callable[[Request, Any], Outcome]]] = {}
        self._late: dict[int, Callable[[], None]] = {}
        self._failures: set[tuple[int, str, int]] = set()
        self._lists = Lists(self._list, self._refuse)

    @overload
    def answers(self, code: RequestCode, header: type[H], method: Callable[[Request, H], Outcome]) -> None: ...

    @overload
    def answers(self, code: RequestCode, header: None, method: Callable[[Request, None], Outcome]) -> None: ...

    def answers(
        self, code: RequestCode, header: type[Header] | None, method: Callable[[Request, Any], Outcome]
    ) -> None:
        """``method(request, header)`` answers this code; ``header`` is the declared class or None.

        The method returns an Answer, an awaitable of one, or None when it answers through the request.
        """
        self._check_free(code)
        self._cold[code] = (header, method)

    def answers_directly(self, code: RequestCode, method: DirectMethod) -> None:
        """``method(request)`` answers this code itself, now or later."""
        self._check_free(code)
        self._direct[code] = partial(self._begin, method) if code in LARGE_ANSWERS else method

    def loads(self, codes: Iterable[RequestCode], load: Callable[[], RequestGroup]) -> None:
        """When the first of these codes is asked for, ``load`` makes what answers all of them.

        For requests of tools: most processes end without one, and their code need not be loaded at start.
        """
        late = tuple(codes)
        for code in late:
            self._check_free(code)
            self._late[code] = partial(self._load, late, load)

    def _load(self, late: Iterable[RequestCode], load: Callable[[], RequestGroup]) -> None:
        group = load()
        for code in late:
            del self._late[code]
        group.register(self)

    def table(self) -> list[tuple[int, str, bool]]:
        """Every known code with its name and whether it is answered here, by number."""
        answered = {*self._direct, *self._cold, *self._late}
        return [(int(code), code.name, code in answered) for code in sorted(RequestCode)]

    def commands(self, channel: Channel, commands: list[RemotingCommand]) -> None:
        """Carry out all commands of one read, in order; never raises."""
        direct = self._direct
        for command in commands:
            if command.flag & RESPONSE_FLAG:
                channel.answer_arrived(command)
                continue
            request = Request(channel, command)
            method = direct.get(command.code)
            try:
                if method is not None:
                    method(request)
                elif command.code in LISTS:
                    self._lists.ask(request)
                elif command.code in LARGE_ANSWERS:
                    self._begin(self._carry_out, request)
                else:
                    self._carry_out(request)
            except Exception as error:  # noqa: BLE001 - the one place where any failure becomes an answer
                self._refuse(request, error)

    def _begin(self, method: DirectMethod, request: Request) -> None:
        """Carry out a request with a large answer, when there is room for it."""
        if request.channel.must_wait:
            wait_for_room(request, partial(self._begin_again, method, request))
        else:
            method(request)

    def _begin_again(self, method: DirectMethod, request: Request) -> None:
        try:
            self._begin(method, request)
        except Exception as error:  # noqa: BLE001 - as in ``commands``
            self._refuse(request, error)

    def _list(self, request: Request) -> Deferred[Any] | None:
        """Begin to answer a request for a list, see ``Lists``."""
        try:
            return self._carried_out(request)
        except Exception as error:  # noqa: BLE001 - as in ``commands``
            self._refuse(request, error)
            return None

    def _carry_out(self, request: Request) -> None:
        self._carried_out(request)

    def _carried_out(self, request: Request) -> Deferred[Any] | None:
        """Carry a request out; the result fires when it is answered, None when it is answered already."""
        code = request.command.code
        if code in self._late:
            self._late[code]()
        entry = self._cold.get(code)
        if entry is None:
            raise RequestRefused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, _not_supported(code))
        header_class, method = entry
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
        error = failure.value
        if not isinstance(error, Exception):
            failure.raiseException()
        elif not (request.channel.closed and isinstance(error, CancelledError)):  # a list, dropped with its peer
            self._refuse(request, error)
        # Its frames lead back to it: a circle, in which the values of all of them would stay.
        failure.cleanFailure()  # type: ignore[no-untyped-call]

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

    def _check_free(self, code: RequestCode) -> None:
        if code in self._direct or code in self._cold or code in self._late:
            raise ValueError(f"{code.name} already has a method")


def answer_failures(request: Request, go_on: Callable[[], None]) -> None:
    """Go on with a request that waited for a thread: what stops it is its answer, and nothing to those who woke it."""
    try:
        go_on()
    except RequestRefused as refused:
        request.answer(refused.code, remark=refused.remark)
    except RemoteError as error:
        request.answer(ResponseCode.SYSTEM_ERROR, remark=str(error))
    except Exception as error:  # noqa: BLE001 - as in ``Dispatch.commands``
        log.error("request failed", failure=error, code=request_code_name(request.command.code))
        request.answer(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")


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
