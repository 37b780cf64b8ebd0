"""``rocketmq-gateway transactions``: look at the half messages of a running broker, and settle them by hand.

Exit codes: 0 done; 1 the broker refused; 2 the broker cannot be reached or the command is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gateway.cli.broker_option import AskedBroker, broker_option
from gateway.cli.options import as_json, gathered
from gateway.cli.output import RepeatedErrors, say, say_json, say_lines, say_table
from gateway.readable import duration_text, moment_text

if TYPE_CHECKING:
    from gateway.cli.broker_call import BrokerCall
    from wire.bodies.tools.transactions import ListedTransaction, TransactionStatistics
    from wire.codes import RequestCode
    from wire.headers.declare import Header

PAGE = 200
MAX_KEYS_CHARACTERS = 40
MAX_BODY_CHARACTERS = 4_000
"""The most characters of a body that ``show`` prints; with --json it prints all of them."""
MAX_INT64 = 2**63 - 1
"""The largest number that a request carries."""

_reason = click.option("--reason", metavar="TEXT", help="Why, for the audit log.")

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGE = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")


class Age(click.ParamType):  # type: ignore[type-arg]
    """An age such as ``90s``, ``10m``, ``2h``, ``3d``."""

    name = "AGE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return milliseconds."""
        if isinstance(value, int):
            return value
        found = _AGE.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not an age such as 90s, 10m, 2h or 3d", param, ctx)
        age_ms = int(found[1]) * _UNITS_MS[found[2]]
        if age_ms > MAX_INT64:
            self.fail(f"{value!r} is longer than {MAX_INT64 // _UNITS_MS['d']}d, the longest age there is", param, ctx)
        return age_ms


@dataclass(frozen=True, slots=True)
class HalfMessageAction:
    """An action on half messages, one after the other, which ``acting`` makes from the command line."""

    ids: Sequence[str]
    operator: str
    broker: AskedBroker
    as_json: bool

    def run(self, code: RequestCode, header: Callable[..., Header], **fields: str | None) -> None:
        """Send the request for each half message. A refusal is reported, and the other half messages follow anyway.

        :param header: makes the request's header from ``id``, ``operator`` and ``fields``.
        """
        from gateway.cli.broker_call import BrokerRefused

        results: list[dict[str, Any]] = []
        errors = RepeatedErrors("ID")
        with self.broker.calling() as call:
            for id_ in self.ids:
                try:
                    entry = _ask(call, code, header(id=id_, operator=self.operator, **fields))
                except BrokerRefused as refused:
                    errors.tell(str(refused).replace(id_, "ID"), id_, f"{id_}: {refused}")
                    results.append({"id": id_, "error": str(refused), "code": refused.code})
                    continue
                results.append({"id": id_, "state": entry.state, "half_offset": entry.half_offset})
                if not self.as_json:
                    say(f"{id_}: half message {entry.half_offset} is {entry.state}{_outlook(entry)}")
        errors.end()
        if self.as_json:
            say_json({"results": results}, indent=2)
        if any("error" in result for result in results):
            click.get_current_context().exit(1)

    def settle(self, outcome: str, reason: str | None) -> None:
        """Run the request that settles each half message with an outcome."""
        from wire.codes import RequestCode
        from wire.headers.transaction import SettleTransactionRequest

        self.run(RequestCode.GATEWAY_SETTLE_TRANSACTION, SettleTransactionRequest, outcome=outcome, reason=reason)


def acting(command: Callable[..., None]) -> Callable[..., None]:
    """Add ID..., --operator, --broker and --json, which the command gets as its ``HalfMessageAction``."""

    @wraps(command)
    def with_action(ids: Sequence[str], operator: str | None, broker: AskedBroker, as_json: bool, **more: Any) -> None:
        command(HalfMessageAction(ids, operator or _login(), broker, as_json), **more)

    who = click.option("--operator", metavar="NAME", help="Who decides, for the audit log (default: your login).")
    which = click.argument("ids", metavar="ID...", nargs=-1, required=True)
    return which(who(broker_option(as_json(with_action))))


@click.group(
    epilog="""\b
Examples:
  rocketmq-gateway transactions stats                       how many wait, of which groups
  rocketmq-gateway transactions list --older-than 10m       what has no outcome for ten minutes
  rocketmq-gateway transactions show 4711                   one of them in full
  rocketmq-gateway transactions check 4711                  ask a producer now
  rocketmq-gateway transactions commit 4711                 deliver it
  rocketmq-gateway transactions list --given-up             what was given up, and why
  rocketmq-gateway transactions resume 7F0000010000…        check it again from the start

\b
ID is a half offset (first column of list), a message id, or the transaction id (unique key) of the message.
The first outcome of a half message is final: a decision that contradicts it is refused. Every action is written to
transaction/audit.jsonl in the broker's store directory.
BROKER is a loopback address unless the broker has gateway.operatorAccess=EVERYWHERE.
Exit code: 0 done, 1 the broker refused, 2 it cannot be reached or the command is wrong.
"""
)
def transactions() -> None:
    """Look at half messages of a running broker, and settle them by hand."""


