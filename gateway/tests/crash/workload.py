"""What is done to a broker: steps drawn from a seed, and the facts that each of them makes.

A ``Workload`` is a choice of steps, how often each comes, and the store's settings; a ``Run`` plays it for one life of
a broker. Between two steps nothing happens, so that the seed alone decides how appends, turns of the reactor, threads
and flushes interleave.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from gateway.broker.requests.batch import as_one_record
from gateway.metadata.names import CHECK_MAX_TOPIC, HALF_TOPIC
from gateway.schedule.redirect import redirect_delayed
from gateway.schedule.timer_message import delete_key, placed_timed
from gateway.settings.transaction import TransactionStateStore
from gateway.store.put_result import PutOutcome, PutResult, WaitFor, each_result
from gateway.store.store_settings import StoreSettings
from gateway.tests.crash.ledger import Fact, Half, Ledger, OffsetKey, Outcome, QueueName, Shown, Waiting
from gateway.tests.crash.recording import Change, Fault, Image, RecordingFiles
from gateway.tests.crash.small_broker import HOST, LEVELS, LIMITS, TIMERS, Clock, SmallBroker
from gateway.transaction.half_messages import HALF_QUEUE_ID, half_of, real_place
from gateway.transaction.limits import HOUR_MS, TransactionLimits
from gateway.transaction.settling import Reply
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import TopicConfig
from wire.codes import ResponseCode
from wire.message.batch import BatchPart, build_batch, parse_batch
from wire.message.flags import SysFlag
from wire.message.inner_batch import is_inner_batch
from wire.message.light_queues import LIGHT_QUEUE_ID, is_light_queue
from wire.message.message_run import MessageRun
from wire.message.properties import PropertyName, build_properties
from wire.message.record import OutgoingMessage

QUEUES: tuple[QueueName, ...] = (("A", 0), ("A", 1), ("B", 0))
GROUPS = ("g1", "g2")
SMALL = StoreSettings(
    mapped_file_size_commit_log=32_768,
    mapped_file_size_consume_queue=6_000,  # 300 units
    max_hash_slot_num=64,
    max_index_num=256,
    max_message_size=4096,
)
ROLLED_AFTER_MS = 3_000
"""Timer messages that are due later may be rolled; what takes them back counts only when it comes as far in time."""
ROLLING = replace(SMALL, mapped_file_size_commit_log=8_192, mapped_file_size_consume_queue=160, max_index_num=24)
LIGHT = replace(ROLLING, enable_multi_dispatch=True)
EXTENDED = replace(LIGHT, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=160)  # 6 units a file
LIGHT_QUEUES = ("%LMQ%x",), ("%LMQ%y",), ("%LMQ%x", "%LMQ%y"), ("%LMQ%y", "other", "%LMQ%x", "%LMQ%y")
SIZES = (0, 1, 30, 300, 300, 600, 1500)
SHORT = (0, 1, 30, 300)
FEW = 3


@dataclass(frozen=True, slots=True)
class Workload:
    """Steps by name with their weights, how many of them one life has, and the sizes of bodies.

    With one size only, records that a crash left behind fit exactly behind those that are written after it.
    """

    name: str
    weights: Mapping[str, int]
    settings: StoreSettings = SMALL
    steps: int = 60
    lives: int = 3
    sizes: tuple[int, ...] = SIZES
    states: TransactionStateStore = TransactionStateStore.QUEUE
    limits: TransactionLimits = LIMITS


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a broker, ready to be cut at any place.

    :param image: the disk it began with.
    :param ledger: what had been promised before.
    :param facts: each with the number of changes that were made before it.
    """

    image: Image
    ledger: Ledger
    changes: list[Change]
    facts: list[tuple[int, Fact]]


