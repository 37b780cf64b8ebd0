"""The namespace of a client in the names of its topics and groups (upstream ``NamespaceUtil``, namespace v1).

A name becomes ``ns%topic``. The prefixes of retry and dead-letter topics stay in front: ``%RETRY%ns%group``.
"""

from __future__ import annotations

from typing import Final

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
_SEPARATOR: Final = "%"
_SYSTEM_PREFIXES: Final = ("rmq_sys_", "CID_RMQ_SYS_")
_SYSTEM_NAMES: Final = frozenset(
    (
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CLIENT_INNER_PRODUCER",
        "TOOLS_CONSUMER",
    )
)


def with_namespace(namespace: str, name: str) -> str:
    """Return ``name`` (a topic or group) in a namespace.

    The name stays unchanged without a namespace, for system names, or if the name has the namespace already.
    """
    if not namespace or name in _SYSTEM_NAMES or name.startswith(_SYSTEM_PREFIXES):
        return name
    prefix, plain = _split(name)
    inside = namespace + _SEPARATOR
    return name if plain.startswith(inside) else f"{prefix}{inside}{plain}"


def without_namespace(namespace: str, name: str) -> str:
    """Return ``name`` as the application knows it."""
    if not namespace:
        return name
    prefix, plain = _split(name)
    return prefix + plain.removeprefix(namespace + _SEPARATOR)


def _split(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
