"""Messages in by topic, and out by topic and group, over the last minute, hour and day.

The data path adds to running totals, and a job takes samples of the totals. The windows are those of upstream's
``StatsItem``: a minute in steps of 10 s, an hour in steps of 10 min, a day in steps of an hour. A topic or group
without traffic for a day is forgotten.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from gateway.clock import Milliseconds
from gateway.store.put_result import PutOutcome
from gateway.telemetry.logs import EventLog

FLOW_SAMPLE_MS = 10_000
MAX_FLOWS = 10_000
"""The number of topics, and pairs of topic and group, that are counted; about 2 KB each. Others are not counted."""
MINUTE, HOUR, DAY = range(3)
_STEPS_MS = (10_000, 600_000, 3_600_000)
_KEPT = (7, 7, 25)
_FIELDS = 5
"""The number of values in a sample: its time, and the totals of messages, bytes, calls and the calls' milliseconds."""

Key = TypeVar("Key")

log = EventLog("flows")


class Amount(NamedTuple):
    """The traffic within a window.

    ``elapsed_ms`` is the part of the window that has been seen so far. ``calls`` are sends or pulls, which took
    ``waited_ms``.
    """

    messages: int
    bytes: int
    calls: int
    elapsed_ms: int
    waited_ms: int = 0


class Flow:
    """The totals of one topic, or of one topic and group. A plain class for speed: the data path adds to it."""

    __slots__ = ("_samples", "bytes", "calls", "messages", "waited_ms")

    def __init__(self, now_ms: int) -> None:
        self.messages = 0
        self.bytes = 0
        self.calls = 0
        self.waited_ms = 0
        self._samples = tuple(array("q", (now_ms, 0, 0, 0, 0)) for _ in _STEPS_MS)

    def sample(self, window: int, now_ms: int) -> None:
        """Note the totals for MINUTE, HOUR or DAY; call this once for each step of the window."""
        samples = self._samples[window]
        samples.extend((now_ms, self.messages, self.bytes, self.calls, self.waited_ms))
        if len(samples) > _KEPT[window] * _FIELDS:
            del samples[:_FIELDS]

    def within(self, window: int, now_ms: int) -> Amount:
        """Return the traffic within MINUTE, HOUR or DAY."""
        samples = self._samples[window]
        since_ms, messages, size, calls, waited_ms = samples[:_FIELDS]
        return Amount(
            self.messages - messages,
            self.bytes - size,
            self.calls - calls,
            now_ms - since_ms,
            self.waited_ms - waited_ms,
        )

    def is_idle(self, now_ms: int) -> bool:
        """Return whether nothing passed within a day that has been seen completely."""
        amount = self.within(DAY, now_ms)
        return amount.calls == 0 and amount.elapsed_ms >= _STEPS_MS[DAY] * (_KEPT[DAY] - 1)


def _never(_topic: str) -> bool:
    return False


class Flows:
    """All flows of a broker."""

    def __init__(self, clock_ms: Milliseconds, max_flows: int = MAX_FLOWS) -> None:
        self._clock_ms = clock_ms
        self._max_flows = max_flows
        self._in: dict[str, Flow] = {}
        self._out: dict[tuple[str, str], Flow] = {}
        self._back: dict[tuple[str, str], Flow] = {}
        self._sampled_ms = [clock_ms()] * len(_STEPS_MS)
        self._is_full = False

    def stored(self, outcomes: Sequence[PutOutcome], waited_ms: int = 0) -> set[str]:
        """Count stored messages, and return all their topics.

        Neighbours mostly have the same topic, so they are added up first.

        :param waited_ms: milliseconds since the first of the messages came.
        """
        topics = set()
        topic, count, size = "", 0, 0
        for outcome in outcomes:
            if outcome.topic != topic:
                if count:
                    self._add(self._in, topic, count, size, count, waited_ms)
                topic, count, size = outcome.topic, 0, 0
                topics.add(topic)
            count += outcome.count
            size += outcome.size
        if count:
            self._add(self._in, topic, count, size, count, waited_ms)
        return topics

    def given(self, topic: str, group: str, messages: int, size: int) -> None:
        """Count the messages with which a group's pull was answered."""
        self._add(self._out, (topic, group), messages, size, 1)

    def waited(self, topic: str, group: str, waited_ms: int) -> None:
        """Count the milliseconds that it took to read a group's messages from the disk."""
        flow = self._out.get((topic, group))
        if flow is not None:
            flow.waited_ms += waited_ms

    def sent_back(self, topic: str, group: str) -> None:
        """Count a message of a topic that a group could not consume and sent back."""
        self._add(self._back, (topic, group), 1, 0, 1)

    def into(self, topic: str) -> Flow | None:
        """Return the messages that came in to a topic; None if there were none."""
        return self._in.get(topic)

    def out_of(self, topic: str, group: str) -> Flow | None:
        """Return the messages that a group got from a topic; None if there were none."""
        return self._out.get((topic, group))

    def back_from(self, topic: str, group: str) -> Flow | None:
        """Return the messages of a topic that a group sent back; None if there were none."""
        return self._back.get((topic, group))

    def given_per_second(self, topic: str, group: str) -> float:
        """Return how many messages a second a group got from a topic within the last minute."""
        flow = self._out.get((topic, group))
        if flow is None:
            return 0.0
        amount = flow.within(MINUTE, self._clock_ms())
        return round(amount.messages * 1000 / amount.elapsed_ms, 2) if amount.elapsed_ms > 0 else 0.0

    def all_in(self, without: Callable[[str], bool] = _never) -> Iterator[Flow]:
        """Return the flows into all topics, except the topics for which ``without`` returns True."""
        return (flow for topic, flow in self._in.items() if not without(topic))

    def all_out(self) -> Iterator[Flow]:
        """Return the flows out of every topic to every group."""
        return iter(self._out.values())

    def sample(self) -> None:
        """Take samples and forget idle flows; call this every ``FLOW_SAMPLE_MS`` milliseconds."""
        now_ms = self._clock_ms()
        for window, step_ms in enumerate(_STEPS_MS):
            # Half a sample early counts: the job is not called to the millisecond.
            if now_ms - self._sampled_ms[window] >= step_ms - FLOW_SAMPLE_MS // 2:
                self._sampled_ms[window] = now_ms
                for flow in (*self._in.values(), *self._out.values(), *self._back.values()):
                    flow.sample(window, now_ms)
                if window == DAY:
                    self._in = {name: flow for name, flow in self._in.items() if not flow.is_idle(now_ms)}
                    self._out = {names: flow for names, flow in self._out.items() if not flow.is_idle(now_ms)}
                    self._back = {names: flow for names, flow in self._back.items() if not flow.is_idle(now_ms)}

    def _add(self, flows: dict[Key, Flow], key: Key, messages: int, size: int, calls: int, waited_ms: int = 0) -> None:
        """Count messages that took ``waited_ms`` milliseconds each, unless too many flows are counted already."""
        flow = flows.get(key)
        if flow is None:
            flow = self._new()
            if flow is None:
                return
            flows[key] = flow
        flow.messages += messages
        flow.bytes += size
        flow.calls += calls
        flow.waited_ms += messages * waited_ms

    def _new(self) -> Flow | None:
        if len(self._in) + len(self._out) + len(self._back) < self._max_flows:
            self._is_full = False
            return Flow(self._clock_ms())
        if not self._is_full:
            self._is_full = True
            log.warning("no more topics and groups are counted for tools", limit=self._max_flows)
        return None
