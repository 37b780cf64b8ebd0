"""Every live setting is followed while the broker runs: changed by request 25 and changed back, seen each time.

A setting that is declared live and has no line in ``SEEN`` fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest

from gateway.settings import Settings
from gateway.settings.declare import Mark, declarations
from gateway.tests.broker.live.looks import BODY_BYTES, GIB, SLAVE_HOST, Looks
from gateway.tests.broker.whole_broker import START_MS, WholeBroker
from wire.codes import RequestCode, ResponseCode

LIGHT: Final = {"enable_lmq": True, "enable_multi_dispatch": True}
COPIED: Final = {"ha_listen_port": 0, "replica_hosts": SLAVE_HOST}
OK: Final = ResponseCode.SUCCESS
DENIED: Final = ResponseCode.NO_PERMISSION
NO_HOUR: Final = {"delete_when": "24"}
NO_ROOM: Final = str(BODY_BYTES)
ROOM: Final = str(10 * BODY_BYTES)
HOUR: Final = datetime.fromtimestamp(START_MS / 1_000).hour
NOW: Final = f"{HOUR:02};{(HOUR + 1) % 24:02}"
THEN: Final = f"{(HOUR + 12) % 24:02}"


class Seen(NamedTuple):
    """Two values of a setting, and what a look sees with each; ``others`` are further settings of the broker."""

    look: Callable[[Looks], object]
    first: str
    seen_first: object
    second: str
    seen_second: object
    others: Mapping[str, Any] = MappingProxyType({})


SEEN: Final = {
    "minLiteTTl": Seen(
        Looks.is_lite_topic_left, "1000", False, "600000", True, {**LIGHT, "lite_ttl_check_interval_ms": 1_000}
    ),
    "liteSubscriptionCheckTimeoutMills": Seen(
        Looks.is_silent_client_left,
        *("1000", False, "600000", True),
        {**LIGHT, "lite_subscription_check_interval_ms": 1_000},
    ),
    "maxLiteSubscriptionCount": Seen(
        Looks.subscribe_twice, "1", ResponseCode.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, "2", OK, LIGHT
    ),
    "popFromRetryProbability": Seen(Looks.times_of_popped, "0", 0, "100", 1),
    "popFromRetryProbabilityForPriority": Seen(Looks.times_of_popped_by_priority, "0", 0, "100", 1),
    "priorityOrderAsc": Seen(Looks.popped_priority, "true", 3, "false", 0),
    "popResponseReturnActualRetryTopic": Seen(Looks.names_retry_topic, "false", False, "true", True),
    "gateway.popCheckPointsLimit": Seen(Looks.second_pop, "1", ResponseCode.POLLING_FULL, "100", OK),
    "brokerPermission": Seen(Looks.pull_code, "6", OK, "2", DENIED),
    "autoCreateTopicEnable": Seen(Looks.send, "true", OK, "false", ResponseCode.TOPIC_NOT_EXIST),
    "autoCreateSubscriptionGroup": Seen(
        Looks.pull_of_an_unknown_group, "true", OK, "false", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    ),
    "longPollingEnable": Seen(Looks.held_s, "true", 6, "false", 2),
    "shortPollingTimeMills": Seen(Looks.held_s, "1000", 2, "3000", 4, {"long_polling_enable": False}),
    "litePullMessageEnable": Seen(Looks.lite_pull_code, "true", OK, "false", DENIED),
    "enableMixedMessageType": Seen(Looks.make_mixed, "true", OK, "false", ResponseCode.INVALID_PARAMETER),
    "gateway.enableTopicMessageTypeCheck": Seen(
        Looks.send_of_another_type, "true", ResponseCode.MESSAGE_ILLEGAL, "false", OK
    ),
    "fileReservedTime": Seen(Looks.deleted_when_asked, "99", 2, "101", 0, NO_HOUR),
    "deleteWhen": Seen(Looks.deleted_by_the_hour, NOW, 2, THEN, 0),
    "diskMaxUsedSpaceRatio": Seen(Looks.deleted_at_60_percent, "59", 2, "61", 0, NO_HOUR),
    "diskSpaceCleanForciblyRatio": Seen(Looks.deleted_by_force, "86", 2, "88", 0, NO_HOUR),
    "cleanFileForciblyEnable": Seen(Looks.deleted_by_force, "true", 2, "false", 0, NO_HOUR),
    "diskSpaceWarningLevelRatio": Seen(
        Looks.send_to_a_disk_used_to_92_percent, "91", ResponseCode.SERVICE_NOT_AVAILABLE, "93", OK, NO_HOUR
    ),
    "deleteFileBatchMax": Seen(Looks.deleted_when_asked, "1", 1, "10", 2, NO_HOUR),
    "maxTransferCountOnMessageInMemory": Seen(Looks.pulled, "1", 1, "2", 2),
    "maxTransferBytesOnMessageInMemory": Seen(Looks.pulled, NO_ROOM, 1, ROOM, 3),
    "maxTransferCountOnMessageInDisk": Seen(Looks.pulled_from_disk, "1", 1, "2", 2),
    "maxTransferBytesOnMessageInDisk": Seen(Looks.pulled_from_disk, NO_ROOM, 1, ROOM, 3),
    "gateway.bulkReadCount": Seen(Looks.pulled_in_bulk, "1", 1, "2", 2),
    "gateway.bulkReadBytes": Seen(Looks.pulled_in_bulk, NO_ROOM, 1, ROOM, 3),
    "pullBatchMaxMessageCount": Seen(Looks.pulled, "1", 1, "2", 2),
    "recallMessageEnable": Seen(Looks.recall, "true", OK, "false", DENIED),
    "haFlowControlEnable": Seen(
        Looks.is_log_sent, "true", False, "false", True, {**COPIED, "max_ha_transfer_bytes_in_second": 0}
    ),
    "maxHaTransferByteInSecond": Seen(
        Looks.is_log_sent, "0", False, "1000000", True, {**COPIED, "ha_flow_control_enable": True}
    ),
    "rejectTransactionMessage": Seen(Looks.send_half, "false", OK, "true", DENIED),
}
"""How each live setting is seen, by its key."""


def test_each_live_setting_has_a_line() -> None:
    live = {key for key, declaration in declarations(Settings).items() if Mark.LIVE in declaration.marks}
    assert live == set(SEEN)


@pytest.mark.parametrize("key", SEEN)
def test_a_change_of_a_live_setting_is_seen_while_the_broker_runs(key: str, tmp_path: Path) -> None:
    seen = SEEN[key]
    others = {"disk_measured_bytes": 100 * GIB, "file_ahead_bytes": 0, **seen.others}
    broker = WholeBroker(tmp_path / "store", **others)
    looks = Looks(broker)
    for value, expected in ((seen.first, seen.seen_first), (seen.second, seen.seen_second)) * 2:
        changed = broker.ask(broker.connect(), RequestCode.UPDATE_BROKER_CONFIG, body=f"{key}={value}".encode())
        assert changed.code == OK, changed.remark
        looks.begin()
        assert seen.look(looks) == expected, f"{key}={value}"
