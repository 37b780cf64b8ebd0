"""The Python client behind the verbs of the other clients' programs, in this process (see `client_program`)."""

from __future__ import annotations

import importlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from compat_tests.client_program import Answer, ClientProgram
from gateway.client import (
    AdminClient,
    ClientSettings,
    ConsumeFrom,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageModel,
    Producer,
    ProducerSettings,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
    RocketMQError,
    SendStatus,
    SimpleConsumer,
    SimpleSettings,
    Sql,
    TlsSettings,
    TransactionProducer,
    TransactionSettings,
    TransactionState,
    aio,
)

# Now: the parser of Python 3.11 fails when two threads import modules at once in which pytest rewrites assertions.
for _name in aio.__all__:
    getattr(aio, _name)
for _name in ("blocking.loop_thread", "connect.credentials"):
    importlib.import_module(f"gateway.client.{_name}")

Fields = dict[str, Any]
_instances = itertools.count()


class Tally:
    """The numbers of a run that were seen, and how often; a message depends only on the run's name and a number."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._lock = threading.Lock()
        self.seen: set[int] = set()
        self.duplicates = self.strangers = self.corrupt = 0
        self.waited_ms: list[int] = []
        self.levels: set[int] = set()
        self.errors: dict[str, int] = {}
        self.changed = time.monotonic()

    @property
    def total(self) -> int:
        return len(self.seen) + self.duplicates

    def number_of(self, message: ReceivedMessage | Message) -> int:
        run, _, number = "".join(message.keys).rpartition("-")
        return int(number) if run == self._run else -1

    def add(self, number: int) -> None:
        with self._lock:
            self.duplicates += number in self.seen
            self.seen.add(number)
            self.changed = time.monotonic()

    def receive(self, message: ReceivedMessage) -> int:
        """Count a message after comparing its body."""
        number = self.number_of(message)
        if number < 0:
            self.strangers += 1
            return number
        self.corrupt += message.body != body_of(self._run, number, len(message.body))
        self.waited_ms.append(message.stored_at_ms - message.born_at_ms)
        self.levels.add(int(message.properties.get("DELAY", "0")))
        self.add(number)
        return number

    def fail(self, error: Exception) -> None:
        self.errors[str(error)] = self.errors.get(str(error), 0) + 1

    def fields(self, name: str) -> Fields:
        waited = {"waited_min_ms": min(self.waited_ms), "waited_max_ms": max(self.waited_ms)} if self.waited_ms else {}
        counts = {"duplicates": self.duplicates, "strangers": self.strangers, "corrupt": self.corrupt, "resent": 0}
        levels = {"delay_levels": str(sorted(self.levels))} if self.levels else {}
        return {name: len(self.seen), **counts, "numbers": bits(self.seen), "errors": self.errors, **waited, **levels}


@dataclass(slots=True)
class Listener:
    """The listener of a push consumer: counts each message, or fails on purpose."""

    tally: Tally
    options: Fields
    deliveries: dict[int, int] = field(default_factory=dict)
    newest: dict[int, int] = field(default_factory=dict)
    suspended: set[int] = field(default_factory=set)
    order_breaks: int = 0
    wrong_counts: int = 0

    def is_hopeless(self, number: int) -> bool:
        each = self.options.get("hopeless", 10)
        return bool(each) and number % each == 0

    def __call__(self, message: ReceivedMessage) -> None:
        number = self.tally.number_of(message)
        before = self.deliveries.get(number, 0)
        self.deliveries[number] = before + 1
        if "max_reconsume" in self.options:
            self.wrong_counts += message.reconsume_times != before
            if self.is_hopeless(number) or before < 1:
                raise ValueError("fails on purpose")
        each = self.options.get("suspend")
        if each and number % each == 0 and number not in self.suspended:
            self.suspended.add(number)
            raise ValueError("fails on purpose, once")
        self.tally.receive(message)
        shard = number % self.options.get("shards", 1)
        self.order_breaks += self.newest.get(shard, -1) > number
        self.newest[shard] = number


class PythonProgram(ClientProgram):
    """Runs verbs here, each with clients of its own."""

    def __init__(self) -> None:
        super().__init__("this", ("", 0), lambda: None)
        self._stopped: set[str] = set()
        self._verbs: dict[str, Callable[[Fields], Fields]] = {
            "send-sync": lambda o: send(o, _send_sync),
            "send-orderly": lambda o: send(o, _send_sync),
            "send-async": lambda o: send(o, _send_async),
            "send-oneway": lambda o: send(o, _send_oneway),
            "send-batch": lambda o: send(o, _send_batch, o.get("batch", 20)),
            "send-timed": send_timed,
            "recall": recall,
            "transact": transact,
            "consume-push": self._push,
            "consume-orderly": self._push,
            "consume-broadcast": self._broadcast,
            "consume-failing": self._failing,
            "consume-lite-pull": self._lite_pull,
            "consume-pull": self._pull,
            "consume-simple": self._simple,
            "request": request,
            "query-key": query_keys,
            "view-id": view,
        }

    def run(self, verb: str, *, timeout_s: int = 60, **options: object) -> Answer:
        if verb == "stop":
            self._stopped.add(str(options["name"]))
            return Answer(verb, {})
        asked = {**options, "verb": verb, "end": time.monotonic() + timeout_s}
        return Answer(verb, {"verb": verb, **self._verbs[verb](asked)})

    def _await(self, o: Fields, tallies: Iterable[Tally]) -> None:
        """Until count is reached and lingered, stopped, idle for idle_s, or out of time."""
        tallies = list(tallies)
        begun, enough = time.monotonic(), 0.0
        while time.monotonic() < o["end"] and o.get("until") not in self._stopped:
            now = time.monotonic()
            all_there = "count" in o and all(
                len(tally.seen) >= o["count"] and tally.total >= o.get("deliveries", 0) for tally in tallies
            )
            changed = max(begun, *(tally.changed for tally in tallies))
            if not all_there and "count" in o and now - changed > o.get("idle_s", 60):
                return
            enough = (enough or now) if all_there else 0.0
            if enough and now - enough > o.get("linger_ms", 1000) / 1000:
                return
            _pause(0.02)

    def _push(self, o: Fields) -> Fields:
        listener = Listener(Tally(o["run"]), o)
        with consumer(o, listener):
            self._await(o, [listener.tally])
        orders = {"order_breaks": listener.order_breaks, "suspended": len(listener.suspended)}
        return {**listener.tally.fields("received"), **orders}

    def _broadcast(self, o: Fields) -> Fields:
        listeners = [Listener(Tally(o["run"]), o) for _ in range(o.get("members", 2))]
        with ExitStack() as stack:
            for listener in listeners:
                stack.enter_context(consumer(o, listener))
            self._await(o, [listener.tally for listener in listeners])
        worst = min((listener.tally for listener in listeners), key=lambda tally: len(tally.seen))
        return {**worst.fields("received"), "total": sum(listener.tally.total for listener in listeners)}

    def _failing(self, o: Fields) -> Fields:
        listener = Listener(Tally(o["run"]), o)
        numbers = range(o["count"])
        want = 2 * len(numbers) + sum(o["max_reconsume"] - 1 for number in numbers if listener.is_hopeless(number))
        with consumer(o, listener):
            while time.monotonic() < o["end"] and sum(listener.deliveries.values()) < want:
                _pause(0.05)
            _pause(1.5)
        curable: dict[str, int] = {}
        others: dict[str, int] = {}
        for number, times in listener.deliveries.items():
            counts = others if listener.is_hopeless(number) else curable
            counts[str(times)] = counts.get(str(times), 0) + 1
        found = {"wrong_counts": listener.wrong_counts, "attempts": curable, "hopeless_attempts": others}
        return {**listener.tally.fields("received"), **found}

    def _lite_pull(self, o: Fields) -> Fields:
        tally = Tally(o["run"])
        settings = LitePullSettings(**reached(o), consume_from_where=ConsumeFrom.FIRST_OFFSET)
        with LitePullConsumer(o["group"], settings, subscriptions={o["topic"]: wanted(o)}) as pulling:
            self._poll(o, pulling, tally)
        return tally.fields("received")

    def _pull(self, o: Fields) -> Fields:
        """Assigned queues, from their beginnings."""
        tally = Tally(o["run"])
        with LitePullConsumer(o["group"], LitePullSettings(**reached(o))) as pulling:
            queues = pulling.message_queues(o["topic"])
            pulling.assign(queues)
            for queue in queues:
                pulling.seek_to_begin(queue)
            self._poll(o, pulling, tally)
        return tally.fields("received")

    def _poll(self, o: Fields, pulling: LitePullConsumer, tally: Tally) -> None:
        polling = threading.Event()

        def poll() -> None:
            while not polling.is_set():
                for message in pulling.poll(0.2):
                    tally.receive(message)

        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(poll)
            self._await(o, [tally])
            polling.set()
            done.result()

    def _simple(self, o: Fields) -> Fields:
        tally, skipped = Tally(o["run"]), set()
        settings = SimpleSettings(**reached(o), consume_from_where=ConsumeFrom.FIRST_OFFSET)
        invisible = o.get("invisible_ms", 10_000) / 1000
        with SimpleConsumer(o["group"], settings, subscriptions={o["topic"]: wanted(o)}) as popping:
            while len(tally.seen) < o["count"] and time.monotonic() < o["end"]:
                for message in popping.receive(16, timeout=2, invisible_time=invisible):
                    number = tally.number_of(message)
                    if number % o.get("skip", 10) == 0 and message.reconsume_times == 0:
                        skipped.add(number)
                        if number % 2 == 0:
                            popping.change_invisible_time(message, invisible)
                    else:
                        tally.receive(message)
                        popping.ack(message)
            for message in popping.receive(16, timeout=2):
                tally.receive(message)
        return {**tally.fields("received"), "skipped": len(skipped)}


def body_of(run: str, number: int, size: int) -> bytes:
    head = f"{run}-{number}|".encode()
    return head + bytes(97 + at % 26 for at in range(len(head), size))


def bits(numbers: Iterable[int]) -> str:
    """Bit n of little-endian bytes, as hex."""
    value = sum(1 << number for number in set(numbers))
    return value.to_bytes((value.bit_length() + 7) // 8, "little").hex()


def wanted(o: Fields) -> str | Sql:
    return Sql(o["sql"]) if "sql" in o else str(o.get("tags", "*"))


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def message_of(o: Fields, number: int, **more: Any) -> Message:
    tags = str(o.get("tags", "")).split(",")
    return Message(
        o["topic"],
        body_of(o["run"], number, o.get("size", 100)),
        keys=[f"{o['run']}-{number}"],
        tags=tags[number % len(tags)],
        properties={str(o["property"]): str(number)} if "property" in o else {},
        delay_level=o.get("delay", 0),
        sharding_key=str(number % o["shards"]) if "shards" in o else "",
        **more,
    )


def reached(o: Fields) -> Fields:
    """What every client is told: name servers, the keys of an account, and whether to speak TLS."""
    keys: Fields = {name: o[name] for name in ("access_key", "secret_key") if name in o}
    return {"namesrv": o["ns"], "tls": TlsSettings(verify=False) if "tls" in o else False, **keys}


def producer_settings(o: Fields) -> ProducerSettings:
    return ProducerSettings(
        **reached(o),
        namespace=o.get("namespace", ""),
        enable_trace="trace" in o,
        send_msg_timeout=10.0,
        heartbeat_broker_interval=1.0,
    )


def consumer(o: Fields, listener: Listener) -> PushConsumer:
    """A push consumer; whether orderly or broadcasting, the verb says."""
    settings = PushSettings(
        **reached(o),
        namespace=o.get("namespace", ""),
        instance_name=f"{o['group']}@{next(_instances)}",
        consume_from_where=ConsumeFrom.FIRST_OFFSET,
        message_model=MessageModel.BROADCASTING if o["verb"] == "consume-broadcast" else MessageModel.CLUSTERING,
        heartbeat_broker_interval=1.0,
        poll_name_server_interval=1.0,
        persist_consumer_offset_interval=0.5,
        suspend_current_queue_time=0.1,
        max_reconsume_times=o.get("max_reconsume", -1),
        client_rebalance="broker_balances" not in o,
    )
    subscriptions = {str(o["topic"]): wanted(o)}
    orderly = o["verb"] == "consume-orderly"
    return PushConsumer(o["group"], listener, settings, subscriptions=subscriptions, orderly=orderly)


Step = Callable[[Producer, list[Message]], bool]


def _send_sync(producer: Producer, messages: list[Message]) -> bool:
    return producer.send(messages[0]).status is SendStatus.SEND_OK


def _send_async(producer: Producer, messages: list[Message]) -> bool:
    return producer.send_async(messages[0]).result(20).status is SendStatus.SEND_OK


def _send_oneway(producer: Producer, messages: list[Message]) -> bool:
    producer.send_oneway(messages[0])
    return False


def _send_batch(producer: Producer, messages: list[Message]) -> bool:
    producer.send_batch(messages)
    return True


def send(o: Fields, step: Step, group: int = 1) -> Fields:
    """Send a run with eight threads; numbers are dealt out in turn, so that a shard keeps one thread."""
    tally = Tally(o["run"])
    first, threads = o.get("first", 0), o.get("threads", 8)
    last = first + o["count"]
    failures: list[RocketMQError] = []
    ids: list[str] = []

    def work(mine: int) -> None:
        for start in range(mine, last, threads * group):
            numbers = range(start, min(start + group, last))
            try:
                if step(producer, [message_of(o, number) for number in numbers]):
                    for number in numbers:
                        tally.add(number)
            except RocketMQError as error:
                failures.append(error)
                tally.fail(error)
            _pause(o.get("pause_ms", 0) / 1000)

    with Producer("p_" + o["run"], producer_settings(o)) as producer:
        if o["verb"] == "send-sync":
            result = producer.send(message_of(o, first))
            ids.append(f"{result.offset_msg_id}/{result.msg_id}/{o['run']}-{first}")
            tally.add(first)
            first += 1
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(work, first + thread * group) for thread in range(threads)]:
                done.result()
    counts = {"started": o["count"], "failed": len(failures), "not_ok": 0, "unanswered": 0}
    return {**tally.fields("acknowledged"), **counts, "ids": ids}


def send_timed(o: Fields) -> Fields:
    tally, handles, ids = Tally(o["run"]), [], []
    least, most = o.get("min_ms", 500), o.get("max_ms", 3000)
    with Producer("p_" + o["run"], producer_settings(o)) as producer:
        for number in range(o["count"]):
            delay_ms = least + number * 7919 % (most - least)
            result = producer.send(message_of(o, number, delay=delay_ms / 1000))
            tally.add(number)
            handles.append(str(result.recall_handle))
            ids.append(result.msg_id)
    return {**tally.fields("acknowledged"), "failed": 0, "handles": handles, "message_ids": ids}


def recall(o: Fields) -> Fields:
    with Producer("recalling", producer_settings(o)) as producer:
        return {"message_ids": [producer.recall(o["topic"], handle) for handle in o["handles"].split(",")]}


def commits(number: int) -> bool:
    return number % 3 == 0 or (number % 3 == 2 and number // 3 % 2 == 0)


@dataclass(slots=True)
class Transactions:
    """Decided by number alone: n % 3 = 0 commit, 1 roll back, 2 say unknown and let the check decide."""

    checked: Tally
    unknown: set[int] = field(default_factory=set)

    def execute(self, message: Message, arg: object) -> TransactionState:
        number = self.checked.number_of(message)
        if number % 3 == 2:
            self.unknown.add(number)
            return TransactionState.UNKNOWN
        return TransactionState.COMMIT if commits(number) else TransactionState.ROLLBACK

    def check(self, message: ReceivedMessage) -> TransactionState:
        number = self.checked.receive(message)
        return TransactionState.COMMIT if commits(number) else TransactionState.ROLLBACK


def transact(o: Fields) -> Fields:
    tally, local = Tally(o["run"]), Transactions(Tally(o["run"]))
    failed = 0
    settings = TransactionSettings(**reached(o), heartbeat_broker_interval=1.0)
    with TransactionProducer(o["group"], local, settings) as producer:
        for number in range(o["count"]):
            try:
                producer.send_in_transaction(message_of(o, number))
                tally.add(number)
            except RocketMQError as error:
                failed += 1
                tally.fail(error)
        end = time.monotonic() + o.get("wait_checks_s", 30)
        while not local.unknown <= local.checked.seen and time.monotonic() < end:
            _pause(0.05)
        _pause(0.3)
    sets = {"committed": filter(commits, tally.seen), "rolled_back": (n for n in tally.seen if not commits(n))}
    sets |= {"unknown": iter(local.unknown), "checked": iter(local.checked.seen)}
    found = {name: bits(numbers) for name, numbers in sets.items()}
    return {**tally.fields("acknowledged"), "failed": failed, **found, "checks": local.checked.total}


def request(o: Fields) -> Fields:
    counts = {"replied": 0, "wrong": 0, "timed_out": 0, "failed": 0, "refused": 0}

    def answer(message: ReceivedMessage) -> None:
        producer.reply(message, b"reply to " + message.body)

    def ask(number: int) -> None:
        question = b"question %d" % number
        try:
            reply = producer.request(Message(o["topic"], question), timeout=10)
            counts["replied" if reply.body == b"reply to " + question else "wrong"] += 1
        except RocketMQError:
            counts["failed"] += 1

    settings = PushSettings(**reached(o), consume_from_where=ConsumeFrom.FIRST_OFFSET)
    with (
        Producer("asking_" + o["group"], producer_settings(o)) as producer,
        PushConsumer(o["group"], answer, settings, subscriptions={o["topic"]: "*"}),
        ThreadPoolExecutor(o.get("threads", 8)) as pool,
    ):
        list(pool.map(ask, range(o["count"])))
    return dict(counts)


def query_keys(o: Fields) -> Fields:
    tally = Tally(o["run"])
    with AdminClient(ClientSettings(**reached(o))) as admin:
        for number in range(o["count"]):
            found: list[ReceivedMessage] = []
            while not found and time.monotonic() < o["end"]:
                found = admin.messages.by_key(o["topic"], f"{o['run']}-{number}")
            for message in found:
                tally.receive(message)
    return tally.fields("found")


def view(o: Fields) -> Fields:
    with AdminClient(ClientSettings(**reached(o))) as admin:
        return {"key": "".join(admin.messages.by_id(o["id"], o["topic"]).keys)}
