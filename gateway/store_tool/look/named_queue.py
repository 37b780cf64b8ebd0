"""The check of a topic or queue that a person named on the command line, with suggestions for a wrong name."""

from __future__ import annotations

from gateway.spelling import nearest
from gateway.store_tool.checks.config_check import known_topics
from gateway.store_tool.errors import CannotRun
from gateway.store_tool.files.directory import StoreDirectory
from gateway.store_tool.look.dump import SYSTEM_TOPICS, Dump, DumpSelection

MAX_NAMED = 20
"""The largest number of queue ids, or topics, that an error names."""
_LEAST_ALIKE = 0.6


def refuse_unknown(directory: StoreDirectory, topic: str | None, queue_id: int | None = None) -> None:
    """Check that a topic has queues or is in topics.json, and that it has the named queue if there is one.

    After a kill, a topic or queue may also be known by a message that only the log has.

    :param topic: None for all topics.
    :raises CannotRun: the topic or queue does not exist; the text has similar names.
    """
    problem = _missing(directory, topic, queue_id)
    if problem is not None and not (directory.killed and _is_in_log(directory, topic, queue_id)):
        raise CannotRun(problem)


def _missing(directory: StoreDirectory, topic: str | None, queue_id: int | None) -> str | None:
    queues = sorted(name for name in directory.queues if topic in (None, name[0]))
    if topic is not None and not queues:
        others = {name for name, _ in directory.queues} | (known_topics(directory) or frozenset())
        if topic not in others:
            return f"{directory.root} has no topic {topic}{_meant(topic, others)}"
    if queue_id is not None and queue_id not in {number for _, number in queues}:
        whose = directory.root if topic is None else f"topic {topic} in {directory.root}"
        return f"{whose} has no queue {queue_id}; {_there_are(sorted({number for _, number in queues}))}"
    return None


def _is_in_log(directory: StoreDirectory, topic: str | None, queue_id: int | None) -> bool:
    selection = DumpSelection(topic=topic, queue_id=queue_id, system=topic in SYSTEM_TOPICS)
    return any(True for _ in Dump(directory, selection, lambda _: None).messages())


def _meant(topic: str, others: set[str]) -> str:
    near = nearest(topic, sorted(others, reverse=True), _LEAST_ALIKE)
    if near is not None:
        return f"; did you mean {near}?"
    if 0 < len(others) <= MAX_NAMED:
        return f"; there are {', '.join(sorted(others))}"
    return "; rocketmq-gateway store inspect lists them" if others else "; it has none"


def _there_are(numbers: list[int]) -> str:
    if not numbers:
        return "nothing was ever stored there"
    if len(numbers) == numbers[-1] - numbers[0] + 1 > 2:
        return f"there are {numbers[0]} … {numbers[-1]}"
    more = ", …" if len(numbers) > MAX_NAMED else ""
    return f"there {'is' if len(numbers) == 1 else 'are'} {', '.join(map(str, numbers[:MAX_NAMED]))}{more}"
