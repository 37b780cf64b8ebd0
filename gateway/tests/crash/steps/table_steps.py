"""Steps that change what a broker keeps in tables: offsets, topics and groups."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

from gateway.remoting.turns import finish
from gateway.tests.crash.ledger import Fact, OffsetKey
from gateway.tests.crash.messages import QUEUES
from gateway.tests.crash.stage import Stage, Steps
from wire.bodies.subscriptions import SubscriptionGroupConfig
from wire.bodies.topics import TopicConfig

GROUPS = ("g1", "g2")
FEW = 3


class TableSteps(Steps):
    """Consumers that commit, and whoever makes, changes and deletes topics and groups."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        ledger = stage.ledger
        self._offsets, self._topics = deepcopy(ledger.offsets), deepcopy(ledger.topics)
        self._groups = deepcopy(ledger.groups)

    def commit(self) -> None:
        topic, queue_id = self._random.choice(QUEUES)
        key = self._random.choice(GROUPS), topic, queue_id
        offset = (self._offsets.last(key) or 0) + self._random.randint(1, 9)
        self._set_offset(key, offset)
        self._broker.offsets.commit(*key, offset)

    def _set_offset(self, key: OffsetKey, offset: int | None) -> None:
        self._offsets.add(key, offset)
        self._stage.fact(lambda ledger: ledger.offsets.add(key, offset))

    def persist(self) -> None:
        numbers = self._offsets.numbers()
        self._broker.offsets.persist(self._saved(lambda ledger: ledger.offsets.save(numbers)))

    def _saved(self, fact: Fact) -> Callable[[BaseException | None], None]:
        def saved(failure: BaseException | None) -> None:
            assert failure is None, failure
            self._stage.fact(fact)

        return saved

    def topic(self) -> None:
        name = f"topic{self._random.randrange(FEW)}"
        config = TopicConfig(topic_name=name, read_queue_nums=self._random.randint(1, 16))
        if self._broker.topics.get(name) == config:
            return
        self._set_topic(name, config)
        self._broker.topics.put(config)
        self._persist_topics()

    def drop_topic(self) -> None:
        """Only its configuration; ``delete_messages`` is the other half."""
        name = f"topic{self._random.randrange(FEW)}"
        if self._broker.topics.get(name) is not None:
            self._set_topic(name, None)
            self._broker.topics.delete(name)
            self._persist_topics()

    def _set_topic(self, name: str, config: TopicConfig | None) -> None:
        self._topics.add(name, config)
        self._stage.fact(lambda ledger: ledger.topics.add(name, config))

    def _persist_topics(self) -> None:
        numbers = self._topics.numbers()
        self._broker.topics.persist(self._saved(lambda ledger: ledger.topics.save(numbers)))

    def group(self) -> None:
        config = SubscriptionGroupConfig(
            group_name=self._random.choice(GROUPS), retry_max_times=self._random.randint(0, 99)
        )
        if self._broker.groups.get(config.group_name) == config:
            return
        self._set_group(config.group_name, config)
        self._broker.groups.put(config)
        self._persist_groups()

    def drop_group(self) -> None:
        """Delete a group with its offsets, as the request does."""
        name = self._random.choice(GROUPS)
        if self._broker.groups.get(name) is None:
            return
        self._set_group(name, None)
        self._broker.groups.delete(name)
        for key in [key for key in self._offsets.values if key[0] == name]:
            self._set_offset(key, None)
        finish(self._broker.offsets.remove_group(name))
        self.persist()
        self._persist_groups()

    def _set_group(self, name: str, config: SubscriptionGroupConfig | None) -> None:
        self._groups.add(name, config)
        self._stage.fact(lambda ledger: ledger.groups.add(name, config))

    def _persist_groups(self) -> None:
        numbers = self._groups.numbers()
        self._broker.groups.persist(self._saved(lambda ledger: ledger.groups.save(numbers)))

    def delete_messages(self) -> None:
        """Delete a topic with the offsets of its queues; the next sender makes the topic again."""
        topic = self._random.choice(QUEUES)[0]
        self._broker.threads.run()
        self._stage.note_flushed()
        gone = {queue: frozenset(bodies) for queue, bodies in self._stage.sent.items() if queue[0] == topic}
        for queue in gone:
            self._stage.sent[queue] = set()
        self._stage.fact(lambda ledger: ledger.begin_deletion(topic))
        for key in [key for key in self._offsets.values if key[1] == topic]:
            self._set_offset(key, None)
        for group in finish(self._broker.offsets.groups_of(topic)):
            self._broker.offsets.remove(group, topic)
        self._broker.store.delete_topic(
            topic, self._broker.threads.in_pool, self._saved(lambda ledger: ledger.end_deletion(gone))
        )
        self.persist()

    def reopen(self) -> None:
        """A proper end and a new start."""
        self._broker.threads.run()
        self._broker.close()
        self._stage.note_flushed()
        offsets, topics, groups = self._offsets.numbers(), self._topics.numbers(), self._groups.numbers()
        self._stage.fact(lambda ledger: ledger.offsets.save(offsets))
        self._stage.fact(lambda ledger: ledger.topics.save(topics))
        self._stage.fact(lambda ledger: ledger.groups.save(groups))
        self._stage.begin()

    def reopen_late(self) -> None:
        """Stop a process that stood still for seconds: nothing looked at the time before the stop."""
        self._stage.let_pass(self._random.choice((1_000, 2_000, 3_000)))
        self.reopen()
