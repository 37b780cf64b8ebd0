"""The flag that says whether this package runs compiled: some code is quicker compiled, and slower interpreted."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from typing import Final

IS_COMPILED: Final = not __file__.endswith(".py")