class Run:
    """Plays steps on one broker and takes the facts down."""

    def __init__(self, workload: Workload, image: Image, ledger: Ledger, random: Random, first_number: int) -> None:
        self._workload = workload
        self._random = random
        self._image = image
        self._ledger = ledger
        self._facts: list[tuple[int, Fact]] = []
        self._number = first_number
        self._clock = Clock(ledger.now_ms)
        self._files = RecordingFiles(image, self._clock)
        self._timed_soon: list[OutgoingMessage] = []
        self._halves: list[Shown] = [half.shown for half in ledger.halves.values()]
        self._offsets, self._topics = deepcopy(ledger.offsets), deepcopy(ledger.topics)
        self._groups = deepcopy(ledger.groups)
        self._sent = {queue: set(bodies) for queue, bodies in ledger.allowed.items()}
        self._failed = False
        self._flushed = -1
        self._begin()

    @property
    def number(self) -> int:
        """The number of the next message."""
        return self._number

    def play(self) -> Life:
        """All steps."""
        names, weights = list(self._workload.weights), list(self._workload.weights.values())
        for name in self._random.choices(names, weights, k=self._workload.steps):
            self._clock.now_ms += self._random.choice((0, 0, 1, 7))
            self._fact(partial(_set_now, self._clock.now_ms))
            getattr(self, f"_{name}")()
            self._note_flushed()
        return Life(self._image, self._ledger, self._files.changes, self._facts)

    def _begin(self) -> None:
        workload = self._workload
        self._broker = SmallBroker(self._files, self._clock, workload.settings, workload.states, workload.limits)
        self._broker.open()
        self._broker.store.listen(self._visible)
        self._broker.start()
        self._note_flushed()

    def _fact(self, fact: Fact) -> None:
        self._facts.append((len(self._files.changes), fact))

    def _note_flushed(self) -> None:
        flushed = self._broker.store.flushed_offset
        if flushed != self._flushed:
            self._flushed = flushed
            self._fact(partial(_set_flushed, flushed))

    # --- messages ------------------------------------------------------------------------------------------------

    def _message(self, queue: QueueName) -> OutgoingMessage:
        self._number += 1
        return message(self._workload, queue, self._number, self._clock(), self._random)

    def _allow(self, message: OutgoingMessage, queue: QueueName | None = None) -> None:
        """A message may be read from its queue, or another one, from now on."""
        queue = queue or (message.topic, message.queue_id)
        self._sent.setdefault(queue, set()).add(message.body)
        self._fact(partial(_allow, queue, message.body))

    def _append(self) -> None:
        message = self._message(self._random.choice(QUEUES))
        self._allow(message)
        self._broker.store.append(message, self._stored)

    def _append_all(self) -> None:
        messages = [self._message(self._random.choice(QUEUES)) for _ in range(self._random.randint(1, 4))]
        for message in messages:
            self._allow(message)
        self._broker.store.append_all(messages, self._all_stored)

    def _append_run(self) -> None:
        """A batch, as clients send it."""
        queue = self._random.choice(QUEUES)
        messages = [self._message(queue) for _ in range(self._random.randint(1, 6))]
        for message in messages:
            self._allow(message)
        body = build_batch([BatchPart(message.flag, message.body, message.properties) for message in messages])
        run = MessageRun(_outgoing(queue, body, self._clock(), {PropertyName.WAIT: "true"}))
        self._broker.store.append_run(run, self._all_stored, WaitFor.DISK)

    def _light(self) -> None:
        """One that names light queues besides its own."""
        message, names = self._message(self._random.choice(QUEUES)), self._random.choice(LIGHT_QUEUES)
        properties = {**message.property_map, PropertyName.INNER_MULTI_DISPATCH: ",".join(names)}
        message.properties, message.property_map = build_properties(properties), properties
        self._allow(message)
        for name in filter(is_light_queue, names):
            self._allow(message, (name, LIGHT_QUEUE_ID))
        self._broker.store.append(message, self._stored)

    def _inner_batch(self) -> None:
        """Several as one record, as batch queues keep them."""
        queue = self._random.choice(QUEUES)
        messages = [self._message(queue) for _ in range(self._random.randint(1, 5))]
        for message in messages:
            self._allow(message)
        body = build_batch([BatchPart(0, message.body, b"") for message in messages])
        batch = as_one_record(_outgoing(queue, body, self._clock(), messages[0].property_map), len(messages))
        self._broker.store.append_all([batch], self._all_stored, WaitFor.DISK)

    def _stored(self, result: PutResult) -> None:
        if result.status.is_stored:
            self._show(result)
        else:
            assert self._failed, result.status

    def _all_stored(self, outcomes: Sequence[PutOutcome]) -> None:
        for result in each_result(outcomes):
            self._stored(result)

    def _visible(self, outcomes: list[PutOutcome]) -> None:
        for result in each_result(outcomes):
            self._show(result)

    def _show(self, result: PutResult) -> None:
        if result.queue is None:
            return  # evidence of an outcome, in no queue
        message, place = result.message, result.commit_log_offset
        bodies = [message.body] * (1 + len(result.further))
        if is_inner_batch(message.sys_flag):
            bodies = [part.body for part in parse_batch(message.body)]
        key = message.property_map.get(PropertyName.KEYS, "")
        places = (result.queue, result.queue_offset), *result.further
        for (queue, offset), body in zip(places, bodies, strict=True):
            shown = Shown(body, place, place + result.size, key)
            self._fact(partial(_show, (queue.topic, queue.queue_id), offset, shown))
            key = ""  # only the first is found by it

    # --- threads and flushes -------------------------------------------------------------------------------------

    def _turn(self) -> None:
        self._broker.threads.turn()

    def _work(self) -> None:
        self._broker.threads.work(self._random)

    def _settle(self) -> None:
        self._broker.threads.run()

    def _flush(self) -> None:
        self._broker.store.flush()

    def _flush_due(self) -> None:
        self._clock.now_ms += self._random.choice((500, 1_000, 10_000))
        self._broker.store.flush_due(self._clock())

    def _progress(self) -> None:
        self._broker.reactor.advance(1)

    # --- transactions --------------------------------------------------------------------------------------------

    def _half(self) -> None:
        message = self._message(self._random.choice(QUEUES[:2]))
        properties = {**message.property_map, PropertyName.PGROUP: "producers", PropertyName.TRAN_MSG: "true"}
        half = half_of(_outgoing((message.topic, message.queue_id), message.body, self._clock(), properties))
        self._allow(half)
        self._allow(half, (CHECK_MAX_TOPIC, HALF_QUEUE_ID))
        self._broker.store.append(half, self._half_stored)

    def _half_stored(self, result: PutResult) -> None:
        self._stored(result)
        if not result.status.is_stored:
            return
        place = real_place(result.message.property_map)
        assert place is not None
        start = result.commit_log_offset
        shown = Shown(result.message.body, start, start + result.size, "")
        self._halves.append(shown)
        self._fact(partial(_add_half, result.queue_offset, shown, place))

    def _end(self) -> None:
        """An outcome for a half message: mostly a new one, sometimes an old one again, or the contrary."""
        if not self._halves:
            return
        index = self._random.choice((0, len(self._halves) - 1, self._random.randrange(len(self._halves))))
        message = self._broker.store.message_at(self._halves[index].place)
        if message is None or message.topic != HALF_TOPIC:
            del self._halves[index]
            return
        outcome = self._random.choice(list(Outcome))
        offset = message.queue_offset
        self._fact(lambda ledger: ledger.ask(offset, outcome))
        transactions = self._broker.transactions
        ask = transactions.commit if outcome is Outcome.COMMIT else transactions.roll_back
        ask(message, ("workload", "-"), partial(self._told, offset, outcome))

    def _told(self, offset: int, outcome: Outcome, reply: Reply) -> None:
        if reply.code is ResponseCode.SUCCESS:
            log_end = self._broker.store.stored_end  # what is appended may lie behind the outcome
            self._fact(lambda ledger: ledger.tell(offset, outcome, log_end))
        else:
            self._fact(lambda ledger: ledger.refuse(offset, outcome))

    # --- retention -----------------------------------------------------------------------------------------------

    def _age(self) -> None:
        self._clock.now_ms += self._random.choice((24, 100)) * HOUR_MS

    def _delete_expired(self) -> None:
        """Step by step, as a broker does it; the survey flushes what the deletion relies on."""
        store, deletion = self._broker.store, self._broker.store.deletion
        survey = deletion.survey(self._clock(), asked=True)()
        self._note_flushed()
        if deletion.detach(survey):
            self._fact(partial(_set_deleting, store.min_commit_log_offset))
            while deletion.remove_log_file(self._clock()):
                pass
            deletion.remove_other_files()

    # --- delays and checks ---------------------------------------------------------------------------------------

    def _delayed(self) -> None:
        message = self._message(self._random.choice(QUEUES))
        message.property_map = {**message.property_map, PropertyName.DELAY: str(self._random.randint(1, LEVELS.last))}
        waiting = redirect_delayed(message, LEVELS)
        self._allow(waiting)
        self._allow(message)
        self._broker.store.append(waiting, self._delay_stored)

    def _delay_stored(self, result: PutResult) -> None:
        self._stored(result)
        if not result.status.is_stored:
            return
        place = real_place(result.message.property_map)
        assert place is not None
        start = result.commit_log_offset
        waiting = Waiting(Shown(result.message.body, start, start + result.size, ""), place)
        queue_id, offset = result.queue_id, result.queue_offset
        self._fact(lambda ledger: ledger.delay(queue_id, offset, waiting))

    def _timed(self) -> None:
        message = self._message(self._random.choice(QUEUES))
        due_ms = self._clock() + self._random.randint(1, 9_000)
        message.property_map = {**message.property_map, PropertyName.TIMER_DELIVER_MS: str(due_ms)}
        waiting = placed_timed(message, self._clock(), TIMERS, waiting_in=lambda _: 0, random_below=lambda _: 0)
        self._allow(waiting)
        self._allow(message)
        self._broker.store.append(waiting, self._timer_stored)

    def _timer_stored(self, result: PutResult) -> None:
        self._stored(result)
        if not result.status.is_stored:
            return
        place = real_place(result.message.property_map)
        assert place is not None
        start = result.commit_log_offset
        waiting = Waiting(Shown(result.message.body, start, start + result.size, ""), place)
        self._fact(lambda ledger: ledger.wait_for_time(result.queue_offset, waiting))
        if _due_ms(result.message) - result.message.born_at_ms <= ROLLED_AFTER_MS:
            self._timed_soon.append(result.message)

    def _recall(self) -> None:
        """A timer message is taken back, as it can be until its second begins."""
        now_ms = self._clock()
        self._timed_soon = [waiting for waiting in self._timed_soon if _recall_until_ms(waiting) > now_ms]
        if not self._timed_soon:
            return
        waiting = self._timed_soon.pop(self._random.randrange(len(self._timed_soon)))
        key = delete_key(waiting.property_map, topic_in_key=TIMERS.topic_in_key)
        assert key is not None
        marker = self._message(self._random.choice(QUEUES))
        marker.property_map = {
            PropertyName.TIMER_DEL_UNIQKEY: key,
            PropertyName.TIMER_DELIVER_MS: str(_recall_until_ms(waiting)),
        }
        placed = placed_timed(marker, now_ms, TIMERS, waiting_in=lambda _: 0, random_below=lambda _: 0)
        self._allow(placed)
        self._fact(lambda ledger: ledger.take_back(waiting.body))
        self._broker.store.append(placed, partial(self._recalled, waiting))

    def _recalled(self, waiting: OutgoingMessage, result: PutResult) -> None:
        self._stored(result)
        if result.status.is_stored and self._clock() < _due_ms(waiting):
            end = result.commit_log_offset + result.size
            self._fact(lambda ledger: ledger.take_back(waiting.body, end))

    def _save_timers(self) -> None:
        self._broker.save_timers()

    def _tick(self) -> None:
        """Some of the time until the next timer message."""
        milliseconds = self._random.choice((1, 40, 300, 1_000))
        self._clock.now_ms += milliseconds
        self._fact(partial(_set_now, self._clock.now_ms))
        self._broker.reactor.advance(milliseconds / 1_000)

    def _persist_delays(self) -> None:
        self._broker.delay_offsets.persist()

    def _wait(self) -> None:
        """Time for delays to end, and for checks."""
        seconds = self._random.choice((1, 2, 5))
        self._clock.now_ms += 1_000 * seconds
        self._fact(partial(_set_now, self._clock.now_ms))
        self._broker.reactor.advance(seconds)

    # --- tables --------------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        topic, queue_id = self._random.choice(QUEUES)
        key = self._random.choice(GROUPS), topic, queue_id
        offset = (self._offsets.last(key) or 0) + self._random.randint(1, 9)
        self._set_offset(key, offset)
        self._broker.offsets.commit(*key, offset)

    def _set_offset(self, key: OffsetKey, offset: int | None) -> None:
        self._offsets.add(key, offset)
        self._fact(lambda ledger: ledger.offsets.add(key, offset))

    def _persist(self) -> None:
        numbers = self._offsets.numbers()
        self._broker.offsets.persist(self._saved(lambda ledger: ledger.offsets.save(numbers)))

    def _saved(self, fact: Fact) -> Callable[[BaseException | None], None]:
        def saved(failure: BaseException | None) -> None:
            assert failure is None, failure
            self._fact(fact)

        return saved

    def _topic(self) -> None:
        name = f"topic{self._random.randrange(FEW)}"
        config = TopicConfig(topic_name=name, read_queue_nums=self._random.randint(1, 16))
        if self._broker.topics.get(name) == config:
            return
        self._set_topic(name, config)
        self._broker.topics.put(config)
        self._persist_topics()

    def _drop_topic(self) -> None:
        """Only its configuration; ``_delete_messages`` is the other half."""
        name = f"topic{self._random.randrange(FEW)}"
        if self._broker.topics.get(name) is not None:
            self._set_topic(name, None)
            self._broker.topics.delete(name)
            self._persist_topics()

    def _set_topic(self, name: str, config: TopicConfig | None) -> None:
        self._topics.add(name, config)
        self._fact(lambda ledger: ledger.topics.add(name, config))

    def _persist_topics(self) -> None:
        numbers = self._topics.numbers()
        self._broker.topics.persist(self._saved(lambda ledger: ledger.topics.save(numbers)))

    def _group(self) -> None:
        config = SubscriptionGroupConfig(
            group_name=self._random.choice(GROUPS), retry_max_times=self._random.randint(0, 99)
        )
        if self._broker.groups.get(config.group_name) == config:
            return
        self._set_group(config.group_name, config)
        self._broker.groups.put(config)
        self._persist_groups()

    def _drop_group(self) -> None:
        """With its offsets, as the request to delete a group does."""
        name = self._random.choice(GROUPS)
        if self._broker.groups.get(name) is None:
            return
        self._set_group(name, None)
        self._broker.groups.delete(name)
        for key in [key for key in self._offsets.values if key[0] == name]:
            self._set_offset(key, None)
        self._broker.offsets.remove_group(name)
        self._persist()
        self._persist_groups()

    def _set_group(self, name: str, config: SubscriptionGroupConfig | None) -> None:
        self._groups.add(name, config)
        self._fact(lambda ledger: ledger.groups.add(name, config))

    def _persist_groups(self) -> None:
        numbers = self._groups.numbers()
        self._broker.groups.persist(self._saved(lambda ledger: ledger.groups.save(numbers)))

    def _delete_messages(self) -> None:
        """Of a topic, with the offsets of its queues; whoever sends to it next makes it anew."""
        topic = self._random.choice(QUEUES)[0]
        self._broker.threads.run()
        self._note_flushed()
        gone = {queue: frozenset(bodies) for queue, bodies in self._sent.items() if queue[0] == topic}
        for queue in gone:
            self._sent[queue] = set()
        self._fact(lambda ledger: ledger.begin_deletion(topic))
        for key in [key for key in self._offsets.values if key[1] == topic]:
            self._set_offset(key, None)
        self._broker.offsets.remove_topic(topic)
        self._broker.store.delete_topic(
            topic, self._broker.threads.in_pool, self._saved(lambda ledger: ledger.end_deletion(gone))
        )
        self._persist()

    # --- faults --------------------------------------------------------------------------------------------------

    def _fail_write(self) -> None:
        self._fail("pwrite", self._random.choice(("/commitlog/", "/commitlog/", "/consumequeue/", "/index/")))

    def _fail_sync(self) -> None:
        self._fail("fdatasync", self._random.choice(("/commitlog/", "/commitlog/", "/consumequeue/", "/checkpoint")))

    def _fail_timer_file(self) -> None:
        """But for half a write of the timer check: it is one sector, which is there as a whole or not."""
        operation, parts = self._random.choice(
            (
                ("pwrite", ("/commitlog/", "/timerlog/", "/timerwheel")),
                ("fdatasync", ("/commitlog/", "/timerlog/", "/timercheck")),
            )
        )
        self._fail(operation, self._random.choice(parts))

    def _fill_disk(self) -> None:
        self._fail("pwrite", "/commitlog/", errno.ENOSPC)

    def _free_disk(self) -> None:
        """Somebody deletes other files, and the broker looks."""
        self._broker.store.look_at_space(self._files.space)

    def _fail(self, operation: str, part: str, code: int = errno.EIO) -> None:
        """The disk refuses something soon; what is not acknowledged then is not promised."""
        if not self._failed:
            self._failed = True
            self._files.fault = Fault(operation, part, code)

    # --- lives ---------------------------------------------------------------------------------------------------

    def _reopen(self) -> None:
        """A proper end and a new start."""
        self._broker.threads.run()
        self._broker.close()
        self._note_flushed()
        offsets, topics, groups = self._offsets.numbers(), self._topics.numbers(), self._groups.numbers()
        self._fact(lambda ledger: ledger.offsets.save(offsets))
        self._fact(lambda ledger: ledger.topics.save(topics))
        self._fact(lambda ledger: ledger.groups.save(groups))
        self._begin()


