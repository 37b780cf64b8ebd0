"""Modules of the standard library that Twisted names and a server never looks into: loaded only if somebody does.

``twisted.python.compat`` keeps a name for ``http.cookiejar``, and with it come urllib, http, email and html: two dozen
modules, a twentieth of the time of a start.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import LazyLoader, find_spec, module_from_spec

LATE = ("http.cookiejar",)


def put_off(names: Sequence[str] = LATE) -> None:
    """From now on these modules are executed at the first look at what is in them, not when they are imported."""
    for name in names:
        if name in sys.modules:
            continue
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            continue
        spec.loader = loader = LazyLoader(spec.loader)
        module = module_from_spec(spec)
        sys.modules[name] = module
        loader.exec_module(module)
        package, _, child = name.rpartition(".")
        if package:
            setattr(sys.modules[package], child, module)
