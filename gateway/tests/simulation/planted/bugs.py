"""Planted bugs: each breaks one rule, and must be found within a named number of seeds.

A rule that no bug breaks is a rule nobody would miss: the list is the proof that the simulation can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.broker.requests.sending import send as send_module
from gateway.delivery.pop.check_points import CheckPoint
from gateway.delivery.pop.pops import Pops
from gateway.delivery.pop.revival import Revival
from gateway.delivery.pop.revive_log import ReviveLog, _StateRecords
from gateway.metadata.names import SCHEDULE_TOPIC
from gateway.metadata.offsets import ConsumerOffsets
from gateway.metadata.topics import Topics
from gateway.replication import comparing
from gateway.replication.auto_switch import joining
from gateway.replication.auto_switch.counting import GroupCopies
from gateway.replication.auto_switch.joining import GroupJoining
from gateway.replication.controlled.sync_set import InSyncMembers
from gateway.replication.epochs import Epochs
from gateway.replication.master import port, sending
from gateway.replication.master.copies import Copies
from gateway.replication.master.sending import SlaveLine
from gateway.replication.master.stage import ReplicatedStage
from gateway.replication.slave.confirmed import ConfirmedStage
from gateway.replication.slave.receiver import Receiver
from gateway.replication.slave.rounds import TableRounds
from gateway.replication.slave.shown_copy import ShownCopy
from gateway.schedule.delay_service import DelayService
from gateway.store.message_store import MessageStore
from gateway.store.put_result import PutStatus, WaitFor
from gateway.store.queues.consume_queues import ConsumeQueues
from gateway.tests.crash.disk.recording import Change, Kind
from gateway.tests.crash.planted.mutants import Patch
from gateway.tests.simulation.campaign import Kind as HistoryKind
from gateway.tests.simulation.controlled.history import ControlledHistory
from gateway.tests.simulation.history import History
from gateway.tests.simulation.machine import SimulatedDisk
from gateway.tests.simulation.popping.history import PoppingHistory
from gateway.transaction import settling
from gateway.transaction.records.op_messages import build_op
from gateway.transaction.replies import SUCCESS


@dataclass(frozen=True, slots=True)
class Bug:
    """One planted bug.

    :param plant: puts it into the code.
    :param within: the number of seeds, from 0 on, of which one has to find it.
    :param kind: the histories that find it.
    """

    plant: Callable[[Patch], None]
    within: int
    kind: HistoryKind = History


def without(kind: Kind, part: str) -> Callable[[Patch], None]:
    """A disk that does not do one thing for paths that contain ``part``, without saying so."""

    def plant(patch: Patch) -> None:
        honest = SimulatedDisk.log

        def log(self: SimulatedDisk, change: Change) -> None:
            if change.kind is not kind or part not in change.path + "/":
                honest(self, change)

        patch(SimulatedDisk, "log", log)

    return plant


# --- reports ---------------------------------------------------------------------------------------------------------


def count_beyond_the_end(patch: Patch) -> None:
    """A report of more than was sent counts."""
    patch(sending, "fault_of_later", lambda *_: None)


def count_what_was_sent(patch: Patch) -> None:
    """Every report stands for all that was sent."""
    honest = SlaveLine.received

    def received(self: SlaveLine, data: bytes) -> None:
        honest(self, data)
        if self.sends and not self.is_closed:
            self.reported_end = self.sent_end
            self._owner.reported(self)

    patch(SlaveLine, "received", received)


def count_each_report(patch: Patch) -> None:
    """Two reports of one slave are two copies."""

    def report(self: Any, broker_id: int, end: int) -> None:
        self._reports[broker_id + 100 * len(self._reports)] = end

    patch(Copies, "report", report)


def count_the_best(patch: Patch) -> None:
    """One slave is enough, however many are needed."""
    patch(Copies, "replicated_end", property(lambda self: max(self._reports.values(), default=0)))


def count_anybody(patch: Patch) -> None:
    """The slaves of a name may be at any host."""
    patch(port, "slaves_at", lambda _host, members, _hosts: {key: each for key, each in members.items() if key})


def report_what_is_written(patch: Patch) -> None:
    """A slave reports what it has written and not yet synced."""
    patch(Receiver, "report_end", lambda self: self._store.max_commit_log_offset)


def report_what_came(patch: Patch) -> None:
    """A slave reports what it has received."""
    patch(Receiver, "report_end", lambda self: self._store.durable_end if self._line is None else _received(self._line))


def _received(line: Any) -> int:
    return int(line.intake.next_offset)


# --- comparison ------------------------------------------------------------------------------------------------------


def compare_nothing(patch: Patch) -> None:
    """Every copy is taken for a copy of this log."""
    patch(comparing, "difference", lambda *_: None)


def compare_nothing_and_count(patch: Patch) -> None:
    """A slave that is ahead is taken for one that is equal."""
    compare_nothing(patch)
    patch(port, "refused_place", lambda *_: None)


def skip_the_first_file(patch: Patch) -> None:
    """A new slave gets the last file only."""
    honest: Any = SlaveLine.begin

    def begin(self: Any, first: int, log_begin: int) -> None:
        end = self._owner.durable_end()
        last = end - end % self._owner._settings.mapped_file_size_commit_log
        honest(self, first, log_begin if first else max(log_begin, last))

    patch(SlaveLine, "begin", begin)


def send_what_is_not_durable(patch: Patch) -> None:
    """A master sends what it may lose."""
    patch(MessageStore, "durable_end", property(lambda self: self.max_commit_log_offset))


# --- the stage -------------------------------------------------------------------------------------------------------


def show_at_once(patch: Patch) -> None:
    """Messages are visible before slaves have them."""
    honest = ReplicatedStage.stored

    def stored(self: Any, batch: Any) -> None:
        waiters, batch.waiters = batch.waiters, []
        self._pass_on(batch)
        batch.waiters = waiters
        passed, self._pass_on = self._pass_on, _answer
        try:
            honest(self, batch)
        finally:
            self._pass_on = passed

    def reported(self: Any) -> None:
        end = self._held[-1].end if self._passes and self._held else self._copies.replicated_end
        while self._held and self._held[0].end <= end:
            batch = self._held.popleft()
            self._passed_end = batch.end
            if self._waiting and self._waiting[0][1] is batch:
                self._waiting.popleft()
            _answer(batch)
        self._tell_answered()

    patch(ReplicatedStage, "stored", stored)
    patch(ReplicatedStage, "reported", reported)


def _answer(batch: Any) -> None:
    waiters, batch.waiters = batch.waiters, []
    for callback, told, _ in waiters:
        callback(told)


def show_at_timeout(patch: Patch) -> None:
    """What is answered 12 is shown."""
    honest = ReplicatedStage._look

    def look(self: Any) -> None:
        honest(self)
        if not self._waiting:
            _show_held(self)

    patch(ReplicatedStage, "_look", look)


def show_without_slaves(patch: Patch) -> None:
    """What is answered 11 is shown."""
    honest = ReplicatedStage.stored

    def stored(self: Any, batch: Any) -> None:
        honest(self, batch)
        if not self._waiting and self._copies.answer_without_waiting(batch.start) is not None:
            _show_held(self)

    patch(ReplicatedStage, "stored", stored)


def _show_held(stage: Any) -> None:
    while stage._held:
        batch = stage._held.popleft()
        stage._passed_end = batch.end
        stage._pass_on(batch)


def show_what_a_start_found(patch: Patch) -> None:
    patch(MessageStore, "hide_from", lambda _self, _place: None)


def show_what_two_have(patch: Patch) -> None:
    """A slave shows what it has, also if more than its master and itself have to have it."""
    patch(ShownCopy, "stage", lambda _self, after: after)


def answer_by_the_begin(patch: Patch) -> None:
    """A batch counts as replicated once its first byte is."""

    def reported(self: Any) -> None:
        end = self._copies.replicated_end
        while self._held and self._held[0].start < end:
            batch = self._held.popleft()
            self._passed_end = batch.end
            if self._waiting and self._waiting[0][1] is batch:
                self._waiting.popleft()
            self._pass_on(batch)
        self._judge_lag()
        self._tell_answered()

    patch(ReplicatedStage, "reported", reported)


def answer_ok_at_the_stop(patch: Patch) -> None:
    """At an orderly stop everybody is answered SEND_OK."""
    honest = ReplicatedStage.let_all_pass

    def let_all_pass(self: Any) -> None:
        self._waiting.clear()
        for batch in self._held:
            _answer(batch)
        honest(self)

    def drained(self: Any, callback: Callable[[], None]) -> None:
        callback()

    patch(ReplicatedStage, "let_all_pass", let_all_pass)
    patch(ReplicatedStage, "when_answered", drained)


def answer_ok_at_timeout(patch: Patch) -> None:
    """A sender that waited long enough is answered SEND_OK."""
    honest = ReplicatedStage._answer
    patch(ReplicatedStage, "_answer", lambda self, batch, _status: honest(self, batch, PutStatus.PUT_OK))


def answer_when_written(patch: Patch) -> None:
    """Nobody waits for the disk."""
    patch(send_module, "wait_for", lambda _: WaitFor.WRITE)


# --- tables and transactions -----------------------------------------------------------------------------------------


def copy_a_slaves_tables(patch: Patch) -> None:
    """The tables of a broker are copied although it is a slave itself."""

    async def check(self: Any, master: object) -> None:
        pass

    patch(TableRounds, "_check_role", check)


def forget_offsets(patch: Patch) -> None:
    """A slave does not take consumer offsets."""
    patch(ConsumerOffsets, "follow", lambda *_: None)


def take_half_the_offsets(patch: Patch) -> None:
    """A slave takes offsets that are too low."""
    honest = ConsumerOffsets.follow

    def follow(self: ConsumerOffsets, master: Mapping[str, Mapping[int, int]]) -> None:
        honest(
            self, {key: {queue: max(0, offset - 1) for queue, offset in each.items()} for key, each in master.items()}
        )

    patch(ConsumerOffsets, "follow", follow)


def lose_offsets(patch: Patch) -> None:
    """Consumer offsets are not saved before the stop, and not at the stop."""
    patch(ConsumerOffsets, "persist", lambda *_: None)
    patch(ConsumerOffsets, "persist_now", lambda *_: None)


def answer_outcomes_at_once(patch: Patch) -> None:
    """An outcome that no slave has is answered with success."""
    patch(settling, "stored_reply", lambda _: SUCCESS)


def take_the_contrary(patch: Patch) -> None:
    """A contradicting outcome is answered with success."""

    def refuse(self: Any, offset: int, event: Any, state: Any, source: Any, answer: Any) -> None:
        if answer is not None:
            answer(SUCCESS)

    patch(settling.Settling, "_refuse", refuse)


def record_few_outcomes(patch: Patch) -> None:
    """An op record names only the commits."""
    honest = build_op

    def build(settled: Any, **rest: Any) -> Any:
        return honest([each for each in settled if each[1].name == "COMMITTED"] or settled[:0], **rest)

    patch(settling, "build_op", build)


def skip_delayed(patch: Patch) -> None:
    """A start leaves out the messages that wait in their delay levels."""
    honest = DelayService.start

    def start(self: Any) -> None:
        ends = {level: self._store.max_offset(SCHEDULE_TOPIC, each.queue_id) for level, each in self._levels.items()}
        for level, each in self._levels.items():
            each.offset = max(each.offset, ends[level])
        honest(self)

    patch(DelayService, "start", start)


# --- disks -----------------------------------------------------------------------------------------------------------


def leave_names(patch: Patch) -> None:
    """The names of queues that were found at the start are not synced."""
    honest = ConsumeQueues._load

    def load(self: Any, queue: Any) -> list[str]:
        found = honest(self, queue)
        self._found.clear()
        return found

    patch(ConsumeQueues, "_load", load)


# --- groups with a controller ----------------------------------------------------------------------------------------


def confirm_in_a_small_set(patch: Patch) -> None:
    """What waited when the set became too small is answered SEND_OK."""
    patch(GroupCopies, "replicated_end", GroupCopies.end_everywhere)


def hold_after_the_drain(patch: Patch) -> None:
    """A member that stops holds what comes to its disk from then on."""

    def let_all_pass(self: ConfirmedStage) -> None:
        while self._held:
            self._pass_on(self._held.popleft())

    patch(ConfirmedStage, "let_all_pass", let_all_pass)


def show_what_is_not_confirmed(patch: Patch) -> None:
    """A member shows what it copied at once."""
    patch(ConfirmedStage, "confirm", lambda self, _end: self.let_all_pass())

    def let_all_pass(self: ConfirmedStage) -> None:
        while self._held:
            self._pass_on(self._held.popleft())

    patch(ConfirmedStage, "let_all_pass", let_all_pass)


def doubt_nothing(patch: Patch) -> None:
    """A set that the controller was asked for counts only when it answers."""
    patch(InSyncMembers, "counting", property(lambda self: self.told))


def join_at_once(patch: Patch) -> None:
    """A member joins the set before it has caught up."""

    def wanted(self: InSyncMembers, _own_end: int, _now_ms: int) -> frozenset[int] | None:
        members = frozenset({self._own_id, *self._slaves})
        return None if self._asked_at_ms is not None or members == self.told else members

    def confirmed(self: InSyncMembers, own_end: int) -> int:
        return own_end

    patch(InSyncMembers, "wanted", wanted)
    patch(InSyncMembers, "confirmed", confirmed)


def join_without_everything(patch: Patch) -> None:
    """A member joins the set of a master alone whatever it lacks of what the master's start found."""
    honest = InSyncMembers.wanted

    def wanted(self: InSyncMembers, own_end: int, now_ms: int) -> frozenset[int] | None:
        if self._asked_at_ms is None and self._slaves and self.told == {self._own_id}:
            return self.told | self._slaves.keys()
        return honest(self, own_end, now_ms)

    patch(InSyncMembers, "wanted", wanted)


