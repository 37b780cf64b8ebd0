"""Settings of timer messages, which are delivered at any millisecond, and of their recall.

Keys, units and defaults are those of Apache RocketMQ's MessageStoreConfig and BrokerConfig.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.settings.declare import Mark, Range, setting

PRECISIONS_MS = (100, 200, 500, 1_000)
"""The allowed precisions in milliseconds. Upstream silently replaces another value by the next smaller of these."""


def precision_expected(text: str) -> str | None:
    """Return what ``timerPrecisionMs`` expects if ``text`` is wrong, otherwise None."""
    return None if int(text) in PRECISIONS_MS else "100, 200, 500 or 1000 (ms)"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TimerSettings:
    """The timer wheel."""

    timer_wheel_enable: bool = setting(
        True, "timerWheelEnable", "Take messages with a time of delivery, and deliver those that wait."
    )
    timer_max_delay_sec: int = setting(
        259_200,
        "timerMaxDelaySec",
        "Longest delay of a timer message; longer ones are refused.",
        Range(1, 315_360_000, "s"),
        marks=Mark.LIMIT,
    )
    timer_precision_ms: int = setting(
        1_000,
        "timerPrecisionMs",
        "Length of a slot of the timer wheel (100, 200, 500 or 1000 ms); delivery is exact to the millisecond anyway.",
        within=precision_expected,
    )
    timer_roll_window_slot: int = setting(
        172_800,
        "timerRollWindowSlot",
        "Slots ahead from which on a timer message is stored again on its way, so that the log can let it go.",
        Range(2, 604_740, "slots"),
    )
    timer_congest_num_each_slot: int = setting(
        2_147_483_647,
        "timerCongestNumEachSlot",
        "Messages due in one slot above which further ones are refused at random, all from twice as many on.",
        Range(1, 2_147_483_647),
        marks=Mark.LIMIT,
    )
    timer_flush_interval_ms: int = setting(
        1_000,
        "timerFlushIntervalMs",
        "Time between two saves of how far timer messages are delivered.",
        Range(10, 3_600_000, "ms"),
    )
    mapped_file_size_timer_log: int = setting(
        104_857_600,
        "mappedFileSizeTimerLog",
        "Size of a timer log file, 52 bytes a message; it takes disk space only as it fills.",
        Range(4_096, 2_147_483_647, "bytes"),
    )
    append_topic_for_timer_delete_key: bool = setting(
        False, "appendTopicForTimerDeleteKey", "Markers that take a timer message back name its topic too."
    )
    recall_message_enable: bool = setting(
        False,
        "recallMessageEnable",
        "Let clients take a timer message back before it is due (recallMessage).",
        marks=Mark.LIVE,
    )
    allow_recall_when_broker_not_writeable: bool = setting(
        True, "allowRecallWhenBrokerNotWriteable", "Let them do so while brokerPermission does not let them write."
    )