class _Wanted(NamedTuple):
    """The choice of listed half messages."""

    group: str | None
    topic: str | None
    min_age_ms: int
    after: int
    given_up: bool


@transactions.command(
    name="list",
    epilog="""\b
Examples:
  rocketmq-gateway transactions list --group payments --older-than 1h
  rocketmq-gateway transactions list --topic orders --limit 1000 --json | jq -r '.transactions[].keys'
  rocketmq-gateway transactions list --after 4711           the page behind half message 4711
  rocketmq-gateway transactions list --given-up             ID there is the message id, for resume

\b
NEXT CHECK: in which time a producer is asked; "no producer" when none of the group is connected: the check waits,
uncounted, until one connects. LAST PRODUCER: who was asked last, or who sent the message.
""",
)
@click.option("--group", metavar="NAME", help="Only this producer group.")
@click.option("--topic", metavar="NAME", help="Only messages for this topic.")
@click.option("--older-than", "min_age_ms", type=Age(), default=0, help="Only this old or older, e.g. 90s, 10m, 2h.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Stop after so many.")
@click.option(
    "--after", type=click.IntRange(-1, MAX_INT64), default=-1, metavar="ID", help="Begin behind this half offset."
)
@click.option("--given-up", is_flag=True, help="Those in TRANS_CHECK_MAX_TIME_TOPIC instead of the pending ones.")
@broker_option
@as_json
@gathered("wanted", _Wanted)
def list_(wanted: _Wanted, limit: int, broker: AskedBroker, as_json: bool) -> None:
    """List pending half messages, the oldest first."""
    from msgspec.structs import asdict

    from wire.bodies.tools.transactions import TransactionList
    from wire.codes import RequestCode
    from wire.headers.transaction import ListTransactionsRequest

    found: list[ListedTransaction] = []
    next_after: int | None = wanted.after
    with broker.calling() as call:
        while next_after is not None and len(found) < limit:
            header = ListTransactionsRequest(
                producer_group=wanted.group,
                topic=wanted.topic,
                min_age_ms=wanted.min_age_ms,
                max_num=min(PAGE, limit - len(found)),
                after=next_after,
                given_up=wanted.given_up,
            )
            page = TransactionList.parse(call.ask(RequestCode.GATEWAY_LIST_TRANSACTIONS, header))
            found += page.transactions
            next_after = page.next_after
    if as_json:
        say_json({"transactions": [asdict(entry) for entry in found], "next_after": next_after}, indent=2)
        return
    columns = _GIVEN_UP_COLUMNS if wanted.given_up else _COLUMNS
    say_table([name for name, _ in columns], [[text(entry) for _, text in columns] for entry in found])
    if not found:
        filters = _filters(wanted)
        if filters:
            which = "given-up" if wanted.given_up else "pending"
            say(f"No {which} half message matches {filters}; there may be others.", err=True)
        else:
            say("Nothing was given up." if wanted.given_up else "No half message is pending.", err=True)
    if next_after is not None:
        say(f"… there are more: --after {next_after}", err=True)


@transactions.command(
    epilog="""\b
Examples:
  rocketmq-gateway transactions show 4711
  rocketmq-gateway transactions show 7F00000100002A9F0000000000000BB8 --json

\b
Also for settled ones, as long as their record is in the log: state, who decided, refused contradictions.
Times are UTC. The body is printed as text if it is UTF-8, otherwise as base64.
"""
)
@click.argument("id_", metavar="ID")
@broker_option
@as_json
def show(id_: str, broker: AskedBroker, as_json: bool) -> None:
    """Show one half message in full."""
    from msgspec.structs import asdict

    from wire.codes import RequestCode
    from wire.headers.transaction import ShowTransactionRequest

    with broker.calling() as call:
        entry = _ask(call, RequestCode.GATEWAY_SHOW_TRANSACTION, ShowTransactionRequest(id=id_))
        body = _body(call, entry)
    if as_json:
        say_json({**asdict(entry), **body}, indent=2)
        return
    for name, value in _fields(entry):
        say(f"{name:18} {value}")
    for name, value in entry.properties.items():
        say(f"{'property':18} {name}={value}")
    for name, value in body.items():
        say(f"{name.replace('_', ' ')}:")
        say_lines(_cut_body(value))