def cut_nothing(patch: Patch) -> None:
    """A member whose log differs from the master's copies on."""

    async def ask_for_cut(self: Any, offset: int, end: int) -> None:
        pass

    patch(GroupJoining, "_ask_for_cut", ask_for_cut)


def compare_epochs_only(patch: Patch) -> None:
    """Records are not compared: epochs decide."""

    async def end_by_epochs(_store: Any, _around: Any, _remoting: Any, place: int, _begin: int) -> int:
        return place

    patch(joining, "common_end", end_by_epochs)


def forget_cut_epochs(patch: Patch) -> None:
    """Epochs are kept though their records were cut."""
    patch(Epochs, "without_from", lambda self, _offset: self)


def take_offsets_at_once(patch: Patch) -> None:
    """A slave takes offsets before its log has what they follow from."""
    honest = TableRounds._take

    async def take(self: TableRounds, *, waits: bool) -> None:
        await honest(self, waits=False)

    patch(TableRounds, "_take", take)


def drop_what_comes_again(patch: Patch) -> None:
    """What was not acknowledged is settled, and not stored again."""
    honest = Revival._settle

    def settle(self: Revival, point: CheckPoint, done: list[int], _messages: list[Any]) -> None:
        honest(self, point, done, [])

    patch(Revival, "_settle", settle)


