"""The needs of a request, from the right that its method declares and the fields of its header."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from gateway.errors import RequestRefused
from gateway.metadata.names import MAX_GROUP_CHARACTERS, POP_RETRY_SEPARATOR
from gateway.remoting.declared import Action, Kind, Named, Need, Right
from gateway.remoting.dispatch import Request
from wire.message.light_queues import lite_names
from wire.message.properties import PropertyName
from wire.message.record import StoredMessage
from wire.message.topic_prefixes import RETRY_TOPIC_PREFIX

MAX_NAMES: Final = 1000
"""The most names of one field; a request with more needs Update of the cluster."""
MAX_REFUSED: Final = 1000
"""The refused entries of one request after which further entries are refused without a judgement."""


def needs_of(right: Right, fields: Mapping[str, str], cluster: str) -> list[Need]:
    """Return what the sender of a request with these header fields must be allowed to do.

    :param cluster: the server's own cluster.
    """
    groups = [fields[named.field] for named in right.named if named.kind is Kind.GROUP and named.field in fields]
    return [need for named in right.named for need in _needs(named, fields, groups, cluster)]


def topic_needs(name: str, actions: Action, groups: Sequence[str] = (), *, is_popped: bool = False) -> list[Need]:
    """Return the needs for a topic; none if it is the retry topic of one of the groups, which have needs of their own.

    A retry topic counts as its group. The retry topic of a group's pops counts as the group and the topic that was
    popped, and the light queue of a lite topic as the parent of the lite topic.

    :param is_popped: whether a pop of one of the groups led to the topic. Then ``%RETRY%g_t`` counts as the topic t as
        well; otherwise it may belong to a group of the name ``g_t``, which pops have nothing to do with.
    """
    if not name.startswith(RETRY_TOPIC_PREFIX):
        lite = lite_names(name)
        return [Need(Kind.TOPIC, name if lite is None else lite[0], actions)]
    rest = name.removeprefix(RETRY_TOPIC_PREFIX)
    owner, _, topic = rest.partition(POP_RETRY_SEPARATOR)
    for group in groups if is_popped and not topic else ():
        if rest.startswith(f"{group}_") and len(rest) > len(group) + 1:
            owner, topic = group, rest[len(group) + 1 :]
    if not (owner and topic):
        owner, topic = rest, ""
    found = [] if owner in groups else [Need(Kind.GROUP, owner, Action.SUB if Action.PUB in actions else actions)]
    return [*found, Need(Kind.TOPIC, topic, actions)] if topic else found


def consumer_needs(
    group: str, topics: Sequence[str], actions: Action = Action.SUB, *, is_popped: bool = False
) -> list[Need]:
    """Return the needs of a group that consumes topics."""
    found = [need for topic in topics for need in topic_needs(topic, actions, (group,), is_popped=is_popped)]
    return [Need(Kind.GROUP, group, actions), *found]


def _needs(named: Named, fields: Mapping[str, str], groups: Sequence[str], cluster: str) -> Iterator[Need]:
    text = fields.get(named.field)
    if named.kind is Kind.CLUSTER:
        yield Need(Kind.CLUSTER, text or cluster, named.actions)
    elif text is None:
        if not named.optional:
            yield Need(Kind.CLUSTER, cluster, Action.UPDATE)
    else:
        names = text.split(named.separator, MAX_NAMES) if named.separator else [text]
        if len(names) > MAX_NAMES:
            yield Need(Kind.CLUSTER, cluster, Action.UPDATE)
            return
        for name in dict.fromkeys(names):
            if named.separator and not name:
                continue
            if named.kind is Kind.GROUP:
                yield Need(Kind.GROUP, name, named.actions)
            elif not (named.except_ending and name == cluster + named.except_ending):
                yield from topic_needs(name, named.actions, groups, is_popped=named.is_popped)


def message_needs(group: str, messages: Iterable[StoredMessage]) -> list[Need]:
    """Return the needs of a group that consumes messages, which may be from anywhere in the log."""
    found: list[Need] = []
    for message in messages:
        popper = _popper(message)
        if popper and popper != group:
            found.append(Need(Kind.GROUP, group, Action.SUB))
        found += consumer_needs(popper or group, [message.topic], is_popped=bool(popper))
    return found


def reading_needs(message: StoredMessage) -> list[Need]:
    """Return the needs of who reads a message by its place in the log, without a group."""
    popper, actions = _popper(message), Action.SUB | Action.GET
    if popper:
        return consumer_needs(popper, [message.topic], actions, is_popped=True)
    return topic_needs(message.topic, actions)


def readable_poppers(request: Request, topic: str) -> frozenset[str] | None:
    """Return the groups whose popped messages the sender may read in ``%RETRY%group_topic``; None for all of them."""
    rest = topic.removeprefix(RETRY_TOPIC_PREFIX)
    if request.caller is None or POP_RETRY_SEPARATOR in rest:
        return None
    if len(topic) > MAX_GROUP_CHARACTERS:  # there is no such topic
        return frozenset()
    groups = [rest[:at] for at in range(1, len(rest) - 1) if rest[at] == "_"]
    may, actions = request.caller.may, Action.SUB | Action.GET
    found = [group for group in groups if all(map(may, consumer_needs(group, [topic], actions, is_popped=True)))]
    return None if found == groups else frozenset(found)


def _popper(message: StoredMessage) -> str:
    """Return the group whose pops a message came again to in ``%RETRY%group_topic``; "" for another message.

    A message that names the topic from which it came was given back by the group ``group_topic``.
    """
    group = message.property_map.get(PropertyName.ORIGIN_GROUP, "")
    is_popped = group and PropertyName.RETRY_TOPIC not in message.property_map
    return group if is_popped and message.topic.startswith(f"{RETRY_TOPIC_PREFIX}{group}_") else ""


def judge_again(request: Request, group: str, topic: str, pass_on: Callable[[], None] = lambda: None) -> None:
    """Return if the sender of a request that waited may still consume a topic with a group.

    :param pass_on: wakes somebody else who waits for the messages, if the sender is refused.
    :raises RequestRefused: the sender lacks a right, or its account was removed, disabled or given another key.
    """
    if request.caller is None:
        return
    needs = consumer_needs(group, [topic])
    if not all(map(request.caller.may, needs)):  # costs less than ``require``
        try:
            request.require(*needs)
        except RequestRefused:
            pass_on()
            raise


class Entries:
    """The entries of one request's body, of which those are carried out that the sender has rights for.

    A body may have 16,000 entries, so each topic is judged once, and nothing after ``MAX_REFUSED`` refusals.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._refused = 0
        self._topics: dict[str, bool] = {}

    def allows(self, *needs: Need) -> bool:
        """Return whether the sender has all these rights; False if too many entries were refused before."""
        if self._refused >= MAX_REFUSED:
            return False
        is_allowed = self._request.allows(*needs)
        self._refused += not is_allowed
        return is_allowed

    def topics(self, group: str, topics: Iterable[str]) -> set[str]:
        """Return the topics that the sender may consume with a group; the group is judged before."""
        if self._request.caller is None:
            return set(topics)
        return {topic for topic in dict.fromkeys(topics) if self._has_topic(group, topic)}

    def _has_topic(self, group: str, topic: str) -> bool:
        if topic.startswith(RETRY_TOPIC_PREFIX):  # counts as a group
            return self.allows(*topic_needs(topic, Action.SUB, (group,)))
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = self.allows(*topic_needs(topic, Action.SUB))
        return found
