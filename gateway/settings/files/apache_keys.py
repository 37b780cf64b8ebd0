"""The configuration keys of Apache RocketMQ 5.5.0, used to judge keys that have no setting here.

A key is *without effect* if Apache knows the key and we do not need it, *misspelt* if nobody knows the key, and
*refused* if the operator relies on a promise, such as access control, that we would break by ignoring the key. The keys
are data (``apache_keys.txt``), read when the first such key is met.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ApacheKey:
    """A key of Apache RocketMQ; ``default`` is empty if Apache has none or computes the default from the machine."""

    key: str
    java_type: str
    default: str
    owner: str


_NO_DLEDGER = "this gateway has no DLedger log"
_ONE_LOG = "a log here comes from clients or from a master, not from both"
_OTHER_REPLICAS = "replicas of this gateway work without it"
_OTHER_STORE = "this gateway has the file store only"

REFUSED: Mapping[tuple[str, str], str] = {
    ("enableDLegerCommitLog", "true"): _NO_DLEDGER,
    ("duplicationEnable", "true"): _ONE_LOG,
    ("storeType", "defaultrocksdb"): _OTHER_STORE,
    ("transRocksDBEnable", "true"): _OTHER_STORE,
    ("timerRocksDBEnable", "true"): _OTHER_STORE,
}
"""A key, a value in lower case, and the reason why a start would deceive the operator."""

REPLICATION = frozenset(
    {
        *("offsetCheckInSlave", "totalReplicas", "enableAutoInSyncReplicas"),
        *("maxSlaveResendLength", "asyncLearner"),
        *("syncFromLastFile", "syncMasterFlushOffsetWhenStartup", "brokerIP2", "storePathEpochFile"),
        *("enableDLegerCommitLog", "dLegerGroup", "dLegerPeers", "dLegerSelfId", "preferredLeaderId"),
        *("storePathDLedgerCommitLog", "storePathBrokerIdentity", "duplicationEnable"),
        *("enableControllerInNamesrv", "fetchControllerAddrByDnsLookup", "checkSyncStateSetPeriod"),
        *("enableSlaveActingMaster", "supportActingMaster", "enableRemoteEscape", "skipPreOnline"),
        *("syncBrokerMemberGroupPeriod", "syncBrokerMetadataPeriod", "notifyMinBrokerIdChanged", "lockInStrictMode"),
        *("brokerNotActiveTimeoutMillis", "sendHeartbeatTimeoutMillis"),
        "compatibleWithOldNameSrv",
    }
)
"""Keys about slaves, DLedger, controllers and their heartbeats."""


def is_honoured(apache: ApacheKey, text: str) -> bool:
    """Return whether a key without a setting asks for what a gateway does anyway, such as ``aclEnable=false``."""
    return any(key == apache.key for key, _ in REFUSED) and text.strip().lower() == apache.default


def without_effect(key: str) -> str:
    """Return what to report about a key of Apache RocketMQ that no code here reads."""
    if key in REPLICATION:
        return f"known to Apache RocketMQ, without effect here: {_OTHER_REPLICAS}"
    return "known to Apache RocketMQ, without effect here"


@cache
def apache_keys() -> Mapping[str, ApacheKey]:
    """Return all keys; a key of two classes (``listenPort``) is kept as the broker reads it."""
    found: dict[str, ApacheKey] = {}
    owner = ""
    for line in Path(__file__).with_name("apache_keys.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            owner = line.strip("[]")
        elif line and not line.startswith("#"):
            key, java_type, default = [*line.split(" ", 2), ""][:3]
            found.setdefault(key, ApacheKey(key, java_type, default, owner))
    return found
