"""Hand a check to a producer: one one-way request over a live connection of the group."""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from gateway.metadata.names import HALF_TOPIC
from gateway.transaction.log_access import Asked, ProducerChoice
from gateway.transaction.records.half_messages import check_body
from wire.codes import RequestCode
from wire.headers.transaction import CheckTransactionStateRequest
from wire.message.record import StoredMessage

MAX_PRODUCERS_TRIED = 8


class Asking:
    """Ask the producers of one broker.

    :param broker_name: the name that producers get with each check, as from brokers of 5.x.
    """

    def __init__(self, producers: ProducerChoice, broker_name: str | None) -> None:
        self._producers = producers
        self._broker_name = broker_name

    def can_ask(self, group: str) -> bool:
        """Return whether a producer of the group is connected."""
        return self._producers.pick(group) is not None

    def ask(self, group: str, half: StoredMessage) -> tuple[str, int] | None:
        """Hand the check to one producer of the group; return the producer's address and port.

        None if none of up to 8 connections takes the check.

        :raises ValueError: the half message does not name its real topic.
        """
        body = check_body(half)
        if body is None:
            raise ValueError("the half message does not name its real topic")
        header = CheckTransactionStateRequest(
            topic=HALF_TOPIC,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.commit_log_offset,
            msg_id=half.unique_key,
            transaction_id=half.unique_key,
            offset_msg_id=half.offset_message_id,
            bname=self._broker_name,
        )
        tried: list[Asked] = []
        while len(tried) < MAX_PRODUCERS_TRIED:
            producer = self._producers.pick(group, tried)
            if producer is None:
                return None
            if producer.notify(RequestCode.CHECK_TRANSACTION_STATE, header, body):
                return producer.remote
            tried.append(producer)
        return None
