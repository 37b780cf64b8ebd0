"""The rounds in which a slave copies the tables of its master: topics, groups, offsets, request modes, delay levels.

A round asks whether the broker is a master, then for one table after the other. A table is copied whole or not at all.
Offsets count only when the log here has all that the master's log had when they were told: an offset may lie behind a
pop whose record is not here yet, and a promoted slave would pass over the popped messages. With SYNC_FLUSH the log has
it on disk: offsets are saved at any time, and a power failure must not leave them ahead of the log.
Topics and groups are copied if their versions differ; the answers about other tables have no version that rises with
each change. A master that cannot be asked, or one of whose answers cannot be used, is asked again in the next round,
with one log line for all failures.
Upstream: ``SlaveSynchronize``, once a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace
from twisted.internet.defer import Deferred, DeferredLock

from gateway.errors import GatewayError
from gateway.metadata.groups import Groups
from gateway.metadata.offsets import NOT_KNOWN, ConsumerOffsets, sound_offsets
from gateway.metadata.request_modes import RequestModes
from gateway.metadata.topics import Topics
from gateway.remoting.pending import CallFailed
from gateway.replication.slave.asking import ask, check_role
from gateway.replication.slave.beginning import log_figures
from gateway.replication.slave.pages import PAGE_NAMES, Pages
from gateway.replication.surroundings import ReplicationSurroundings
from gateway.schedule.delay_service import MAX_LEVELS
from gateway.settings import Address
from gateway.settings.replication import BrokerRole
from gateway.telemetry.logs import EventLog
from wire.bodies.pop import MessageRequestModes
from wire.bodies.subscriptions import SubscriptionGroupConfig, SubscriptionGroupTable
from wire.bodies.tools.statistics import ConsumerOffsetTable, KVTable
from wire.bodies.topics import TopicConfig, TopicConfigTable
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.disk.config_json import DelayOffsetsFile
from wire.errors import RemoteError
from wire.headers.declare import Header, parse_header
from wire.headers.groups import GetAllSubscriptionGroupRequest, GetAllSubscriptionGroupResponse
from wire.headers.topics import GetAllTopicConfigRequest, GetAllTopicConfigResponse

log = EventLog("replication")

TAKE_S: Final = 1.0
"""The seconds of a round in which offsets wait for the log; they wait on in the next round."""
TAKE_AGAIN_MS: Final = 10
ROLE: Final = "brokerRole"
"""The figure in which a master of ours names its role."""
MAX_GONE = 10_000
"""The number of deleted topics of which queues are deleted that come later; the one deleted first is then forgotten."""


class AwaitedOffsets(NamedTuple):
    """Offsets that a master told, None for what it did not tell, and the end of its log after that."""

    master: Address
    log_end: int
    consumers: ConsumerOffsetTable | None
    levels: Mapping[int, int] | None


class Levels(Protocol):
    """The delay levels; ``DelayService`` has them."""

    def offsets(self) -> Mapping[int, int]:
        """Return the next offset of each level that ever held a message."""

    def resume_from(self, offsets: Mapping[int, int], /) -> None:
        """Take the next offset of each level."""


class Tables(Protocol):
    """The tables that are copied; the parts of a broker have them."""

    @property
    def topics(self) -> Topics:
        """The topics."""

    @property
    def groups(self) -> Groups:
        """The subscription groups."""

    @property
    def offsets(self) -> ConsumerOffsets:
        """The consumer offsets."""

    @property
    def modes(self) -> RequestModes:
        """The request modes."""

    @property
    def delays(self) -> Levels:
        """The delay levels."""

    @property
    def log_end(self) -> int:
        """The offset after the last message that was copied."""

    @property
    def kept_end(self) -> int:
        """The end of the log that a power failure leaves; with ASYNC_FLUSH, which promises none, ``log_end``."""

    @property
    def shown_end(self) -> int:
        """The offset after the last message that readers may see."""

    def lacks_filler(self, log_end: int) -> bool:
        """Return whether the log may lack only the filler that ends a file of its master's log, which comes later."""

    async def forget_topics(self, topics: list[str]) -> None:
        """Delete what belongs to topics that the master does not have any more, but their queues."""

    async def delete_queues_below(self, topics: Collection[str], log_end: int) -> None:
        """Delete the queues of topics whose messages all lie below an offset of the log, and note the deletions."""


