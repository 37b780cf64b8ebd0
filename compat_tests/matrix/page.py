"""docs/compatibility.md, made of what is stored: the same results make the same page."""

from __future__ import annotations

from collections.abc import Iterator

from compat_tests.environment import REPOSITORY
from compat_tests.matrix.clients import CLIENTS, Client
from compat_tests.matrix.features import FEATURES
from compat_tests.matrix.results import Results

PAGE = REPOSITORY / "docs" / "compatibility.md"
GATEWAY, CONTROL = "gateway-host", "rocketmq-5.5.0"
PASSED, FAILED, ABSENT, UNKNOWN = "✔", "✘", "–", "?"

_OLD_REQUEST = (
    "request() of clients 5.3.1 to 5.3.3 does not get its answer, whatever the broker ([issue 9319]"
    "(https://github.com/apache/rocketmq/issues/9319)); 4.9.8 and 5.5.0 get theirs"
)
KNOWN = {
    ("java-5.3.3", "request-reply"): _OLD_REQUEST,
    ("spring", "request-reply"): _OLD_REQUEST,
    (
        "node",
        "auto-topic",
    ): "the client asks the name server for the topic's route before it sends, and there is none yet",
    ("grpc", "dead-letters"): (
        "a message becomes a dead letter when a consumer of its group would get it once too often, and the row's has "
        "stopped by then; they are all there 2 s after another has started"
    ),
}
"""Failures with a known cause, which is not the gateway's: the control fails too."""

_NOTES = """- offsets set back while the group consumes: the gateway tells its clients at once, Apache RocketMQ when the
  pull that they hold is over, up to 20 s later. Java 5.x then begins anew at once; older ones and Go let go of the
  queue for 10 s, and take it again when they next share out the queues, within 20 s."""

_HEAD = """# Compatibility

Which stock clients can do what with the gateway, and with Apache RocketMQ 5.5.0, the control. Every cell was executed:
{executed} of them, {days}. The first mark is the gateway's, the second the control's.

✔ holds · ✘ does not (the reasons are below) · – the client cannot say it (the reasons are below){unknown}

This page is written by `python -m compat_tests.matrix`, which needs Docker and an hour or so; `--client`, `--feature`
and `--peer` execute some of the cells. What a row means in detail is in `compat_tests/matrix/features.py`: each counts
lost, repeated, damaged and foreign messages. [Deliberate differences](differences.md) are on a page of their own.
"""


def page(results: Results) -> str:
    """The whole text."""
    days = sorted({each.day for each in results.all()})
    rows = list(_table(results))
    unknown = f" · {UNKNOWN} not executed" if any(UNKNOWN in row for row in rows) else ""
    parts = [
        _HEAD.format(
            executed=len(results.all()), days=" to ".join(dict.fromkeys(days[:1] + days[-1:])), unknown=unknown
        ),
        "\n".join(rows),
        "\n## What does not hold\n",
        "\n".join(_failures(results)) or "Nothing.",
        "\n## How long it takes\n",
        _NOTES,
        "\n## What clients cannot say\n",
        "\n".join(_absences()),
    ]
    return "\n".join(parts) + "\n"


def _table(results: Results) -> Iterator[str]:
    clients = list(CLIENTS.values())
    yield "| | " + " | ".join(client.title for client in clients) + " |"
    yield "|---|" + ":-:|" * len(clients)
    for feature in FEATURES.values():
        cells = (_cell(results, client, feature.name) for client in clients)
        yield f"| {feature.title} | " + " | ".join(cells) + " |"


def _cell(results: Results, client: Client, feature: str) -> str:
    if feature in client.lacks:
        return ABSENT
    return " ".join(_mark(results, client.name, feature, peer) for peer in (GATEWAY, CONTROL))


def _mark(results: Results, client: str, feature: str, peer: str) -> str:
    result = results.get(client, feature, peer)
    if result is None:
        return UNKNOWN
    return PASSED if result.passed else FAILED


def _failures(results: Results) -> Iterator[str]:
    for feature in FEATURES.values():
        for client in CLIENTS.values():
            failed = {
                server: result
                for peer, server in ((GATEWAY, "the gateway"), (CONTROL, "Apache RocketMQ"))
                if (result := results.get(client.name, feature.name, peer)) is not None and not result.passed
            }
            known = KNOWN.get((client.name, feature.name))
            if known is not None and "Apache RocketMQ" in failed:
                servers = "both servers" if len(failed) > 1 else "Apache RocketMQ"
                yield f"- {client.title}, {feature.title}, {servers}: {known}."
                continue
            for server, result in failed.items():
                yield f"- {client.title}, {feature.title}, {server}: `{result.reason}`"


def _absences() -> Iterator[str]:
    """One line a reason, with the clients and features it holds for."""
    reasons: dict[str, tuple[list[str], list[str]]] = {}
    for client in CLIENTS.values():
        for feature, reason in client.lacks.items():
            titles, features = reasons.setdefault(reason, ([], []))
            titles += [client.title] if client.title not in titles else []
            features += [FEATURES[feature].title] if FEATURES[feature].title not in features else []
    for reason, (titles, features) in reasons.items():
        yield f"- {', '.join(titles)}: {'; '.join(features)}: {reason}"
