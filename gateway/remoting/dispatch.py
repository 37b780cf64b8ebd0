"""The map from request codes to methods, and the place that turns exceptions into answers.

Two kinds of methods answer requests. ``answers`` is for requests that come now and then: the dispatch parses the
declared header, and the method returns an ``Answer`` or an awaitable. ``answers_directly`` is for the data path: the
method gets the bare request and answers it later or now. Every request of either kind passes ``admit`` first.

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
from gateway.remoting.declared import ADMIN, Need, OnSlave, Right, Size
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
"""The number of places in the code whose failures are remembered: each writes one traceback, then single lines."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request: response code, declared header (or None), body and remark."""

    code: int = ResponseCode.SUCCESS
    header: Header | None = None
    body: bytes = b""
    remark: str | None = None


class Caller(Protocol):
    """The account of a request's sender."""

    @property
    def name(self) -> str:
        """The access key or user name; "" if a white list let in a sender that nobody knows."""

    @property
    def is_admin(self) -> bool:
        """True for an administrator."""

    @property
    def is_current(self) -> bool:
        """True while the account is as it was when the request was admitted."""

    def may(self, need: Need, /) -> bool:
        """Return whether the account has a right now, of which no request tells; a refusal is not logged."""

    def may_get(self, request: Request, needs: Iterable[Need], /) -> bool:
        """Return whether a client of the account may get a request of the broker; a refusal is logged.

        :param needs: the rights that the client must have, besides an account that is enabled and has the same key.
        """

    def allows(self, request: Request, need: Need, /) -> bool:
        """Return whether the account has a right; a refusal is logged."""

    def require(self, request: Request, need: Need, /, shown: str = "") -> str:
        """Return the rule that gives the account a right.

        :param shown: the name in a refusal, if the sender is not to learn the real one.
        :raises RequestRefused: the account lacks the right.
        """


class Request:
    """One command that came in, with the methods that answer it.

    A plain class for speed, with slots: one is made for each message sent and pulled.
    """

    __slots__ = ("answered", "caller", "channel", "command")

    def __init__(self, channel: Channel, command: RemotingCommand) -> None:
        self.channel = channel
        self.command = command
        self.caller: Caller | None = None
        self.answered = command.flag & ONEWAY_FLAG != 0

    def allows(self, *needs: Need) -> bool:
        """Return whether the sender has all these rights; for entries of a body, of which others may be carried out."""
        if self.caller is not None:
            for need in needs:
                if not self.caller.allows(self, need):
                    return False
        return True

    def require(self, *needs: Need) -> None:
        """Return if the sender has all these rights.

        :raises RequestRefused: the sender lacks one of them.
        """
        if self.caller is not None:
            for need in needs:
                self.caller.require(self, need)

    def require_of_message(self, offset: int, *needs: Need) -> None:
        """Return if the sender has all these rights on the message at an offset of the commit log.

        Anybody may guess an offset, so a refusal does not tell what is there; log and audit file do.

        :raises RequestRefused: the sender lacks one of them.
        """
        if self.caller is not None:
            for need in needs:
                self.caller.require(self, need, f"(of the message at offset {offset})")

    def answer(self, code: int, header: Header | None = None, body: bytes = b"", remark: str | None = None) -> None:
        """Answer with a declared header; ignored if one-way, already answered or the channel is closed."""
        ext_fields = None if header is None else build_header(header)
        self.send(self.command.response(code, remark, ext_fields, body))

    def send(self, response: RemotingCommand) -> None:
        """Answer with a response made from this request's command; ignored in the same cases as ``answer``."""
        if self.answered:
            return
        try:
            self.channel.send(response)
        except LocalError as error:
            # An answer too large for a frame is the gateway's limit, not the caller's mistake; the client is told so.
            log.error("answer cannot be framed", failure=error, code=self.command.code)
            self.channel.send(self.command.response(ResponseCode.SYSTEM_ERROR, str(error)))
        self.answered = True

    def send_frame(self, frame: bytes) -> None:
        """Answer with a frame that is already built; ignored in the same cases as ``answer``."""
        if not self.answered:
            self.answered = True
            self.channel.send_frame(frame)

    def send_parts(self, parts: Sequence[bytes | memoryview]) -> None:
        """Answer with a frame that is already built in parts; ignored in the same cases as ``answer``."""
        if not self.answered:
            self.answered = True
            self.channel.send_parts(parts)


