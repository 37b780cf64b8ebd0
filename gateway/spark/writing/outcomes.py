"""Outcomes of half messages for the brokers: all of a batch are sent, and each is answered."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.client.blocking.waiting import pause
from gateway.client.errors import RocketMQError, broker_error
from gateway.spark.asking.cluster import Cluster
from gateway.spark.asking.connection import request
from gateway.spark.options import WriteOptions
from gateway.spark.writing.decisions import Half, Halves
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.headers.transaction import EndTransactionRequest
from wire.message.flags import SysFlag

log = logging.getLogger(__name__)

TOGETHER: Final = 1024
"""The number of outcomes that are sent before all their answers are read, and that are sent again after a failure."""
_PAUSE_S: Final = 0.2


def tell_outcomes(
    cluster: Cluster,
    options: WriteOptions,
    halves: Halves,
    *,
    is_commit: bool,
    wait: Callable[[float], object] | None = None,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Commit half messages or roll them back. A repetition does no harm.

    :raises RocketMQError: a broker refused, or could not be reached for too long; some outcomes may have been sent.
    """
    telling = _Telling(cluster, options, wait or pause, now)
    for broker_name, topic in sorted(halves.packed):
        every = list(halves.of(broker_name, topic))
        for begin in range(0, len(every), TOGETHER):
            some = every[begin : begin + TOGETHER]
            commands = [_command(options.group, broker_name, topic, half, is_commit=is_commit) for half in some]
            telling.run(broker_name, topic, commands)


@dataclass(frozen=True, slots=True)
class _Telling:
    """A sender that repeats requests until a broker answers all of them, or is away for too long."""

    cluster: Cluster
    options: WriteOptions
    wait: Callable[[float], object]
    now: Callable[[], float]

    def run(self, broker_name: str, topic: str, commands: Sequence[RemotingCommand]) -> None:
        failing_since: float | None = None
        while True:
            try:
                connection = self.cluster.broker(broker_name, topic, fresh=failing_since is not None)
                for answer in connection.call_all(commands, self.options.send_timeout_s):
                    if answer.code != ResponseCode.SUCCESS:
                        raise broker_error(answer.code, answer.remark, connection.address)
            except RocketMQError as error:
                failing_since = self.now() if failing_since is None else failing_since
                if not error.retriable or self.now() - failing_since >= self.options.reconnect_s:
                    raise
                log.warning("outcomes of %d messages for %s are told again: %s", len(commands), topic, error)
                self.cluster.forget(broker_name)
                self.wait(_PAUSE_S)
            else:
                return


def _command(group: str, broker_name: str, topic: str, half: Half, *, is_commit: bool) -> RemotingCommand:
    header = EndTransactionRequest(
        topic=topic,
        producer_group=group,
        tran_state_table_offset=half.half_offset,
        commit_log_offset=half.commit_log_offset,
        commit_or_rollback=SysFlag.TRANSACTION_COMMIT if is_commit else SysFlag.TRANSACTION_ROLLBACK,
        from_transaction_check=False,
        msg_id=half.msg_id,
        transaction_id=half.msg_id,
        bname=broker_name,
    )
    return request(RequestCode.END_TRANSACTION, header)
