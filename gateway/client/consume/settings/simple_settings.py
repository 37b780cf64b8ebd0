"""Settings of simple consumers, added to those of every client, with names and defaults of the Java client."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.client.connect.settings import ClientSettings, limited
from gateway.client.consume.settings.consume_positions import ConsumeFrom
from gateway.client.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class SimpleSettings(ClientSettings):
    """Settings of ``SimpleConsumer``."""

    invisible_time: float = limited(60.0, least=1.0, most=43_200.0)
    """Seconds for which received messages are hidden from other members if ``receive`` names no time."""
    poll_time: float = limited(15.0, least=0.0, most=60.0)
    """Seconds that a broker holds a ``receive`` that finds nothing, if the call names no timeout."""
    consume_from_where: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    """The place at which a group without an offset starts: LAST_OFFSET or FIRST_OFFSET."""

    def __post_init__(self) -> None:
        ClientSettings.__post_init__(self)
        if self.consume_from_where not in (ConsumeFrom.LAST_OFFSET, ConsumeFrom.FIRST_OFFSET):
            raise ConfigurationError(
                "consume_from_where", self.consume_from_where, "LAST_OFFSET or FIRST_OFFSET: pop knows no others"
            )
