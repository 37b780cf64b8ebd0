"""Steps that send ordinary messages, one by one and together."""

from __future__ import annotations

from gateway.broker.requests.sending.batches import as_one_record
from gateway.store.put_result import WaitFor
from gateway.tests.crash.messages import QUEUES, outgoing
from gateway.tests.crash.stage import Steps
from wire.message.batch import BatchPart, build_batch
from wire.message.light_queues import LIGHT_QUEUE_ID, is_light_queue
from wire.message.properties import PropertyName, build_properties
from wire.quick.message_run import MessageRun

LIGHT_QUEUES = ("%LMQ%x",), ("%LMQ%y",), ("%LMQ%x", "%LMQ%y"), ("%LMQ%y", "other", "%LMQ%x", "%LMQ%y")


class MessageSteps(Steps):
    """The steps of producers."""

    def append(self) -> None:
        message = self._stage.message(self._random.choice(QUEUES))
        self._stage.allow(message)
        self._broker.store.append(message, self._stage.stored)

    def append_all(self) -> None:
        messages = [self._stage.message(self._random.choice(QUEUES)) for _ in range(self._random.randint(1, 4))]
        for message in messages:
            self._stage.allow(message)
        self._broker.store.append_all(messages, self._stage.all_stored)

    def append_run(self) -> None:
        """A batch, as clients send it."""
        queue = self._random.choice(QUEUES)
        messages = [self._stage.message(queue) for _ in range(self._random.randint(1, 6))]
        for message in messages:
            self._stage.allow(message)
        body = build_batch([BatchPart(message.flag, message.body, message.properties) for message in messages])
        run = MessageRun(outgoing(queue, body, self._clock(), {PropertyName.WAIT: "true"}))
        self._broker.store.append_run(run, self._stage.all_stored, WaitFor.DISK)

    def light(self) -> None:
        """One that names light queues besides its own."""
        message, names = self._stage.message(self._random.choice(QUEUES)), self._random.choice(LIGHT_QUEUES)
        properties = {**message.property_map, PropertyName.INNER_MULTI_DISPATCH: ",".join(names)}
        message.properties, message.property_map = build_properties(properties), properties
        self._stage.allow(message)
        for name in filter(is_light_queue, names):
            self._stage.allow(message, (name, LIGHT_QUEUE_ID))
        self._broker.store.append(message, self._stage.stored)

    def inner_batch(self) -> None:
        """Several as one record, as batch queues keep them."""
        queue = self._random.choice(QUEUES)
        messages = [self._stage.message(queue) for _ in range(self._random.randint(1, 5))]
        for message in messages:
            self._stage.allow(message)
        body = build_batch([BatchPart(0, message.body, b"") for message in messages])
        batch = as_one_record(outgoing(queue, body, self._clock(), messages[0].property_map), len(messages))
        self._broker.store.append_all([batch], self._stage.all_stored, WaitFor.DISK)
