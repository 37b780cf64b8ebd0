"""Modules of the standard library that Twisted names and a server never uses: loaded only at their first use.

``twisted.python.compat`` keeps a name for ``http.cookiejar``. With ``http.cookiejar`` come urllib, http, email and
html: two dozen modules, a twentieth of the time of a start. ``twisted.internet.defer`` takes three names of
``asyncio``, two of them for annotations alone. With ``asyncio`` come thirty modules: another twentieth.

Twisted's connections load OpenSSL for TLS of their own wherever it is installed, which takes 20 MB and 0.1 s. The
gateway's TLS is in ``gateway.remoting.tls``, and loads OpenSSL when a client asks for it.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from importlib import import_module
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import GeneratorType, ModuleType

PACKAGE, CHILD = "http", "cookiejar"
LATE = f"{PACKAGE}.{CHILD}"
LOOPS, DEFERREDS = "asyncio", "twisted.internet.defer"
OPENSSL, CONNECTIONS = "OpenSSL", "twisted.internet.posixbase"


def put_off() -> None:
    """Make ``LATE`` execute at the first look at its content, not at its import."""
    if LATE in sys.modules:
        return
    spec = find_spec(LATE)
    assert spec is not None, "it is of the standard library"
    assert spec.loader is not None, "it is a file"
    spec.loader = loader = LazyLoader(spec.loader)
    module = module_from_spec(spec)
    sys.modules[LATE] = module
    loader.exec_module(module)
    setattr(sys.modules[PACKAGE], CHILD, module)


def load_twisted() -> None:
    """Import what a server needs of Twisted, and no more."""
    load_deferreds()
    load_connections()


def load_deferreds() -> None:
    """Import Twisted's Deferreds without ``LOOPS``. A later import of ``LOOPS`` gets the whole module."""
    if LOOPS in sys.modules or DEFERREDS in sys.modules:
        return
    stand_in = ModuleType(LOOPS, "What Deferreds need of it while they are loaded.")
    stand_in.__dict__.update(iscoroutine=is_coroutine, AbstractEventLoop=object, Future=object)
    sys.modules[LOOPS] = stand_in
    try:
        import_module(DEFERREDS)
    finally:
        del sys.modules[LOOPS]


def load_connections() -> None:
    """Import Twisted's connections without ``OPENSSL``. A later import of ``OPENSSL`` gets the real module."""
    if OPENSSL in sys.modules or CONNECTIONS in sys.modules:
        return
    sys.modules[OPENSSL] = None  # type: ignore[assignment]  # an import of it fails
    try:
        import_module(CONNECTIONS)
    finally:
        del sys.modules[OPENSSL]


def is_coroutine(thing: object) -> bool:
    """Return the result of ``asyncio.iscoroutine`` as in Python 3.11, which includes generators."""
    return isinstance(thing, (Coroutine, GeneratorType))
