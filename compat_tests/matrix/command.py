"""The command: executes cells, prints each, keeps what was found and writes the page."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from compat_tests import environment
from compat_tests.matrix.clients import CLIENTS, Client
from compat_tests.matrix.features import FEATURES, Feature
from compat_tests.matrix.page import CONTROL, GATEWAY, PAGE, page
from compat_tests.matrix.results import Result, Results, load
from compat_tests.matrix.stage import Stage
from compat_tests.peers import QUICK, make_peer
from gateway.client import AdminClient, RocketMQError

SETTINGS = {**QUICK, "enablePropertyFilter": "true", "recallMessageEnable": "true", "traceTopicEnable": "true"}
MESSAGES = 60
PATIENCE_S = 15
REASON_CHARS = 160


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments say; 1 when the gateway fails in a cell where the control passes."""
    asked = _parser().parse_args(arguments)
    if not asked.page:
        environment.start_engine()
        environment.remove_leftovers()
        for name in asked.client or CLIENTS:
            for peer in asked.peer or (GATEWAY, CONTROL):
                _run_client(CLIENTS[name], peer, asked.feature or list(FEATURES))
    results = load()
    PAGE.write_text(page(results), encoding="utf-8")
    worse = [each for each in results.all() if is_worse(results, each)]
    for each in worse:
        print(f"only Apache RocketMQ passes: {each.client} {each.feature}: {each.reason}", flush=True)
    return 1 if worse else 0


def is_worse(results: Results, result: Result) -> bool:
    """Return whether the gateway fails where Apache RocketMQ passes."""
    control = results.get(result.client, result.feature, CONTROL)
    return result.peer == GATEWAY and not result.passed and control is not None and control.passed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.matrix", description=__doc__)
    parser.add_argument("--client", action="append", choices=list(CLIENTS), help="may be repeated; else all")
    parser.add_argument("--feature", action="append", choices=list(FEATURES), help="may be repeated; else all")
    parser.add_argument("--peer", action="append", choices=[GATEWAY, CONTROL], help="may be repeated; else both")
    parser.add_argument("--page", action="store_true", help="execute nothing, write the page from what is stored")
    return parser


def _run_client(client: Client, peer_name: str, features: Sequence[str]) -> None:
    """All its cells against a fresh server; what they were found to be is stored at once."""
    wanted = [FEATURES[name] for name in features if name not in client.lacks]
    with _stage(client, peer_name) as stage:
        for feature in wanted:
            begun = time.monotonic()
            reason = reason_of(stage, client, feature)
            took = time.monotonic() - begun
            print(f"{client.name:14} {feature.name:16} {peer_name:15} {reason or 'holds'} ({took:.1f} s)", flush=True)
            day = datetime.now(UTC).date().isoformat()
            # Read anew: another run may have written meanwhile.
            load().with_one(Result(client.name, feature.name, peer_name, not reason, day, reason)).save()


@contextlib.contextmanager
def _stage(client: Client, peer_name: str) -> Iterator[Stage]:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="matrix-"))
        peer = make_peer(peer_name, Path(folder) / "data", {**SETTINGS, **client.settings})
        peer.start()
        stack.callback(peer.stop)
        admin = stack.enter_context(AdminClient(namesrv=peer.nameserver))
        program, address = stack.enter_context(client.start(peer))
        yield Stage(peer, program, MESSAGES, PATIENCE_S, admin=admin, address=address, behind_proxy=client.behind_proxy)


def reason_of(stage: Stage, client: Client, feature: Feature) -> str:
    """Return why the feature does not hold; empty if it holds."""
    try:
        feature.holds(replace(stage, topic_type=feature.topic_type if client.behind_proxy else ""))
    except (AssertionError, RocketMQError, OSError, KeyError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return " ".join(lines[:2])[:REASON_CHARS]
    return ""
