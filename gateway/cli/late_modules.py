"""A module of the standard library that Twisted names and a server never looks into: loaded only if somebody does.

``twisted.python.compat`` keeps a name for ``http.cookiejar``, and with it come urllib, http, email and html: two dozen
modules, a twentieth of the time of a start.
"""

from __future__ import annotations

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec

PACKAGE, CHILD = "http", "cookiejar"
LATE = f"{PACKAGE}.{CHILD}"


def put_off() -> None:
    """From now on ``LATE`` is executed at the first look at what is in it, not when it is imported."""
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
