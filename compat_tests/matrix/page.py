"""docs/compatibility.md, made of what is stored: the same results make the same page."""

from __future__ import annotations

from collections.abc import Iterator

from compat_tests.environment import REPOSITORY
from compat_tests.matrix.clients import CLIENTS, Client
from compat_tests.matrix.doors import DOORS, GATEWAY, SECURED, Door
from compat_tests.matrix.features import FEATURES, Feature
from compat_tests.matrix.results import Results

PAGE = REPOSITORY / "docs" / "compatibility.md"
PASSED, FAILED, ABSENT, UNKNOWN = "✔", "✘", "–", "?"

_OLD_REQUEST = (
    "request() of clients 5.3.1 to 5.3.3 gets no answer from any broker ([issue 9319]"
    "(https://github.com/apache/rocketmq/issues/9319)); 4.9.8 and 5.5.0 get theirs"
)
_UNSIGNED = (
    "clients since 4.9.4 sign a field that servers up to 4.9.8 leave out when they verify ([issue 5310]"
    "(https://github.com/apache/rocketmq/issues/5310)); the gateway accepts both"
)
KNOWN = {
    **{(client, "query"): _UNSIGNED for client in ("java-4.9.8", "java-5.5.0", "python")},
    ("java-5.3.3", "request-reply"): _OLD_REQUEST,
    ("spring", "request-reply"): _OLD_REQUEST,
    (
        "node",
        "auto-topic",
    ): "the client asks the name server for the topic's route before it sends, and there is none yet",
    ("grpc", "dead-letters"): (
        "a message becomes a dead letter when a consumer of its group would get the message once too often, and the "
        "consumer of this test has stopped by then; all dead letters exist 2 s after another consumer has started"
    ),
}
"""Failures with a known cause, which is not the gateway's: the control fails too."""

_NOTES = """- offsets set back while the group consumes: the gateway tells its clients at once. Apache RocketMQ
  tells them when their waiting pull ends, up to 20 s later. Java 5.x then starts at the new offset at once. Older Java
  clients and Go release the queue for 10 s, and take it again at their next rebalance, within 20 s."""

_HEAD = """# Compatibility

This page shows what stock clients can do with the gateway, and with Apache RocketMQ 5.5.0 for comparison. Each mark is
the result of a test: {executed} tests were run, {days}. The first mark of a cell is the
gateway's, the second Apache RocketMQ's. [TLS and accounts](#with-tls-and-accounts) have a table of their own.

✔ works · ✘ does not work (the reasons are below) · – the client has no such feature (the reasons are below){unknown}

`python -m compat_tests.matrix` writes this page. It needs Docker and about an hour; `--client`, `--feature` and
`--peer` run only some of the tests. `compat_tests/matrix/features.py` says what each row means in detail. A test fails
if it gets a message twice, a damaged message or a message of another test, or if a message is missing. [Deliberate
differences](differences.md) are on a page of their own.
"""


_SECURED = """
## With TLS and accounts

The client's account may send to every topic and receive from every topic, with every group, and may do nothing else. An
administrator creates the topics. In the columns with TLS, the gateway refuses plain connections. The second mark is
that of Apache RocketMQ with the same settings: 4.9.8 for ACL 1.0, which has no POP, and otherwise 5.5.0. The clients of
Node and C++ have no TLS. No release of the Go client has TLS, so those marks are of its sources of 2025-12-26.
`python -m compat_tests.matrix --secured` runs these tests. `compat_tests/access` tests `mqadmin` of both generations,
with keys and over TLS.
"""


def page(results: Results) -> str:
    """Return the whole text."""
    days = sorted({each.day for each in results.all()})
    rows = list(_table(results))
    unknown = f" · {UNKNOWN} not executed" if any(UNKNOWN in row for row in rows) else ""
    parts = [
        _HEAD.format(
            executed=len(results.all()), days=" to ".join(dict.fromkeys(days[:1] + days[-1:])), unknown=unknown
        ),
        "\n".join(rows),
        "\n## What does not work\n",
        "\n".join(dict.fromkeys(_failures(results))) or "Nothing.",
        "\n## How long it takes\n",
        _NOTES,
        "\n## What clients do not have\n",
        "\n".join(_absences()),
        _SECURED,
        "\n".join(_secured(results)),
    ]
    return "\n".join(parts) + "\n"


def _table(results: Results) -> Iterator[str]:
    clients = [client for client in CLIENTS.values() if not client.knows]
    yield "| | " + " | ".join(client.title for client in clients) + " |"
    yield "|---|" + ":-:|" * len(clients)
    for feature in FEATURES.values():
        cells = (_cell(results, client, feature.name, DOORS[GATEWAY]) for client in clients)
        yield f"| {feature.title} | " + " | ".join(cells) + " |"


def _secured(results: Results) -> Iterator[str]:
    """A row for each client and feature of those that were executed, a column for each way in."""
    yield "| | " + " | ".join(door.title for door in SECURED) + " |"
    yield "|---|" + ":-:|" * len(SECURED)
    executed = {(each.client, each.feature) for each in results.all() if DOORS[each.peer] in SECURED}
    for client in CLIENTS.values():
        for feature in FEATURES.values():
            if (client.name, feature.name) in executed:
                cells = (_cell(results, client, feature.name, door) for door in SECURED)
                yield f"| {client.title}: {feature.title} | " + " | ".join(cells) + " |"


def _cell(results: Results, client: Client, feature: str, door: Door) -> str:
    marks = [_mark(results, client, feature, each) for each in (door, DOORS[door.control])]
    return ABSENT if set(marks) == {ABSENT} else " ".join(marks)


def _mark(results: Results, client: Client, feature: str, door: Door) -> str:
    if not client.can(feature, door):
        return ABSENT
    result = results.get(client.name, feature, door.name)
    if result is None:
        return UNKNOWN
    return PASSED if result.passed else FAILED


def _failures(results: Results) -> Iterator[str]:
    for feature in FEATURES.values():
        for client in CLIENTS.values():
            for door in (DOORS[GATEWAY], *SECURED):
                yield from _failures_of(results, client, feature, door)


def _failures_of(results: Results, client: Client, feature: Feature, door: Door) -> Iterator[str]:
    failed = {
        server: result
        for peer, server in ((door.name, "the gateway"), (door.control, "Apache RocketMQ"))
        if (result := results.get(client.name, feature.name, peer)) is not None and not result.passed
    }
    known = KNOWN.get((client.name, feature.name))
    what = f"- {client.title}, {feature.title}"
    if known is not None and "Apache RocketMQ" in failed:
        yield f"{what}, {'both servers' if len(failed) > 1 else 'Apache RocketMQ'}: {known}."
        return
    where = "" if door.name == GATEWAY else f", {door.title}"
    for server, result in failed.items():
        yield f"{what}{where}, {server}: `{result.reason}`"


def _absences() -> Iterator[str]:
    """One line a reason, with the clients and features it holds for."""
    reasons: dict[str, tuple[list[str], list[str]]] = {}
    for client in CLIENTS.values():
        for feature, reason in client.lacks.items():
            titles, features = reasons.setdefault(reason, ([], []))
            titles += [client.title] if client.title not in titles else []
            features += [FEATURES[feature].title] if FEATURES[feature].title not in features else []
    for reason, (titles, features) in reasons.items():
        yield f"- {', '.join(titles)}: {'; '.join(f'*{feature}*' for feature in features)}: {reason}"
