"""The decision whether messages are taken now, and the reason if not.

The store is in one of three states: open; refusing (no space, replicas too far behind, not open yet, closed), which
passes; failed, which only a restart ends. After a failed sync nothing is tried again: the kernel may have dropped the
pages, and may then report the next sync as good.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from gateway.telemetry.logs import EventLog

log = EventLog("store")


class Admission:
    """The state of the store towards senders. A plain class for speed: every message reads ``refusal``.

    Any thread may call ``fail``.
    """

    def __init__(self) -> None:
        self.refusal: str | None = "the store is not open"
        """The reason why no message is taken now, with the numbers; None while messages are taken."""
        self.failure: str | None = None
        """The reason why no message will be taken until a restart; None unless the store has failed."""
        self.too_few: str | None = None
        """The reason why too few brokers would have a message; None if enough would."""
        self._lag: str | None = None

    def open(self) -> None:
        """Take messages, unless the store has failed."""
        self.refusal = self.failure

    def close(self) -> None:
        """Take no more messages."""
        self.refusal = self.refusal or "the store is closed"

    def refuse(self, reason: str) -> None:
        """Take no messages because there is no space, until ``space_is`` reports space again."""
        if self.failure is None:
            if self.refusal is None:
                log.error("messages are refused", reason=reason)
            self.refusal = reason

    @property
    def lacks_members(self) -> bool:
        """True if messages are refused because too few brokers would have them."""
        return self.refusal is not None and self.refusal == self.too_few

    def lag_is(self, reason: str | None, *, too_few: bool = False) -> None:
        """Note the reason why replicas are too far behind, or too few; None if messages are taken as far as these go.

        :param too_few: True if the reason is that too few brokers would have a message.
        """
        self.too_few = reason if too_few else None
        before, self._lag = self._lag, reason
        if self.failure is not None:
            return
        if reason is not None and self.refusal is None:
            self.refuse(reason)
        elif reason is None and before is not None and self.refusal == before:
            self.space_is(None)

    def space_is(self, reason: str | None) -> None:
        """Note the result of a look at the disk: the reason why there is no space, or None if there is space."""
        reason = reason or self._lag
        if reason is not None:
            self.refuse(reason)
        elif self.refusal is not None and self.failure is None:
            log.info("messages are taken again", before=self.refusal)
            self.refusal = None

    def fail(self, reason: object) -> None:
        """Acknowledge no message from now on; only a restart, with its recovery, helps."""
        if self.failure is None:
            self.failure = f"the store failed: {reason}; restart the broker to recover"
            log.error("store failed", error=str(reason), consequence="no message is taken until a restart")
        self.refusal = self.failure
