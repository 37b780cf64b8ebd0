"""Names, numbers and texts that the fuzzer writes: good ones of its own, edges, and bad ones."""

from __future__ import annotations

from typing import Final

TOPICS: Final = ("fuzz_a", "fuzz_b", "fuzz_c", "fuzz_order", "fuzz_lite", "fuzz_delay", "fuzz_half")
GROUPS: Final = ("fuzz_group_a", "fuzz_group_b", "fuzz_group_c", "CID_RMQ_SYS_fuzz")
BROKERS: Final = ("fuzz-broker-a", "fuzz-broker-b")
"""Brokers that are registered, unregistered, wiped: never the one that serves."""
BROKER: Final = "broker-a"
"""The broker that serves: named where that takes nothing from others."""
CLUSTERS: Final = ("DefaultCluster", "fuzz-cluster")
CLIENTS: Final = ("192.0.2.1@fuzz-1", "192.0.2.1@fuzz-2", "fuzz-3")
LITE_TOPICS: Final = ("fuzz-lite-1", "fuzz-lite-2", "fuzz-lite-3")
ADDRESSES: Final = ("192.0.2.9:10911", "127.0.0.1:1", "[::1]:10911", "host:99999", "no address", ":", "::::")

SYSTEM_TOPICS: Final = (
    *("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"),
    *("rmq_sys_REVIVE_LOG_DefaultCluster", "TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"),
    *("TBW102", "DefaultCluster", BROKER, "RMQ_SYS_TRACE_TOPIC", "DefaultCluster_REPLY_TOPIC", "BenchmarkTest"),
    *("%RETRY%fuzz_group_a", "%DLQ%fuzz_group_a", "%RETRY%fuzz_group_a_fuzz_a", "%RETRY%fuzz_group_a+fuzz_a"),
)
BAD_NAMES: Final = (
    *("", " ", "%", "%%%", "%s%n%d", "%RETRY%", "%DLQ%", "..", "../../etc/passwd", "/", "a/b", ".", "~", "$(id)"),
    *(
        "\x00",
        "a\x00b",
        "line\nbreak",
        "\x1b[2J",
        "\x7f\x85\x9b",
        "\u2028\u2029\u202e",
        "\ufeff",
        "\ud800",
        "名前",
        "𝔘",
    ),
    *("a" * 127, "a" * 128, "a" * 255, "a" * 256, "a" * 5_000, "%" * 300, "|", "+", "a+b", "@", "a@@b", "null", "-1"),
)
LONG_TEXTS: Final = ("x" * 32_767, "x" * 32_768, "x" * 65_536, "1" * 20_000, "é" * 40_000, "[" * 30_000)

SMALL_NUMBERS: Final = (0, 1, 2, 3, 4, 7, 8, 16, 32, -1)
EDGES: Final = (
    *(-1, 127, 128, 255, 256, 32_767, 32_768, 65_535, 65_536, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32),
    *(2**53, 2**62, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30, 10**400),
)
NUMBER_TEXTS: Final = ("", " 1", "1 ", "+1", "-0", "0x10", "1e3", "1.0", "1_000", "NaN", "Infinity", "٣", "1" * 5_000)

EXPRESSIONS: Final = (
    *(
        "*",
        "",
        "TagA",
        "TagA || TagB",
        "||",
        "a" * 3_000,
        "x > 5",
        "a BETWEEN 1 AND 3 OR b IS NULL",
        "a = 'x' AND NOT b",
    ),
    *("a IN ('x', 'y') AND 1.5e300 < c", "((((((a))))))", "(" * 2_000, "NOT " * 2_000 + "a", "a = " + "1" * 5_000),
    *("a LIKE '%x%'", "'unclosed", "a == b", "TRUE", "1 = 1", "a CONTAINS 'b'", " OR ".join(["a > 1"] * 500)),
)
EXPRESSION_TYPES: Final = ("TAG", "SQL92", "sql92", "", "NONE", "GROOVY")
PROPERTIES: Final = (
    *(
        "",
        "KEYS\x01k1 k2\x02TAGS\x01TagA\x02",
        "a\x011\x02b\x01x\x02",
        "UNIQ_KEY\x01AC11000100002A9F0000000000000BB8\x02",
    ),
    *(
        "DELAY\x013\x02",
        "DELAY\x0199999999999\x02",
        "DELAY\x01-5\x02",
        "TIMER_DELAY_SEC\x012\x02",
        "TIMER_DELAY_MS\x01-1\x02",
    ),
    *("TIMER_DELIVER_MS\x019223372036854775807\x02", "TIMER_DELAY_SEC\x01x\x02DELAY\x01x\x02", "TRAN_MSG\x01true\x02"),
    *("TRAN_MSG\x01true\x02PGROUP\x01fuzz_group_a\x02UNIQ_KEY\x01fuzzkey1\x02", "PGROUP\x01\x02TRAN_MSG\x01yes\x02"),
    *("REAL_TOPIC\x01fuzz_b\x02REAL_QID\x0199\x02", "REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x01-1\x02"),
    *("INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02", "INNER_MULTI_DISPATCH\x01" + ",".join(["%LMQ%x"] * 300) + "\x02"),
    *(
        "__LITE_TOPIC\x01fuzz-lite-1\x02",
        "INNER_NUM\x01-7\x02",
        "INNER_BASE\x01x\x02",
        "WAIT\x01false\x02",
        "WAIT\x01maybe\x02",
    ),
    *("POP_CK\x010 1 2 3 4 5 6 7\x02", "1ST_POP_TIME\x01x\x02", "MSG_TYPE\x01reply\x02CLUSTER\x01DefaultCluster\x02"),
    *(
        "REPLY_TO_CLIENT\x01fuzz-3\x02MSG_TYPE\x01reply\x02CORRELATION_ID\x01x\x02",
        "\x01\x02\x01\x02",
        "a\x01b",
        "\x02" * 500,
    ),
    *(
        "x\x01" + "1" * 20_000 + "x\x02",
        "__SHARDINGKEY\x01s\x02",
        "_SYS_MSG_PRIORITY_\x01-9\x02",
        "KEYS\x01" + "k " * 500 + "\x02",
    ),
    *(
        "a\x01\x00\x9b\u2028\x02",
        "dup\x011\x02dup\x012\x02",
        "DELAY\x012\x02TRAN_MSG\x01true\x02TIMER_DELAY_SEC\x015\x02",
    ),
)
RECEIPTS: Final = ("", "0 0 0 0", "x", "0 1 2 3 0 broker-a 0 0", "0 1 60000 -1 0 broker-a 0 0", "9 " * 200)
MESSAGE_IDS: Final = (
    *("", "0", "7F00000100002A9F0000000000000000", "7F00000100002A9F7FFFFFFFFFFFFFFF", "zz" * 16, "ff" * 16, "AC" * 28),
    "fuzzkey1",
)
TRANSACTION_IDS: Final = (
    "",
    "-1",
    "99999999999",
    "9223372036854775807",
    "fuzzkey1",
    "x",
    "7F00000100002A9F7FFFFFFFFFFFFFFF",
)
"""Never the number of an early half offset: with it an operator settles the transactions of others."""
ATTRIBUTES: Final = (
    "+message.type=NORMAL",
    "+message.type=FIFO",
    "+x=1",
    "-message.type",
    "+",
    "a=b",
    "+queue.type=BatchCQ",
)
WORDS: Final = (
    *("true", "false", "TRUE", "maybe", "UPPER", "LOWER", "COMMIT", "ROLLBACK", "POP", "PULL", "CLUSTERING", "AVG"),
    *("TOPIC_PUT_NUMS", "GROUP_GET_NUMS", "SINGLE_TAG", "MULTI_TAG", "ORDER_TOPIC_CONFIG", "fuzz", "K", "U", "T"),
)