H = TypeVar("H", bound=Header)
Outcome = Answer | Awaitable[Answer | None] | None
DirectMethod = Callable[[Request], None]
CarryOut = Callable[[Request], Deferred[Any] | None]
"""A function that carries a request out.

The result fires when the request is answered; None if nobody has to wait for the answer.
"""


class RequestGroup(Protocol):
    """A group of requests that belong together."""

    def register(self, dispatch: Dispatch, /) -> None:
        """Register the codes that this class answers."""


class Entry:
    """One declared request, with the functions that answer it."""

    __slots__ = ("begin", "carry_out", "code", "right", "size", "slave")

    def __init__(
        self, code: RequestCode, right: Right, size: Size, slave: OnSlave, carry_out: CarryOut, begin: CarryOut
    ) -> None:
        self.code = code
        self.right = right
        self.size = size
        self.slave = slave
        self.carry_out = carry_out
        self.begin = begin
        """A function that carries the request out now, or as soon as there is room for the cost of the answer."""


Admit = Callable[[Request, Right], None]
"""A function that lets a request with this declared right pass, or raises ``RequestRefused``."""


def admit_everybody(request: Request, right: Right) -> None:
    """Let every request pass."""


RefusalOf = Callable[[RequestCode, OnSlave], CarryOut | None]
"""A function that returns what refuses a request of this code and declaration, None if the request is answered."""


def refuse_nothing(_code: RequestCode, _slave: OnSlave) -> CarryOut | None:
    """Return None: a master answers every request."""
    return None


