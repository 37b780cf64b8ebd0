"""The loader of requests: it finds the classes below ``requests``, each by the folder of its module.

A class of requests is made from the desk, and its methods declare the codes that they answer. No other place names
such a class: a new module is enough for a new request. Modules below ``requests/rare`` are imported when a code comes
that no other module answers. All other modules are imported with this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from gateway.broker import requests
from gateway.broker.desk import Desk
from gateway.broker.requests import rare
from gateway.remoting.dispatch import Dispatch, RequestGroup


def load_requests(desk: Desk, dispatch: Dispatch) -> None:
    """Register every request with a dispatch; rare requests are registered when the first of them comes."""
    for make in AT_ONCE:
        make(desk).register(dispatch)
    dispatch.loads_late(partial(_load, desk, name) for name in _modules(rare))


def _load(desk: Desk, name: str) -> RequestGroup:
    """Import a module that has one class of requests, and return an object of that class."""
    (make,) = _classes(import_module(name))
    return make(desk)


def _classes(module: ModuleType) -> list[Callable[[Desk], RequestGroup]]:
    """Return the classes of requests that a module defines; a module that only helps others defines none."""
    defined = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    return [value for value in defined if isinstance(value, type) and hasattr(value, "register")]


def _modules(package: ModuleType) -> Iterator[str]:
    """Yield the names of all modules in a package and its subpackages.

    The modules of ``rare`` are left out unless ``rare`` is the package.
    """
    for found in iter_modules(package.__path__, f"{package.__name__}."):
        if not found.ispkg:
            yield found.name
        elif found.name != rare.__name__:
            yield from _modules(import_module(found.name))


AT_ONCE = [made for name in _modules(requests) for made in _classes(import_module(name))]
"""The classes whose requests clients send all the time, in the order of their modules' names."""


def every_class() -> list[Callable[[Desk], RequestGroup]]:
    """Import all modules of requests, and return all of their classes."""
    return [*AT_ONCE, *(make for name in _modules(rare) for make in _classes(import_module(name)))]