def message(workload: Workload, queue: QueueName, number: int, now_ms: int, random: Random) -> OutgoingMessage:
    """One that no other is like; of equal size for all numbers when the workload has one size only."""
    digits = f"{number:05d}"
    properties = {PropertyName.KEYS: f"k{digits}", PropertyName.UNIQ_KEY: f"u{digits}"}
    if random.random() < 0.3 and len(workload.sizes) > 1:
        properties[PropertyName.TAGS] = "tag"
    body = digits.encode() + random.randbytes(8).hex().encode() * (random.choice(workload.sizes) // 16)
    return _outgoing(queue, body, now_ms, properties)


def _outgoing(queue: QueueName, body: bytes, now_ms: int, properties: dict[str, str]) -> OutgoingMessage:
    return OutgoingMessage(
        topic=queue[0],
        queue_id=queue[1],
        flag=0,
        sys_flag=SysFlag.TRANSACTION_NONE,
        born_at_ms=now_ms,
        born_host=HOST,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        properties=build_properties(properties),
        property_map=properties,
    )


def _due_ms(waiting: OutgoingMessage) -> int:
    """When a timer message goes."""
    return int(waiting.property_map[PropertyName.TIMER_DELIVER_MS])


def _recall_until_ms(waiting: OutgoingMessage) -> int:
    """Before this it can be taken back: the time that its handle says."""
    return int(waiting.property_map[PropertyName.TIMER_OUT_MS]) + 1


def _allow(queue: QueueName, body: bytes, ledger: Ledger) -> None:
    ledger.allow(queue, body)


def _show(queue: QueueName, offset: int, shown: Shown, ledger: Ledger) -> None:
    ledger.show(queue, offset, shown)


def _add_half(offset: int, shown: Shown, final: QueueName, ledger: Ledger) -> None:
    ledger.halves[offset] = Half(shown, final)


def _set_now(now_ms: int, ledger: Ledger) -> None:
    ledger.now_ms = now_ms


def _set_flushed(flushed: int, ledger: Ledger) -> None:
    ledger.flushed = flushed


def _set_deleting(end: int, ledger: Ledger) -> None:
    ledger.deleting = end


_COMMON: dict[str, Any] = {"turn": 6, "work": 6, "settle": 1, "flush_due": 1}
_ALL = {"append": 8, "append_all": 3, "half": 4, "end": 6, "commit": 2, "persist": 1, "topic": 1, "reopen": 1}
_SYNC = (
    Workload("append", {"append": 10, **_COMMON, "flush": 1}),
    Workload("batch", {"append": 2, "append_all": 5, **_COMMON, "flush": 1}),
    Workload("refill", {"append": 4, "append_all": 4, **_COMMON}, steps=20, lives=8, sizes=(1500,)),
    Workload("roll", {"append": 10, "append_all": 2, **_COMMON, "flush": 1}, ROLLING, steps=90),
    Workload(
        "transaction", {"half": 6, "end": 8, "append": 1, "progress": 2, "persist": 2, **_COMMON}, ROLLING, steps=80
    ),
    *(
        Workload(
            f"transaction-{states}",
            {"half": 6, "end": 8, "append": 1, "progress": 4, "persist": 2, "reopen": 1, **_COMMON},
            ROLLING,
            steps=80,
            states=states,
        )
        for states in (TransactionStateStore.TABLE, TransactionStateStore.DATABASE)
    ),
    Workload(
        "retention",
        {"append": 10, "half": 1, "end": 2, "age": 1, "delete_expired": 2, "progress": 1, **_COMMON},
        ROLLING,
        steps=110,
    ),
    Workload("tables", {"commit": 6, "persist": 2, "topic": 2, "append": 1, "turn": 6, "work": 6, "settle": 1}),
    Workload(
        "deletion",
        {
            "append": 8,
            "append_all": 2,
            "delete_messages": 2,
            "commit": 3,
            "persist": 1,
            **_COMMON,
            "flush": 1,
            "reopen": 1,
        },
        steps=80,
    ),
    Workload(
        "groups",
        {
            "commit": 6,
            "persist": 2,
            "topic": 2,
            "drop_topic": 2,
            "group": 4,
            "drop_group": 3,
            "append": 1,
            "turn": 6,
            "work": 6,
            "settle": 1,
            "reopen": 1,
        },
    ),
    Workload("delay", {"delayed": 8, "append": 1, "wait": 5, "persist_delays": 3, **_COMMON}, ROLLING, steps=90),
    Workload("timer", {"timed": 8, "append": 1, "tick": 9, "save_timers": 3, **_COMMON}, ROLLING, steps=110),
    Workload(
        "timer-reopen",
        {"timed": 8, "tick": 9, "save_timers": 2, "reopen": 2, **_COMMON},
        ROLLING,
        steps=110,
    ),
    Workload(
        "timer-recall",
        {"timed": 8, "recall": 7, "tick": 7, "save_timers": 3, "reopen": 1, **_COMMON},
        ROLLING,
        steps=110,
    ),
    Workload(
        "timer-errors",
        {"timed": 8, "recall": 3, "append": 1, "tick": 9, "save_timers": 4, **_COMMON, "fail_timer_file": 2},
        ROLLING,
        steps=110,
    ),
    Workload(
        "timer-full",
        {"timed": 8, "append": 2, "tick": 6, "wait": 3, "save_timers": 4, **_COMMON, "fill_disk": 2, "free_disk": 4},
        ROLLING,
        steps=110,
    ),
    Workload(
        "transaction-full",
        {"half": 6, "end": 8, "append": 3, "progress": 3, "persist": 2, **_COMMON, "fill_disk": 2, "free_disk": 4},
        ROLLING,
        steps=110,
    ),
    Workload(
        "discard",
        {"half": 5, "end": 1, "wait": 8, "progress": 1, "persist": 1, **_COMMON},
        ROLLING,
        steps=80,
        limits=replace(LIMITS, timeout_ms=2_000, check_interval_ms=2_000, check_max=2),
    ),
    Workload(
        "disk-errors", {"append": 8, "append_all": 3, **_COMMON, "flush": 1, "fail_write": 1, "fail_sync": 1}, ROLLING
    ),
    Workload(
        "light",
        {"light": 10, "append": 3, "half": 1, "end": 1, "age": 1, "delete_expired": 1, **_COMMON, "reopen": 1},
        LIGHT,
        steps=90,
    ),
    Workload(
        "run",
        {"append_run": 8, "append": 3, "age": 1, "delete_expired": 1, **_COMMON, "flush": 1, "reopen": 1},
        ROLLING,
        steps=80,
    ),
    Workload("run-errors", {"append_run": 8, "append": 2, **_COMMON, "fail_write": 1, "fail_sync": 1}, ROLLING),
    Workload(
        "extension",
        {
            "append": 10,
            "append_all": 2,
            "light": 3,
            "half": 1,
            "end": 1,
            "age": 1,
            "delete_expired": 1,
            **_COMMON,
            "flush": 1,
            "reopen": 1,
        },
        EXTENDED,
        steps=90,
        lives=4,
        sizes=SHORT,
    ),
    Workload(
        "inner-batch",
        {"inner_batch": 10, "append": 3, "append_all": 1, "age": 1, "delete_expired": 1, **_COMMON, "reopen": 1},
        ROLLING,
        steps=80,
        sizes=SHORT,
    ),
    Workload("reopen", {"append": 6, "append_all": 2, "half": 1, "end": 1, **_COMMON, "reopen": 2}, ROLLING),
    Workload("everything", {**_ALL, **_COMMON, "flush": 1, "age": 1, "delete_expired": 1, "progress": 1}, ROLLING),
)
WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload
    for sync in _SYNC
    for workload in (
        sync,
        replace(sync, name=f"{sync.name}-async", settings=replace(sync.settings, flush_disk_type="ASYNC_FLUSH")),
    )
}
