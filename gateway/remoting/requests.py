"""Classes of requests whose methods declare the codes that they answer.

A declaration stands above the method, with everything that ``Dispatch`` knows about the request. Methods of compiled
classes cannot carry declarations: such classes have a ``register`` of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, overload

from gateway.remoting.declared import OnSlave, Right, Size
from gateway.remoting.dispatch import Dispatch, Outcome, Request
from gateway.remoting.turns import Turns, Work
from wire.codes import RequestCode
from wire.headers.declare import Header

S = TypeVar("S")
H = TypeVar("H", bound=Header)
P = TypeVar("P")
R = TypeVar("R", bound=Outcome)
T = TypeVar("T")
M = TypeVar("M", bound=Callable[..., Any])


class Declare(Protocol[P]):
    """A decorator of methods that get a request and its header."""

    def __call__(self, method: Callable[[S, Request, P], R], /) -> Callable[[S, Request, P], R]:
        """Return the method itself."""


class DeclareWork(Protocol[P]):
    """A decorator of methods that get a request and its header, and return a work."""

    def __call__(self, method: Callable[[S, Request, P], Work[T]], /) -> Callable[[S, Request, P], Work[T]]:
        """Return the method itself."""


class Requests:
    """A class of requests that belong together; ``turns`` is for methods that answer in turns."""

    turns: Turns

    def register(self, dispatch: Dispatch) -> None:
        """Register the methods for the codes that they declare."""
        for name, method in vars(type(self)).items():
            for declared in getattr(method, "declared", ()):
                declared(dispatch, self, getattr(self, name))


@overload
def answers(code: RequestCode, header: type[H], right: Right, size: Size = ..., slave: OnSlave = ...) -> Declare[H]: ...


@overload
def answers(code: RequestCode, header: None, right: Right, size: Size = ..., slave: OnSlave = ...) -> Declare[None]: ...


def answers(
    code: RequestCode, header: Any, right: Right, size: Size = Size.SMALL, slave: OnSlave = OnSlave.REFUSED
) -> Any:
    """Declare that a method answers a code as ``Dispatch.answers`` says."""
    return _declares(lambda dispatch, _, method: dispatch.answers(code, header, method, right, size, slave))


@overload
def answers_in_turns(
    code: RequestCode, header: type[H], right: Right, size: Size = ..., slave: OnSlave = ...
) -> DeclareWork[H]: ...


@overload
def answers_in_turns(
    code: RequestCode, header: None, right: Right, size: Size = ..., slave: OnSlave = ...
) -> DeclareWork[None]: ...


def answers_in_turns(
    code: RequestCode, header: Any, right: Right, size: Size = Size.SMALL, slave: OnSlave = OnSlave.REFUSED
) -> Any:
    """Declare that a method answers a code with a work that comes in pieces (``Turns``)."""

    def declared(dispatch: Dispatch, requests: Requests, method: Callable[[Request, Any], Work[Any]]) -> None:
        def run(request: Request, header: Any) -> Outcome:
            return requests.turns.run(method(request, header), request.channel)

        dispatch.answers(code, header, run, right, size, slave)

    return _declares(declared)


def answers_directly(
    code: RequestCode, right: Right, size: Size = Size.SMALL, slave: OnSlave = OnSlave.REFUSED
) -> Callable[[M], M]:
    """Declare that a method answers a code as ``Dispatch.answers_directly`` says."""
    return _declares(lambda dispatch, _, method: dispatch.answers_directly(code, method, right, size, slave))


def _declares(declared: Callable[[Dispatch, Requests, Any], None]) -> Callable[[M], M]:
    def declare(method: M) -> M:
        vars(method).setdefault("declared", []).append(declared)
        return method

    return declare