def forget_groups(patch: Patch) -> None:
    """A group that pops is gone with the table that it was not in yet."""

    def rebuild(self: Pops, *, takes_over: bool) -> None:
        if not takes_over:
            self._order_file.load()
        self.revive_log.rebuild(self._order_file.applied_end)

    patch(Pops, "rebuild", rebuild)


def forget_check_points(patch: Patch) -> None:
    """A start finds no check points."""
    patch(ReviveLog, "rebuild", lambda _self, _orders_end: 0)


def make_no_topic(patch: Patch) -> None:
    """A message is delivered to a topic that the table does not have."""
    patch(Topics, "_restored", lambda self, topic, *_: self.get(topic))


def pass_over_states(patch: Patch) -> None:
    """A place is saved behind the records of closed queues, as if a promoted slave had the file of ordered pops."""
    patch(_StateRecords, "oldest", lambda _self, _queue_id, _count: [])


BUGS: Mapping[str, Bug] = {
    "a report beyond the end counts": Bug(count_beyond_the_end, 100),
    "a report counts for all that was sent": Bug(count_what_was_sent, 100),
    "two reports of one slave are two copies": Bug(count_each_report, 100),
    "one slave is enough where two are needed": Bug(count_the_best, 100),
    "a stranger counts": Bug(count_anybody, 100),
    "a slave reports what it received": Bug(report_what_came, 100),
    "logs are not compared": Bug(compare_nothing, 400),
    "logs are not compared, and a slave may be ahead": Bug(compare_nothing_and_count, 100),
    "a new slave gets the last file only": Bug(skip_the_first_file, 400),
    "a master sends what it may lose": Bug(send_what_is_not_durable, 400),
    "messages are visible at once": Bug(show_at_once, 100),
    "messages are visible when they are answered 12": Bug(show_at_timeout, 100),
    "messages are visible when they are answered 11": Bug(show_without_slaves, 100),
    "a restart shows what no slave has": Bug(show_what_a_start_found, 100),
    "a slave of three shows what two have": Bug(show_what_two_have, 100),
    "a batch is replicated when its begin is": Bug(answer_by_the_begin, 100),
    "a time-out answers SEND_OK": Bug(answer_ok_at_timeout, 100),
    "a send waits for nothing": Bug(answer_when_written, 100),
    "a slave takes no offsets": Bug(forget_offsets, 100),
    "a slave takes offsets that are too low": Bug(take_half_the_offsets, 100),
    "a contradicting outcome is answered with success": Bug(take_the_contrary, 100),
    "a start leaves out delayed messages": Bug(skip_delayed, 100),
    "the log is not synced": Bug(without(Kind.SYNC, "/commitlog/"), 100),
    "the names of log files are not synced": Bug(without(Kind.SYNC_DIRECTORY, "/commitlog/"), 100),
    "a set that is too small confirms": Bug(confirm_in_a_small_set, 100, ControlledHistory),
    "a member that stops holds what comes": Bug(hold_after_the_drain, 100, ControlledHistory),
    "a member shows what is not confirmed": Bug(show_what_is_not_confirmed, 100, ControlledHistory),
    "a member joins before it caught up": Bug(join_at_once, 100, ControlledHistory),
    "a member without everything joins": Bug(join_without_everything, 400, ControlledHistory),
    "nothing is cut": Bug(cut_nothing, 400, ControlledHistory),
    "epochs of what was cut are kept": Bug(forget_cut_epochs, 400, ControlledHistory),
    "what was popped is dropped when it is due": Bug(drop_what_comes_again, 100, PoppingHistory),
    "a start forgets groups that are not saved": Bug(forget_groups, 400, PoppingHistory),
    "a start forgets what was popped": Bug(forget_check_points, 100, PoppingHistory),
    "a delivery makes no topic": Bug(make_no_topic, 400, PoppingHistory),
    "records of closed queues are passed over": Bug(pass_over_states, 1_500, PoppingHistory),
}
UNPROVEN: Mapping[str, Bug] = {
    "a slave reports what it wrote": Bug(report_what_is_written, 100),
    "a stop answers SEND_OK": Bug(answer_ok_at_the_stop, 400),
    "a slave copies the tables of a slave": Bug(copy_a_slaves_tables, 2_000),
    "offsets are not saved": Bug(lose_offsets, 100),
    "an outcome is answered without a copy": Bug(answer_outcomes_at_once, 400),
    "an op record names commits only": Bug(record_few_outcomes, 400),
    "the names of found queues are not synced": Bug(leave_names, 2_000),
    "a slave takes offsets before the log": Bug(take_offsets_at_once, 400, PoppingHistory),
    "a set that was asked for does not count": Bug(doubt_nothing, 400, ControlledHistory),
    "epochs decide, and records are not compared": Bug(compare_epochs_only, 400, ControlledHistory),
}
"""Further bugs; no seed is known yet that finds them."""