@transactions.command(
    epilog="""\b
Example:
  rocketmq-gateway transactions check 4711

\b
A live producer of the group is asked within a tenth of a second; the check counts like any other. A half message that
has had all its checks (transactionCheckMax) is asked about once more before it is given up.
"""
)
@acting
def check(action: HalfMessageAction) -> None:
    """Ask a producer about pending half messages now."""
    from wire.codes import RequestCode
    from wire.headers.transaction import CheckTransactionRequest

    action.run(RequestCode.GATEWAY_CHECK_TRANSACTION, CheckTransactionRequest)


@transactions.command(
    epilog="""\b
Example:
  rocketmq-gateway transactions commit 4711 4712 --reason "paid, see ticket 9"

\b
The message is delivered to its real topic, once, whatever its producer answers later.
"""
)
@_reason
@acting
def commit(action: HalfMessageAction, reason: str | None) -> None:
    """Deliver half messages."""
    action.settle("commit", reason)


@transactions.command(
    epilog="""\b
Example:
  rocketmq-gateway transactions rollback 4711

\b
The message is never delivered, whatever its producer answers later.
"""
)
@_reason
@acting
def rollback(action: HalfMessageAction, reason: str | None) -> None:
    """Never deliver half messages."""
    action.settle("rollback", reason)


@transactions.command(
    epilog="""\b
Example:
  rocketmq-gateway transactions discard 4711 --reason "its service is gone"

\b
A copy with the reason goes to TRANS_CHECK_MAX_TIME_TOPIC; "resume" makes it pending again.
"""
)
@click.option("--reason", metavar="TEXT", required=True, help="Why: kept with the copy and in the audit log.")
@acting
def discard(action: HalfMessageAction, reason: str) -> None:
    """Give half messages up: nobody is asked any more."""
    action.settle("discard", reason)


@transactions.command(
    epilog="""\b
Example:
  rocketmq-gateway transactions resume 7F00000100002A9F0000000000000BB8

\b
ID is the message id or the transaction id that "list --given-up" shows. The copy becomes a new half message whose
checks begin again; commit, rollback and discard then work on it. mqadmin's resumeCheckHalfMessage does the same.
"""
)
@acting
def resume(action: HalfMessageAction) -> None:
    """Make half messages pending again that were given up."""
    from wire.codes import RequestCode
    from wire.headers.transaction import ResumeTransactionRequest

    action.run(RequestCode.GATEWAY_RESUME_TRANSACTION, ResumeTransactionRequest)


@transactions.command(
    epilog="""\b
Examples:
  rocketmq-gateway transactions stats
  rocketmq-gateway transactions stats --groups 100 --json

\b
Counts are since the broker's start. The same figures are served to Prometheus with metricsExporterType=PROM.
"""
)
@click.option("--groups", type=click.IntRange(0, 1_000), default=20, show_default=True, help="Groups shown.")
@broker_option
@as_json
def stats(groups: int, broker: AskedBroker, as_json: bool) -> None:
    """Figures of all transactions, and the groups with the most pending ones."""
    from msgspec.structs import asdict

    from wire.bodies.tools.transactions import TransactionStatistics
    from wire.codes import RequestCode
    from wire.headers.transaction import TransactionStatisticsRequest

    with broker.calling() as call:
        body = call.ask(RequestCode.GATEWAY_TRANSACTION_STATISTICS, TransactionStatisticsRequest(max_num=groups))
    found = TransactionStatistics.parse(body)
    if as_json:
        say_json({**asdict(found), "groups": [asdict(group) for group in found.groups]}, indent=2)
    else:
        _echo_statistics(found)


# -- asking -------------------------------------------------------------------------------------------------


def _ask(call: BrokerCall, code: RequestCode, header: Header) -> ListedTransaction:
    from wire.bodies.tools.transactions import ListedTransaction

    return ListedTransaction.parse(call.ask(code, header))


def _body(call: BrokerCall, entry: ListedTransaction) -> dict[str, str]:
    """Return the body as ``body``, ``body_base64`` or ``body_unread`` (a reason); empty if the record is gone."""
    from gateway.cli.broker_call import BrokerRefused
    from gateway.cli.clients.json_messages import body_members
    from gateway.client.compression import decompress
    from gateway.client.errors import MessageRefused
    from wire.codes import RequestCode
    from wire.headers.pull import ViewMessageRequest
    from wire.message.flags import SysFlag
    from wire.message.record import parse_records

    if entry.commit_log_offset < 0:
        return {}
    try:
        data = call.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=entry.commit_log_offset))
    except BrokerRefused as refused:
        return {"body_unread": str(refused)}
    for record in parse_records(data):
        try:
            is_compressed = record.sys_flag & SysFlag.COMPRESSED
            return body_members(decompress(record.body, record.sys_flag) if is_compressed else record.body)
        except MessageRefused as refused:
            return {"body_unread": str(refused)}
    return {}