class TableRounds:
    """The copies of one master's tables.

    :param master: returns the master's address; None as long as nobody named it.
    :param told: called with a master and the offset up to which it shows its log.
    """

    def __init__(
        self,
        tables: Tables,
        around: ReplicationSurroundings,
        master: Callable[[], Address | None],
        told: Callable[[Address, int], None] | None = None,
    ) -> None:
        self._told = told
        self._tables = tables
        self._around = around
        self._master = master
        self._failures: dict[str, str] = {}
        self._gone: dict[str, int | None] = {}
        """Topics that the master deleted, with the end of its log after that, None until the master tells it.

        Messages of such a topic may still come below this end.
        """
        self._consumers: ConsumerOffsetTable | None = None
        self._levels: Mapping[int, int] | None = None
        """The offsets that this round was told; None if it was told nothing."""
        self._waiting: AwaitedOffsets | None = None
        """The offsets that wait for the log."""
        self._topics_of: Address | None = None
        """The master whose topics are those here; None before the first round."""
        self.log_begin = 0
        """The offset at which the master's log began in the last round; 0 if that is not known."""
        self.log_end = -1
        """The offset at which the master's log ended when it said so last; −1 if that is not known."""
        self.log_end_at_ms: int | None = None
        """The time at which the master said so, in epoch milliseconds; None if it never did."""
        self.copied_at_ms: int | None = None
        """The time of the last round that copied every table, in epoch milliseconds; None if there was none."""
        self.master_role = ""
        """The role that the master named last; empty as long as none did, as Apache RocketMQ's never does."""
        self._copying = DeferredLock()

    async def round(self) -> None:
        """Copy every table of the master once."""
        master = self._master()
        if master is not None:
            await self._copy_all(master, asks_role=True)

    async def copy_from(self, former: Address) -> str | None:
        """Copy every table of a broker that was the master until now; return what failed, None if nothing did.

        Offsets that still wait for the log are forgotten: the former master has later ones.
        """
        await self._copy_all(former, asks_role=False)
        return "; ".join(f"{what}: {reason}" for what, reason in self._failures.items()) or None

    async def _copy_all(self, master: Address, *, asks_role: bool) -> None:
        await self._copying.acquire()
        try:
            await self._copy_each(master, asks_role=asks_role)
        finally:
            self._copying.release()

    async def _copy_each(self, master: Address, *, asks_role: bool) -> None:
        if not asks_role:
            self._failures.clear()
        if not asks_role or (self._waiting is not None and self._waiting.master != master):
            self._waiting = None
        self._consumers = self._levels = None
        for what, copy in (
            *([("role", self._check_role)] if asks_role else []),
            ("topics", self._copy_topics),
            ("groups", self._copy_groups),
            ("consumer offsets", self._copy_offsets),
            ("request modes", self._copy_modes),
            ("delay levels", self._copy_levels),
            ("begin of the log", self._copy_log_begin),
        ):
            try:
                await copy(master)
            except (GatewayError, RemoteError) as error:
                self._failed(what, master, str(error))
                if what == "role" or isinstance(error, CallFailed):
                    return  # another broker may be at the address when the next request arrives there
            else:
                self._copied(what, master)
        await self._take(waits=asks_role)
        if self.is_complete:
            self.copied_at_ms = self._around.clock_ms()

    @property
    def is_complete(self) -> bool:
        """Return whether the last round copied every table."""
        return not self._failures and self._waiting is None

    def _failed(self, what: str, master: Address, reason: str) -> None:
        if what not in self._failures:
            log.warning("table of the master not copied", table=what, master=master, reason=reason)
        self._failures[what] = reason

    def _copied(self, what: str, master: Address) -> None:
        reason = self._failures.pop(what, None)
        if reason is not None:
            log.info("table of the master copied again", table=what, master=master, failed_before=reason)

    async def _check_role(self, master: Address) -> None:
        """Ask whether the broker is a master: the old master may have come back as a slave, with an empty directory.

        :raises GatewayError: it is a slave.
        """
        await check_role(master, self._around.call)

    # -- tables with a version ------------------------------------------------------------------------------

    async def _copy_topics(self, master: Address) -> None:
        # Messages below are older than the table, so a topic that is not in the table was deleted after them.
        log_end, shown_end = self._tables.log_end, self._tables.shown_end
        pages: Pages[TopicConfig] = Pages(self._tables.topics.data_version)
        while pages.needs_more:
            header = GetAllTopicConfigRequest(
                topic_seq=len(pages.configs), data_version=pages.version_text, max_topic_num=PAGE_NAMES
            )
            answer = await self._ask(master, RequestCode.GET_ALL_TOPIC_CONFIG, header)
            table: TopicConfigTable = await self._around.off_reactor(partial(TopicConfigTable.parse, answer.body))
            total = parse_header(GetAllTopicConfigResponse, answer.ext_fields).total_topic_num
            pages.add(table.configs, table.data_version, total, len(answer.body))
        if not (pages.is_known or pages.is_whole):
            return  # which topics exist now is not known
        is_followed = self._topics_of == master
        if not is_followed:  # another master may never have learnt of a topic that has messages
            self._gone.clear()
        if not pages.is_known and pages.version is not None:
            gone = self._tables.topics.follow(TopicConfigTable(pages.configs, pages.version))
            log.info("topics are those of the master", topics=len(pages.configs), gone=len(gone))
            if is_followed:
                self._gone.update(dict.fromkeys(gone))
            await self._tables.forget_topics(gone)
        self._topics_of = master
        for topic in [topic for topic in self._gone if self._tables.topics.get(topic) is not None]:
            del self._gone[topic]
        while len(self._gone) > MAX_GONE:
            del self._gone[next(iter(self._gone))]
        if self._gone:
            await self._tables.delete_queues_below(self._gone, log_end)
        for topic in [topic for topic, end in self._gone.items() if end is not None and end <= shown_end]:
            del self._gone[topic]

    async def _copy_groups(self, master: Address) -> None:
        pages: Pages[SubscriptionGroupConfig] = Pages(self._tables.groups.data_version)
        forbidden: dict[str, Mapping[str, int]] = {}
        while pages.needs_more:
            header = GetAllSubscriptionGroupRequest(
                group_seq=len(pages.configs), data_version=pages.version_text, max_group_num=PAGE_NAMES
            )
            answer = await self._ask(master, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, header)
            table: SubscriptionGroupTable = await self._around.off_reactor(
                partial(SubscriptionGroupTable.parse, answer.body)
            )
            total = parse_header(GetAllSubscriptionGroupResponse, answer.ext_fields).total_group_num
            pages.add(table.configs, table.data_version, total, len(answer.body))
            forbidden |= table.forbidden_table
        if pages.version is not None and pages.is_whole and not pages.is_known:
            gone = self._tables.groups.follow(SubscriptionGroupTable(pages.configs, pages.version, forbidden))
            log.info("groups are those of the master", groups=len(pages.configs), gone=len(gone))

    # -- tables that are compared themselves ----------------------------------------------------------------

    async def _copy_offsets(self, master: Address) -> None:
        answer = await self._ask(master, RequestCode.GET_ALL_CONSUMER_OFFSET)

        def told() -> tuple[ConsumerOffsetTable, int]:
            table = ConsumerOffsetTable.parse(answer.body)
            sound, others = sound_offsets(table.offset_table, lambda topic: self._tables.topics.get(topic) is not None)
            return replace(table, offset_table=sound), others

        self._consumers, left_out = await self._around.off_reactor(told)
        if left_out:
            log.warning("consumer offsets of the master left out", master=master, left_out=left_out)

    async def _copy_modes(self, master: Address) -> None:
        answer = await self._ask(
            master, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, unless=ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        )
        if answer.code == ResponseCode.SUCCESS:  # masters of 4.9 have no modes
            table = await self._around.off_reactor(partial(MessageRequestModes.parse, answer.body))
            self._tables.modes.follow(table.modes)

    async def _copy_levels(self, master: Address) -> None:
        answer = await self._ask(master, RequestCode.GET_ALL_DELAY_OFFSET)
        told = (await self._around.off_reactor(partial(DelayOffsetsFile.parse, answer.body))).offset_table
        self._levels = {level: told[level] for level in range(1, MAX_LEVELS + 1) if told.get(level, -1) >= 0}
        if len(self._levels) < len(told):
            left_out = len(told) - len(self._levels)
            log.warning("delay levels of the master left out", master=master, left_out=left_out)

    async def _copy_log_begin(self, master: Address) -> None:
        answer = await self._ask(master, RequestCode.GET_BROKER_RUNTIME_INFO)
        table = (await self._around.off_reactor(partial(KVTable.parse, answer.body))).table
        self.log_begin, self.log_end, hidden_from = log_figures(table)
        self.log_end_at_ms = self._around.clock_ms()
        for topic in [topic for topic, end in self._gone.items() if end is None or end > self.log_end]:
            self._gone[topic] = self.log_end
        if (role := table.get(ROLE, "")) != BrokerRole.SLAVE:  # a former master tells that it is one now
            self.master_role = role
        if self._waiting is None or self._waiting.log_end > self.log_end:  # a log that ends earlier never ended there
            self._waiting = AwaitedOffsets(master, self.log_end, self._consumers, self._levels)
        if self._told is not None:
            # Apache RocketMQ shows all at once.
            self._told(master, self.log_end if hidden_from is None else hidden_from)

    async def _take(self, *, waits: bool) -> None:
        """Take the offsets that were told, as soon as the log is here.

        :param waits: whether the log may still come: nothing comes any more from a former master.
        """
        told, seconds = self._waiting, self._around.reactor.seconds
        if told is None:
            return
        tables = self._tables
        begin, ends_s = tables.log_end, seconds() + TAKE_S
        while waits and tables.kept_end < told.log_end:
            if seconds() >= ends_s:
                if begin == tables.log_end == tables.kept_end and tables.lacks_filler(told.log_end):
                    break
                return
            passed: Deferred[None] = Deferred()
            self._around.later(TAKE_AGAIN_MS, partial(passed.callback, None))
            await passed
        self._waiting = None
        if told.consumers is not None:
            try:
                applied_end = told.consumers.applied_end
                self._tables.offsets.follow(
                    told.consumers.offset_table, NOT_KNOWN if applied_end is None else max(applied_end, NOT_KNOWN)
                )
            except GatewayError as error:
                self._failed("consumer offsets", told.master, str(error))
        if told.levels is not None:
            levels = {level: offset for level, offset in told.levels.items() if offset}
            if levels != self._tables.delays.offsets():
                self._tables.delays.resume_from(told.levels)

    async def _ask(
        self, master: Address, code: RequestCode, header: Header | None = None, unless: int = ResponseCode.SUCCESS
    ) -> RemotingCommand:
        return await ask(self._around.call, master, code, header, unless=unless)
