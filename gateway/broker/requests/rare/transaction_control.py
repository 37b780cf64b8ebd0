"""The gateway's own requests about transactions (19001 to 19006), for its command line: look, and decide by hand.

A decision follows the rules for a producer's outcome: the first outcome of a half message wins, and a contradicting one
is refused. The decision is written to the audit log before it is carried out, and once more with its result. If the
audit log cannot be written, nothing is done. ``gateway.operatorAccess`` says from which hosts these requests are
accepted; where accounts are checked, only administrators may send them. Upstream has no such requests.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred

from gateway.broker.cold_reads import TOOLS
from gateway.broker.desk import Desk, DeskRequests
from gateway.errors import RequestRefused
from gateway.in_thread import Failed
from gateway.remoting.declared import OPERATOR, Size
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import answers
from gateway.telemetry.logs import EventLog
from gateway.transaction.operators.audit import AuditLog
from gateway.transaction.operators.overview import Selection
from gateway.transaction.replies import SUCCESS, Reply
from gateway.transaction.states import Event
from wire.bodies.tools.transactions import ListedTransaction, TransactionList
from wire.codes import RequestCode, ResponseCode
from wire.headers.transaction import (
    CheckTransactionRequest,
    ListTransactionsRequest,
    ResumeTransactionRequest,
    SettleTransactionRequest,
    ShowTransactionRequest,
    TransactionStatisticsRequest,
)
from wire.message.record import StoredMessage

log = EventLog("transaction")

MAX_LISTED = 500
"""The largest number of half messages on one page: a record is read for each."""
MAX_GROUPS = 1_000
MAX_ID_CHARACTERS = 32_767
"""The longest id of a half message in characters: no property of a message is longer."""
EVENTS = {"commit": Event.COMMIT, "rollback": Event.ROLLBACK, "discard": Event.DISCARD}
DEFAULT_REASON = "an operator gave it up"


class TransactionControl(DeskRequests):
    """Answers the requests of ``rocketmq-gateway transactions``."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        directory = desk.settings.store_path_root_dir / "transaction"
        self._audit = AuditLog(directory, desk.clock, in_thread=desk.in_thread)

    # -- looking ----------------------------------------------------------------------------------------------

    @answers(RequestCode.GATEWAY_LIST_TRANSACTIONS, ListTransactionsRequest, OPERATOR, Size.LIST)
    async def list(self, request: Request, header: ListTransactionsRequest) -> Answer:
        """Answer with a page of half messages that are pending or given up."""
        selection = Selection(
            group=header.producer_group,
            topic=header.topic,
            min_age_ms=header.min_age_ms,
            max_count=max(1, min(header.max_num, MAX_LISTED)),
            after=max(header.after, -1),
        )
        overview = self._desk.transactions.overview

        def given_up() -> bytes:
            return _page(*overview.given_up(selection))

        if header.given_up:
            return Answer(body=await self._desk.cold_reads.tool_result(given_up))
        listed, after = await self._desk.turns.run(overview.page(selection), request.channel)

        def described() -> bytes:
            return _page([overview.described(entry) for entry in listed], after)

        return Answer(body=await self._desk.cold_reads.tool_result(described))

    @answers(RequestCode.GATEWAY_SHOW_TRANSACTION, ShowTransactionRequest, OPERATOR)
    async def show(self, _request: Request, header: ShowTransactionRequest) -> Answer:
        """Answer with one half message in full."""
        return await self._shown(await self._found(header.id))

    @answers(RequestCode.GATEWAY_TRANSACTION_STATISTICS, TransactionStatisticsRequest, OPERATOR, Size.LIST)
    def statistics(self, _request: Request, header: TransactionStatisticsRequest) -> Answer:
        """Answer with the figures of all transactions."""
        count = max(0, min(header.max_num, MAX_GROUPS))
        return Answer(
            body=self._desk.transactions.overview.statistics(
                count, self._desk.transactions.tables.counts.totals()
            ).build()
        )

    # -- deciding ---------------------------------------------------------------------------------------------

    @answers(RequestCode.GATEWAY_SETTLE_TRANSACTION, SettleTransactionRequest, OPERATOR)
    async def settle(self, request: Request, header: SettleTransactionRequest) -> Answer:
        """Commit, roll back or give up a half message."""
        event = EVENTS.get(header.outcome)
        if event is None:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER, f"{header.outcome!r} is no outcome: commit, rollback or discard"
            )
        half = await self._found(header.id)
        reason = header.reason or (DEFAULT_REASON if event is Event.DISCARD else "")
        facts = _facts(request, header.outcome, header.operator, half) | {"reason": reason}
        source = "operator", f"{header.operator}@{request.channel.remote_text}"
        replied: Deferred[Reply] = Deferred()
        await self._written({"event": "asked", **facts})
        self._desk.transactions.interventions.settle(half, event, source, replied.callback, reason)
        return await self._ended(facts, await replied, half.queue_offset)

    @answers(RequestCode.GATEWAY_CHECK_TRANSACTION, CheckTransactionRequest, OPERATOR)
    async def check(self, request: Request, header: CheckTransactionRequest) -> Answer:
        """Ask a producer about a pending half message now."""
        half = await self._found(header.id)
        facts = _facts(request, "check", header.operator, half)
        await self._written({"event": "asked", **facts})
        if not self._desk.transactions.interventions.ask_now(half.queue_offset):
            state = self._desk.transactions.tables.outcomes.state(half.queue_offset).name
            await self._written({"event": "done", **facts, "code": "ILLEGAL_OPERATION", "state": state})
            raise RequestRefused(
                ResponseCode.ILLEGAL_OPERATION,
                f"half message {half.queue_offset} is {state}: only a pending one can be checked",
            )
        return await self._ended(facts, SUCCESS, half.queue_offset)

    @answers(RequestCode.GATEWAY_RESUME_TRANSACTION, ResumeTransactionRequest, OPERATOR)
    async def resume(self, request: Request, header: ResumeTransactionRequest) -> Answer:
        """Make a given-up half message pending again."""
        text = header.id
        _check_id(text)
        message = await self._desk.cold_reads.tool_result(lambda: self._desk.transactions.overview.find_given_up(text))
        if message is None:
            raise RequestRefused(
                ResponseCode.QUERY_NOT_FOUND,
                f"no half message that was given up has the id {text!r}: "
                "`rocketmq-gateway transactions list --given-up` shows their ids",
            )
        facts = _facts(request, "resume", header.operator, message)
        replied: Deferred[Reply] = Deferred()
        await self._written({"event": "asked", **facts})
        self._desk.transactions.interventions.resume(message, replied.callback, TOOLS)
        reply = await replied
        new_offset = self._desk.transactions.interventions.resumed_offset(message)
        return await self._ended(facts, reply, message.queue_offset if new_offset is None else new_offset)

    # -- what they share --------------------------------------------------------------------------------------

    async def _found(self, text: str) -> StoredMessage:
        _check_id(text)
        half = await self._desk.cold_reads.tool_result(lambda: self._desk.transactions.overview.find(text))
        if half is None:
            raise RequestRefused(
                ResponseCode.QUERY_NOT_FOUND,
                f"no half message has the id {text!r}: give a half offset, a message id or a transaction id as "
                "`rocketmq-gateway transactions list` shows them",
            )
        return half

    async def _shown(self, half: StoredMessage) -> Answer:
        listed = self._desk.transactions.overview.listed(half.queue_offset)
        described = await self._desk.cold_reads.tool_result(
            lambda: self._desk.transactions.overview.described(listed, half)
        )
        return Answer(body=described.build())

    async def _ended(self, facts: dict[str, object], reply: Reply, half_offset: int) -> Answer:
        """Write the result of an action to the audit log and the event log, and answer with it."""
        code, remark = reply.code, reply.remark
        state = self._desk.transactions.tables.outcomes.state(half_offset).name
        result = {**facts, "code": code.name, "state": state, **({} if remark is None else {"remark": remark})}
        log.warning("operator decided", **{name: value for name, value in result.items() if value != ""})
        await self._written({"event": "done", **result}, must=False)
        if code != ResponseCode.SUCCESS:
            raise RequestRefused(code, _with_advice(remark or code.name, state))
        return await self._shown(await self._found(str(half_offset)))

    async def _written(self, facts: dict[str, object], *, must: bool = True) -> None:
        """Wait until a line of the audit log is on disk.

        :param must: refuse the request if the line cannot be written; otherwise only the event log reports the failure.
        :raises RequestRefused: SERVICE_NOT_AVAILABLE: the line cannot be written.
        """
        waiting: Deferred[Failed | None] = Deferred()
        self._audit.write(facts, waiting.callback)
        result = await waiting
        if not isinstance(result, Failed):
            return
        log.error("audit log not written", path=self._audit.path, error=str(result.error))
        if must:
            raise RequestRefused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"nothing was done: the audit log {self._audit.path} cannot be written: {result.error}",
            )


def _check_id(text: str) -> None:
    if len(text) > MAX_ID_CHARACTERS:
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            f"the id of a half message has {len(text)} characters, allowed are {MAX_ID_CHARACTERS}",
        )


def _page(transactions: list[ListedTransaction], next_after: int | None) -> bytes:
    return TransactionList(transactions=transactions, next_after=next_after).build()


def _facts(request: Request, action: str, operator: str, half: StoredMessage) -> dict[str, object]:
    properties = half.property_map
    return {
        "operator": operator,
        "remote": request.channel.remote_text,
        "action": action,
        "half_offset": half.queue_offset,
        "commit_log_offset": half.commit_log_offset,
        "transaction_id": half.unique_key or "",
        "group": properties.get("PGROUP", ""),
        "topic": properties.get("REAL_TOPIC", ""),
    }


def _with_advice(remark: str, state: str) -> str:
    if state == "DISCARDED":
        return f"{remark}; make it pending again first: rocketmq-gateway transactions resume ID"
    return remark