def _login() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in a container
        import os

        return f"uid {os.getuid()}"


# -- showing ------------------------------------------------------------------------------------------------


def _filters(wanted: _Wanted) -> str:
    """Return the options that leave half messages out of a list, as a user writes them."""
    older_than = f"{wanted.min_age_ms}ms" if wanted.min_age_ms else None
    after = wanted.after if wanted.after >= 0 else None
    given = {"--group": wanted.group, "--topic": wanted.topic, "--older-than": older_than, "--after": after}
    return " ".join(f"{option} {value}" for option, value in given.items() if value is not None)


def _outlook(entry: ListedTransaction) -> str:
    if entry.next_check_in_ms is None:
        return ""
    return ", no producer of its group is connected" if entry.waits_for_producer else f", next check {_next(entry)}"


def _fields(entry: ListedTransaction) -> Iterator[tuple[str, str]]:
    """Yield names and values of the known facts about a half message, except its properties."""
    from msgspec.structs import asdict

    for name, value in asdict(entry).items():
        text = _field_text(name, value, entry)
        if text:
            yield name.removesuffix("_ms").replace("_", " "), text


def _field_text(name: str, value: Any, entry: ListedTransaction) -> str:
    if name == "properties" or value is None or (name == "commit_log_offset" and value < 0):
        return ""
    if name == "stored_at_ms":
        return moment_text(value) if value else ""
    if name == "next_check_in_ms":
        return _next(entry).removeprefix("in ")
    if name == "age_ms":
        return duration_text(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _cut_body(text: str) -> str:
    """Return a body with each line indented, so that no line looks like one of ours; a long body is cut."""
    left = len(text) - MAX_BODY_CHARACTERS
    lines = text[:MAX_BODY_CHARACTERS].splitlines()
    more = [f"… and {left:,} more characters; --json shows them"] if left > 0 else []
    return "\n".join([*(f"  {line}" for line in lines), *more])


def _age(entry: ListedTransaction) -> str:
    return "" if entry.age_ms is None else duration_text(entry.age_ms)


def _checks(entry: ListedTransaction) -> str:
    return "" if entry.checks is None else str(entry.checks)


def _next(entry: ListedTransaction) -> str:
    if entry.next_check_in_ms is None:
        return "-"
    if entry.waits_for_producer:
        return "no producer"
    return f"in {duration_text(entry.next_check_in_ms)}" if entry.next_check_in_ms else "now"


def _keys(entry: ListedTransaction) -> str:
    text = entry.keys or entry.transaction_id
    return text if len(text) <= MAX_KEYS_CHARACTERS else f"{text[:MAX_KEYS_CHARACTERS]}…"


Column = tuple[str, "Callable[[ListedTransaction], str]"]
_COLUMNS: tuple[Column, ...] = (
    ("ID", lambda entry: str(entry.half_offset)),
    ("AGE", _age),
    ("GROUP", lambda entry: entry.group),
    ("TOPIC", lambda entry: entry.topic),
    ("KEYS", _keys),
    ("CHECKS", _checks),
    ("NEXT CHECK", _next),
    ("LAST PRODUCER", lambda entry: entry.last_producer),
    ("CONFLICTS", lambda entry: str(entry.conflicts)),
)
_GIVEN_UP_COLUMNS: tuple[Column, ...] = (
    ("ID", lambda entry: entry.message_id),
    ("SINCE", _age),
    ("GROUP", lambda entry: entry.group),
    ("TOPIC", lambda entry: entry.topic),
    ("KEYS", _keys),
    ("CHECKS", _checks),
    ("NOW", lambda entry: entry.state),
    ("REASON", lambda entry: entry.reason),
)


def _echo_statistics(found: TransactionStatistics) -> None:
    say(f"{'pending':18} {found.pending}")
    say(f"{'oldest':18} {duration_text(found.oldest_age_ms) if found.pending else '-'}")
    say(f"{'checks in flight':18} {found.checks_in_flight}")
    for name, count in found.counts.items():
        say(f"{name.replace('_', ' '):18} {count}")
    if not found.groups:
        return
    say("")
    head = ["GROUP", "PENDING", "DUE", "IN FLIGHT", "UNKNOWN IN A ROW", "PRODUCER"]
    rows = [
        [
            group.group,
            str(group.pending),
            str(group.due),
            str(group.in_flight),
            str(group.unknowns),
            "yes" if group.producers else "none",
        ]
        for group in found.groups
    ]
    say_table(head, rows)
    if found.group_count > len(found.groups):
        say(f"… and {found.group_count - len(found.groups)} more groups; --groups shows more", err=True)
