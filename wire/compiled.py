"""Whether this package runs compiled: what is quicker then may be slower interpreted."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from typing import Final

IS_COMPILED: Final = not __file__.endswith(".py")
