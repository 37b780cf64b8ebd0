"""END_TRANSACTION, a producer's outcome for a half message, and RESUME_CHECK_HALF_MESSAGE, which operators send.

The checks and their order follow upstream's ``EndTransactionProcessor``. The differences on purpose are:

- The first outcome of a half message wins. A repeated outcome is answered with success and not applied. A
  contradicting outcome is refused (``gateway.transaction``).
- The immunity time starts when the broker stored the message, and not at a time of the client's clock.
- A value that stands for no outcome at all is refused, where upstream does not answer.

Clients send outcomes one-way; the answers are for tools and tests. The broker looks at the named message without its
body, which may have 4 MB: most outcomes that are refused, repeated or rolled back need no body.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from functools import partial
from typing import Final

from gateway.access.needs import topic_needs
from gateway.broker.desk import Desk
from gateway.errors import RequestRefused
from gateway.metadata.names import HALF_TOPIC
from gateway.remoting.declared import PUB, UPDATE, needs, on_topic
from gateway.remoting.dispatch import Dispatch, Request, answer_failures
from gateway.settings import Settings
from gateway.telemetry.logs import EventLog, Repeats
from gateway.transaction.checks.verdict import immunity_ms
from gateway.transaction.replies import Reply, Source
from gateway.transaction.states import Event
from wire.codes import RequestCode, ResponseCode
from wire.headers.declare import read_header
from wire.headers.transaction import EndTransactionRequest, ResumeCheckHalfMessageRequest
from wire.message.flags import SysFlag
from wire.message.message_id import parse_offset_message_id
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage
from wire.quick.ended import EndedHeader, ended

log = EventLog("transaction")

# Looked up for every transaction, which for an attribute of an enumeration takes as long as a call.
_COMMIT: Final = Event.COMMIT
_ROLLBACK: Final = Event.ROLLBACK


class EndTransaction:
    """Answers END_TRANSACTION (37) and RESUME_CHECK_HALF_MESSAGE (323)."""

    def __init__(self, desk: Desk) -> None:
        self._tables = desk.transactions.tables
        self._settling = desk.transactions.settling
        self._checks = desk.transactions.checks
        self._interventions = desk.transactions.interventions
        self._named = desk.named
        self._master = desk.master
        self._clock_ms = desk.steady_ms
        self._refusals = Repeats(desk.steady_ms)

    def register(self, dispatch: Dispatch) -> None:
        """Register the request codes that this class answers."""
        dispatch.answers_directly(
            RequestCode.END_TRANSACTION,
            self.end,
            needs(in_body="Topic Pub of the half message"),
        )
        dispatch.answers_directly(RequestCode.RESUME_CHECK_HALF_MESSAGE, self.resume, needs(on_topic(UPDATE)))

    def end(self, request: Request) -> None:
        """Apply an outcome, then answer once it is durable. An unknown outcome is never answered, as upstream.

        :raises RequestRefused: the request does not fit the half message that it names, or its value is no outcome.
        :raises FieldError: a header field is missing or malformed.
        """
        read = request.command.header  # with the command
        header = read if type(read) is EndedHeader else ended(read_header(EndTransactionRequest, request.command))
        kind = header.commit_or_rollback
        if kind not in (SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK):
            self._unknown(header, request)
            return
        is_read = self._named.is_read(header.commit_log_offset)
        recent = self._tables.recent
        half = None if is_read else recent.find(header.tran_state_table_offset, header.commit_log_offset)
        if half is None:
            look = partial(self._named.head, request, header.commit_log_offset, partial(self._apply, request, header))
            # The producer of a half message that slaves lack rolls it back at once, before the message is visible.
            if self._master is None or not self._master.follow(
                header.commit_log_offset, partial(answer_failures, request, look)
            ):
                look()
        else:
            self._apply(request, header, half)

    def _apply(self, request: Request, header: EndedHeader, half: StoredMessage | None) -> None:
        """Apply an outcome to the message at the place that the header names."""
        checked = self._checked_half(header, request, half)
        if request.caller is not None:  # clients name no topic, or after a check that of all half messages
            _judge(request, checked)
        if header.from_transaction_check:
            self._checks.answered(header.tran_state_table_offset, knows=True)
        source: Source = "check" if header.from_transaction_check else "producer", request.channel.remote
        answer = None if request.answered else partial(_answer, request)
        event = _COMMIT if header.commit_or_rollback == SysFlag.TRANSACTION_COMMIT else _ROLLBACK
        self._settling.ask(checked, event, source, answer)

    def _unknown(self, header: EndedHeader, request: Request) -> None:
        """Note that a producer does not know the outcome yet.

        The half message is looked up only in memory: if it was settled meanwhile, nothing is left to do. With access
        control it is read, because its topic decides who may postpone its check.

        :raises RequestRefused: the value is no outcome, or the request does not fit the pending half message that it
            names.
        """
        kind, offset, group = header.commit_or_rollback, header.tran_state_table_offset, header.producer_group
        refused: RequestRefused | None = None
        if kind != SysFlag.TRANSACTION_NONE:
            refused = not_an_outcome(kind)
        elif header.from_transaction_check and offset in self._tables.pending:
            if self._tables.is_of(offset, header.commit_log_offset, group):
                if request.caller is None:
                    self._checks.answered(offset, knows=False)
                    return
                self._named.head(request, header.commit_log_offset, partial(self._still_unknown, request, offset))
            else:
                refused = RequestRefused(
                    ResponseCode.SYSTEM_ERROR,
                    f"half message {offset} is not at commit log offset {header.commit_log_offset} or of another group",
                )
        if refused is not None:
            self._log_refusal(header, request, refused)
            raise refused
        log.debug("no outcome yet", half_offset=offset, group=group)

    def _still_unknown(self, request: Request, offset: int, half: StoredMessage | None) -> None:
        """Postpone the next check of a half message whose producer does not know the outcome yet."""
        if half is not None and offset in self._tables.pending:
            _judge(request, half)
            self._checks.answered(offset, knows=False)

    def resume(self, request: Request) -> None:
        """Check a half message again that the broker had given up.

        :raises RequestRefused: no message has this message id.
        :raises RemoteError: the message id cannot be read.
        """
        header = read_header(ResumeCheckHalfMessageRequest, request.command)
        _, commit_log_offset = parse_offset_message_id(header.msg_id or "")
        self._named.head(request, commit_log_offset, partial(self._resume, request, commit_log_offset))

    def _resume(self, request: Request, commit_log_offset: int, message: StoredMessage | None) -> None:
        if message is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"there is no message at commit log offset {commit_log_offset}"
            )
        self._interventions.resume(message, partial(_answer, request), request.channel)

    def _checked_half(self, header: EndedHeader, request: Request, half: StoredMessage | None) -> StoredMessage:
        """Return the half message that an outcome is for; log and raise a refusal."""
        try:
            if half is None or half.topic != HALF_TOPIC:
                raise RequestRefused(
                    ResponseCode.SYSTEM_ERROR,
                    "Find prepared transaction message failed: no half message at commit log offset "
                    f"{header.commit_log_offset}",
                )
            age_ms = 0
            if PropertyName.CHECK_IMMUNITY_TIME_IN_SECONDS in half.property_map:
                age_ms = self._clock_ms() - self._tables.stored_at_ms(half)
            check_outcome(header, half, age_ms, self._tables.settings)
        except RequestRefused as refused:
            self._log_refusal(header, request, refused)
            raise
        return half

    def _log_refusal(self, header: EndedHeader, request: Request, refused: RequestRefused) -> None:
        """Log one line for many refusals of a group, because one-way senders never hear of them."""
        left_out = self._refusals.due((header.producer_group, refused.code))
        if left_out is not None:
            log.warning(
                "outcome refused",
                group=header.producer_group,
                half_offset=header.tran_state_table_offset,
                remote=request.channel.remote_text,
                reason=refused.remark,
                left_out=left_out,
            )


def _judge(request: Request, half: StoredMessage) -> None:
    """Return if the sender may send to the topic of a half message.

    :raises RequestRefused: the sender may not.
    """
    topic = half.property_map.get(PropertyName.REAL_TOPIC, "")
    request.require_of_message(half.commit_log_offset, *topic_needs(topic, PUB))


def check_outcome(header: EndedHeader, half: StoredMessage, age_ms: int, settings: Settings) -> None:
    """Refuse an outcome that does not fit the half message found at its place; pure.

    :raises RequestRefused: ILLEGAL_OPERATION: the outcome comes after the immunity time and is no answer to a check;
        SYSTEM_ERROR: the group or one of the two offsets is wrong.
    """
    properties = half.property_map
    immunity = properties.get(PropertyName.CHECK_IMMUNITY_TIME_IN_SECONDS)
    if immunity is not None and not header.from_transaction_check and age_ms > immunity_ms(immunity, settings):
        raise RequestRefused(
            ResponseCode.ILLEGAL_OPERATION,
            f"the outcome comes {age_ms} ms after the half message, whose immunity time is {immunity} s; "
            "only the answer to a check counts now",
        )
    if properties.get(PropertyName.PGROUP) != header.producer_group:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
    if half.queue_offset != header.tran_state_table_offset:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
    if half.commit_log_offset != header.commit_log_offset:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "The commit log offset wrong")


def not_an_outcome(kind: int) -> RequestRefused:
    """Return the refusal of a ``commitOrRollback`` that is none of its three values."""
    return RequestRefused(
        ResponseCode.ILLEGAL_OPERATION,
        f"commitOrRollback {kind} is no outcome: {SysFlag.TRANSACTION_COMMIT} commits, "
        f"{SysFlag.TRANSACTION_ROLLBACK} rolls back, {SysFlag.TRANSACTION_NONE} is unknown",
    )


def _answer(request: Request, reply: Reply) -> None:
    request.answer(reply.code, remark=reply.remark)