class Dispatch:
    """The methods of one server.

    :param admit: decides about every request with an entry here, before its header is read.
    :param refusal_of: refuses requests that the server does not answer in its role, after they are admitted.
    """

    def __init__(self, admit: Admit = admit_everybody, refusal_of: RefusalOf = refuse_nothing) -> None:
        self._admit = admit
        self._refusal_of = refusal_of
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
        slave: OnSlave = ...,
    ) -> None: ...

    @overload
    def answers(
        self,
        code: RequestCode,
        header: None,
        method: Callable[[Request, None], Outcome],
        right: Right,
        size: Size = ...,
        slave: OnSlave = ...,
    ) -> None: ...

    def answers(
        self,
        code: RequestCode,
        header: type[Header] | None,
        method: Callable[[Request, Any], Outcome],
        right: Right,
        size: Size = Size.SMALL,
        slave: OnSlave = OnSlave.REFUSED,
    ) -> None:
        """Register ``method(request, header)`` for this code; ``header`` is the declared class or None.

        The method returns an Answer, an awaitable of one Answer, or None if it answers through the request.
        """
        self._add(code, right, size, slave, partial(self._carry_out, header, method))

    def answers_directly(
        self,
        code: RequestCode,
        method: DirectMethod,
        right: Right,
        size: Size = Size.SMALL,
        slave: OnSlave = OnSlave.REFUSED,
    ) -> None:
        """Register ``method(request)`` for this code; the method itself answers the request, now or later."""
        self._add(code, right, size, slave, method)

    def _add(self, code: RequestCode, right: Right, size: Size, slave: OnSlave, carry_out: CarryOut) -> None:
        if code in self._entries:
            raise ValueError(f"{code.name} already has a method")
        begin = self._refusal_of(code, slave) or carry_out
        if begin is carry_out:
            if size is Size.LARGE:
                begin = partial(self._begin, carry_out)
            elif size is not Size.SMALL:
                begin = self._lists.ask
        self._entries[code] = Entry(code, right, size, slave, carry_out, begin)

    def loads_late(self, loads: Iterable[Callable[[], RequestGroup]]) -> None:
        """Add groups of rare requests, which are loaded only when a code without an entry arrives.

        The groups are then loaded one at a time until one of them answers the code. Most processes never get a rare
        request, so a start need not load its code.
        """
        self._late += loads

    def entries(self) -> list[Entry]:
        """Load all missing groups and return every entry, sorted by request code."""
        for load in list(self._late):
            self._load(load)
        return [self._entries[code] for code in sorted(self._entries)]

    def _load(self, load: Callable[[], RequestGroup]) -> None:
        """Load a group of rare requests; a group that cannot be loaded now is tried again for a later request."""
        load().register(self)
        self._late.remove(load)

    def commands(self, channel: Channel, commands: list[RemotingCommand]) -> None:
        """Carry out all commands of one read in their order; never raises."""
        entries, admit = self._entries, self._admit
        for command in commands:
            if command.flag & RESPONSE_FLAG:
                channel.answer_arrived(command)
                continue
            request = Request(channel, command)
            try:
                entry = entries.get(command.code)
                if entry is None:
                    entry = self._late_entry(request)
                admit(request, entry.right)
                entry.begin(request)
            except Exception as error:  # noqa: BLE001 - the one place where any failure becomes an answer
                self._refuse(request, error)

    def _late_entry(self, request: Request) -> Entry:
        """Find a request that is not loaded yet; skip groups that cannot be loaded.

        :raises RequestRefused: REQUEST_CODE_NOT_SUPPORTED, there is no such request; or the sender is no admin, who
            alone is told so.
        """
        code = request.command.code
        failure: Exception | None = None
        for load in list(self._late):
            try:
                self._load(load)
            except Exception as error:  # noqa: BLE001 - raised below, if the request is in none of the others
                failure = failure or error
                if isinstance(error, OSError) and error.errno in NO_DESCRIPTOR:
                    break  # the other groups would not find a descriptor either
            entry = self._entries.get(code)
            if entry is not None:
                return entry
        self._admit(request, ADMIN)
        raise failure or RequestRefused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, _not_supported(code))

    def _is_change(self, request: Request) -> bool:
        return self._entries[request.command.code].size is Size.CHANGING_LIST

    def _begin(self, carry_out: CarryOut, request: Request) -> None:
        """Carry out a request with a large answer as soon as there is room for the answer."""
        if request.channel.must_wait:
            wait_for_room(request, partial(self._begin_again, carry_out, request))
        else:
            carry_out(request)

    def _begin_again(self, carry_out: CarryOut, request: Request) -> None:
        try:
            self._admit_again(request)
            self._begin(carry_out, request)
        except Exception as error:  # noqa: BLE001 - as in ``commands``
            self._refuse(request, error)

    def _list(self, request: Request) -> Deferred[Any] | None:
        """Start to answer a request for a list; see ``Lists``."""
        try:
            self._admit_again(request)
            return self._entries[request.command.code].carry_out(request)
        except Exception as error:  # noqa: BLE001 - as in ``commands``
            self._refuse(request, error)
            return None

    def _admit_again(self, request: Request) -> None:
        """Judge a request that waited once more if its account has changed meanwhile."""
        caller = request.caller
        if caller is not None and not caller.is_current:
            self._admit(request, self._entries[request.command.code].right)

    def _carry_out(
        self, header_class: type[Header] | None, method: Callable[[Request, Any], Outcome], request: Request
    ) -> Deferred[Any] | None:
        """Carry a request out; the result fires when the request is answered, None if it is answered already."""
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
        """Return whether a list was dropped: its peer is gone, or the list is long and is made again later."""
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
        """Log a failure: the first one of each place with its traceback, later ones in a line each.

        Clients may repeat a failing request without end.
        """
        line = error.__traceback__.tb_lineno if error.__traceback__ is not None else 0
        place = (request.command.code, type(error).__name__, line)
        code, remote = request_code_name(request.command.code), request.channel.remote_text
        if place in self._failures or len(self._failures) >= MAX_LOGGED_FAILURES:
            log.error("request failed again", error=f"{type(error).__name__}: {error}", code=code, remote=remote)
        else:
            self._failures.add(place)
            log.error("request failed", failure=error, code=code, remote=remote)


def answer_failures(request: Request, go_on: Callable[[], None]) -> None:
    """Continue a request that waited for a thread or a turn; answer the request with any error that stops it.

    No error reaches the caller that woke the request, nor other requests that wait for the same turn.
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
    """Call ``begin`` when ``must_wait`` of the request's channel may have become false; ``begin`` must not raise.

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
    """Return upstream's text with our name of the code; tools look for the text, including its leading space."""
    name = f": {KNOWN_CODES[code]}" if code in KNOWN_CODES else ""
    return f" request type {code} not supported{name}"