LIVE_SETTINGS: Final = (
    *("priorityOrderAsc=true", "priorityOrderAsc=false", "popFromRetryProbability=50", "deleteWhen=04"),
    *("shortPollingTimeMills=200", "maxTransferCountOnMessageInMemory=64", "popFromRetryProbability=-1"),
    *(
        "popFromRetryProbability=x",
        "brokerPermission=none",
        "longPollingEnable=perhaps",
        "listenPort=1",
        "storePathRootDir=/",
    ),
    *(
        "configBlackList=x",
        "brokerConfigPath=/etc/passwd",
        "no.such.setting=1",
        "=",
        "a=b\\",
        "\\u00zz=1",
        "flushDiskType=NEVER",
    ),
    *(
        "maxTransferCountOnMessageInMemory=99999999999999999999",
        "fileReservedTime=1e9999",
        "diskMaxUsedSpaceRatio=x",
        "#",
        "",
    ),
)
"""Lines of UPDATE_BROKER_CONFIG. What would take something from the honest clients by its meaning is not among them."""

USERS: Final = ("fuzz_user_a", "fuzz_user_b", "fuzz_user_c")
"""Accounts that are made, changed and deleted. What follows gives them no right on anything but the fuzzer's names."""
PASSWORD: Final = "secret-of-changed-users"
PASSWORDS: Final = (PASSWORD, PASSWORD, PASSWORD, "", " ", "short", "******", "p" * 1_025)
USER_TYPES: Final = ("Normal", "normal", "Super", "SUPER", "Root", "")
USER_STATUSES: Final = ("enable", "disable", "ENABLE", "off", "")
RESOURCES: Final = (
    *("Topic:fuzz*", "Topic:fuzz_a", "Topic:fuzz_b", "Group:fuzz*", "Group:fuzz_group_a", "Cluster:fuzz-cluster"),
    *("topic:fuzz_c", "Topic:fuzz*x*", "Namespace:fuzz", "Topic:", "Topic", "", "Nothing:fuzz", "Topic:fuzz\x00"),
)
ACTIONS: Final = ("Pub", "Sub", "Get", "List", "Create", "Update", "Delete", "All", "all", "Any", "", "Nothing")
SOURCES: Final = ("127.0.0.1", "192.0.2.0/24", "::1", "fe80::1%eth0", "::ffff:127.0.0.1", "10.0.0.0/33", "host", "")
SUBJECTS: Final = (*(f"User:{name}" for name in USERS), "fuzz_user_a", "user:fuzz_user_a", "Role:fuzz_user_a", "User:")
PERMISSIONS: Final = ("DENY", "DENY", " DENY", "", "pub", "PUB|", "NOTHING")
ENTRIES: Final = (
    *("fuzz_a=PUB", "fuzz_a=PUB|SUB,fuzz_b=DENY", "fuzz_group_a=SUB", "fuzz_a=PUB,fuzz_a=SUB", "fuzz_a", "=", ""),
    *("fuzz_c=PUB: #", "fuzz_[x]=SUB,fuzz_{y}=PUB,fuzz_&z=PUB", "fuzz_a=PUB," * 300),
)
WHITE: Final = (
    "",
    "192.0.2.7",
    "192.0.2.*",
    "192.0.2.{1,2}",
    "192.0.2.1-5",
    "192.0.2",
    "[",
    "192.0.2.1,192.0.2.2",
    "x*",
)
ACCOUNT_FILES: Final = ("", "plain_acl.yml", "/etc/passwd", "../plain_acl.yml", "acl/fuzz.yml")
