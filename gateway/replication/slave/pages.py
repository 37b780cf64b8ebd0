"""The pages in which a master of 5.5 answers for its topics and groups, put together again.

A page starts at the n-th name of the sorted table. If the table has changed since the page before, an Apache RocketMQ
broker answers with the first page again, a gateway with the n-th name of the changed table. Therefore pages count only
if they all have one version. Masters before 5.5 answer with the whole table. Nothing in this module asks a master.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from gateway.errors import GatewayError
from gateway.metadata.named_configs import MAX_FOLLOWED
from wire.bodies.topics import DataVersion

Config = TypeVar("Config")

PAGE_NAMES = 2_000
"""The names that are asked for at once, as upstream does; the answer may have fewer."""
MAX_PAGES = 1_000
"""The pages of one table; a master whose table takes more, or that changes all the time, is asked again later."""
MAX_TABLE_BYTES = 134_217_728
"""The bytes of all pages of one table: 670 for each of ``MAX_FOLLOWED`` names."""


class Pages(Generic[Config]):
    """The pages of one table so far.

    :param known: the version of the table here: of a master with the same version no further page is needed.
    """

    def __init__(self, known: DataVersion) -> None:
        self._known = known
        self._total = 0
        self._left = MAX_PAGES
        self._bytes = 0
        self.version: DataVersion | None = None
        """The version of the pages so far; None before the first, and after pages of two versions."""
        self.configs: dict[str, Config] = {}

    @property
    def version_text(self) -> str:
        """The version of the pages so far, as masters compare it; "" before the first page."""
        return "" if self.version is None else self.version.build().decode()

    @property
    def is_known(self) -> bool:
        """Return whether the master has the table that is known here."""
        return self.version == self._known

    @property
    def is_whole(self) -> bool:
        """Return whether the pages are the whole table."""
        return self.version is not None and len(self.configs) >= self._total

    @property
    def needs_more(self) -> bool:
        """Return whether to ask for another page, from the ``len(configs)``-th name on."""
        return self._left > 0 and not self.is_known and not self.is_whole

    def add(self, configs: Mapping[str, Config], version: DataVersion, total: int | None, size: int = 0) -> None:
        """Take a page of a table of ``total`` names; None if the page is the whole table.

        :param size: the bytes of the page.
        :raises GatewayError: the table has more names or bytes than a slave takes; its first page may tell already.
        """
        self._left = self._left - 1 if configs else 0
        self._total = len(configs) if total is None else total
        if self.version is not None and version != self.version:
            self.configs, self.version, self._bytes = {}, None, 0  # the table changed: asked for from the start
            return
        self.version = version
        self._bytes += size
        names = max(self._total, len(self.configs) + len(configs))
        if names > MAX_FOLLOWED:
            raise GatewayError(f"the master has a table of {names} names, a slave takes {MAX_FOLLOWED} at most")
        if self._bytes > MAX_TABLE_BYTES:
            raise GatewayError(f"the master has a table of more than {MAX_TABLE_BYTES} bytes, a slave takes no more")
        self.configs.update(configs)
