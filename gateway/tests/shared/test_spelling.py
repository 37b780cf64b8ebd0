"""Suggestions for misspelt words: near ones, and never the opposite of what was written (point 19)."""

from __future__ import annotations

import re

import pytest

from gateway.settings import Settings
from gateway.settings.declare import declarations, environment_name
from gateway.settings.files.apache_keys import apache_keys
from gateway.spelling import NEGATIONS, OPPOSITES, are_opposed, nearest

KEYS = sorted({*declarations(Settings), *apache_keys()})
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


def misspelt(key: str) -> str:
    """One letter of the middle is missing."""
    middle = len(key) // 2
    return key[:middle] + key[middle + 1 :]


def turned_round(key: str) -> list[str]:
    """The key with one word replaced by its opposite, for each word that has one."""
    found = []
    for word in set(WORDS.findall(key)):
        for one, two in (*OPPOSITES, *((two, one) for one, two in OPPOSITES)):
            if word.lower() == one:
                other = two.capitalize() if word[0].isupper() else two
                found.append(re.sub(rf"{word}(?![a-z])", other, key))
    return found


def test_the_nearest_word_is_found_whatever_its_case() -> None:
    assert nearest("flushdisktyp", KEYS) == "flushDiskType"
    assert nearest("listen_port", KEYS) == "listenPort"
    assert nearest("qqqqqq", KEYS) is None
    assert nearest("ordrs", ["orders", "stock"], 0.6) == "orders"


def test_misspelt_keys_are_still_suggested() -> None:
    """All but a few, in which the missing letter breaks a word like ``stop`` that reverses the meaning."""
    missed = [key for key in KEYS if nearest(misspelt(key), KEYS) is None]
    assert len(missed) <= len(KEYS) // 50, missed


def test_point_19_no_key_is_suggested_for_its_opposite() -> None:
    """By replacing a word, by putting a word in front, and by leaving one out."""
    wrong = []
    for key in KEYS[::20]:
        name = key.removeprefix("gateway.")
        opposites = turned_round(name)
        opposites += [f"{word}{name[0].upper()}{name[1:]}" for word in NEGATIONS if not turned_round(word)]
        wrong += [(typed, name) for typed in opposites if typed not in KEYS and not are_opposed(typed, name)]
        wrong += [(name, typed) for typed in opposites if typed not in KEYS and not are_opposed(name, typed)]
    assert wrong == []


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("autoDeleteTopicEnable", "autoCreateTopicEnable"),
        ("autodeletetopicenable", "autoCreateTopicEnable"),
        ("disableConsumeQueueExt", "enableConsumeQueueExt"),
        ("disableconsumequeueext", "enableConsumeQueueExt"),
        ("dissableConsumeQueueExt", "enableConsumeQueueExt"),
        ("minMessageSize", "maxMessageSize"),
        ("minmessagesize", "maxMessageSize"),
        ("maxInSyncReplicas", "minInSyncReplicas"),
        ("pullConsumerEnable", "rejectPullConsumerEnable"),
        ("acceptTransactionMessage", "rejectTransactionMessage"),
        ("notTraceOn", "traceOn"),
        ("traceOff", "traceOn"),
        ("masterReadEnable", "slaveReadEnable"),
        ("syncLearner", "asyncLearner"),
        ("unRegisterBrokerTimeoutMills", "registerBrokerTimeoutMills"),
        ("unregisterBrokerTimeoutMills", "registerBrokerTimeoutMills"),
        ("timerStartEnqueue", "timerStopEnqueue"),
        ("timerStopDequeu", "timerStopEnqueue"),
        ("priorityOrderDesc", "priorityOrderAsc"),
        ("endingOffsets", "startingOffsets"),
        ("excludeHeaders", "includeHeaders"),
        ("orders-in", "orders-out"),
        ("sell-orders", "buy-orders"),
    ],
)
def test_point_19_a_word_is_not_taken_for_its_opposite(typed: str, near: str) -> None:
    assert nearest(typed, [near], 0.5) is None
    assert nearest(near, [typed], 0.5) is None


@pytest.mark.parametrize("name", ["flushDiskTyp", "autoCreatTopicEnable", "rejectTransactionMesage", "maxMesageSize"])
def test_the_name_of_a_variable_is_one_as_well(name: str) -> None:
    known = [environment_name(key) for key in KEYS]
    found = nearest(environment_name(name), known)
    assert found == environment_name(nearest(name, KEYS) or "")


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("notifyConsumrIdsChangedEnable", "notifyConsumerIdsChangedEnable"),
        ("notfyConsumerIdsChangedEnable", "notifyConsumerIdsChangedEnable"),
        ("adminBrokerThreadPolNums", "adminBrokerThreadPoolNums"),
        ("transactionTimeout", "transactionTimeOut"),
        ("transactiontimout", "transactionTimeOut"),
        ("timerStopEnqueu", "timerStopEnqueue"),
        ("enableSkipLongAwaitingAk", "enableSkipLongAwaitingAck"),
    ],
)
def test_words_that_only_look_like_opposites_are_fine(typed: str, near: str) -> None:
    assert nearest(typed, KEYS) == near
