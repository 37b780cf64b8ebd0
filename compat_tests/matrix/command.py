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
from compat_tests.access.stands import NAMED
from compat_tests.matrix.clients import CLIENTS, SECURED_CLIENTS, Client
from compat_tests.matrix.doors import CONTROL, DOORS, GATEWAY, SECURED, SECURED_FEATURES, Door
from compat_tests.matrix.features import FEATURES, Feature
from compat_tests.matrix.page import PAGE, page
from compat_tests.matrix.results import Result, Results, load
from compat_tests.matrix.stage import Stage
from gateway.client import AdminClient, RocketMQError

SETTINGS = {**NAMED, "enablePropertyFilter": "true", "recallMessageEnable": "true", "traceTopicEnable": "true"}
MESSAGES = 60
PATIENCE_S = 15
REASON_CHARS = 160


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments say; 1 when the gateway fails in a cell where the control passes."""
    asked = _parser().parse_args(arguments)
    if not asked.page:
        environment.start_engine()
        environment.remove_leftovers()
        secured = [each for door in SECURED for each in (door.name, door.control)]
        for name in asked.client or (SECURED_CLIENTS if asked.secured else CLIENTS):
            for peer in asked.peer or (secured if asked.secured else (GATEWAY, CONTROL)):
                _run_client(CLIENTS[name], peer, asked.feature)
    results = load()
    PAGE.write_text(page(results), encoding="utf-8")
    worse = [each for each in results.all() if is_worse(results, each)]
    for each in worse:
        print(f"only Apache RocketMQ passes: {each.client} {each.feature}: {each.reason}", flush=True)
    return 1 if worse else 0


def is_worse(results: Results, result: Result) -> bool:
    """Return whether the gateway fails where Apache RocketMQ passes."""
    control = results.get(result.client, result.feature, DOORS[result.peer].control)
    return not result.passed and control is not None and control.passed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.matrix", description=__doc__)
    parser.add_argument("--client", action="append", choices=list(CLIENTS), help="may be repeated; else all")
    parser.add_argument("--feature", action="append", choices=list(FEATURES), help="may be repeated; else all")
    parser.add_argument("--peer", action="append", choices=list(DOORS), help="may be repeated; else the open ones")
    parser.add_argument("--secured", action="store_true", help="instead of the open servers those with TLS or accounts")
    parser.add_argument("--page", action="store_true", help="execute nothing, write the page from what is stored")
    return parser


def _run_client(client: Client, peer_name: str, features: Sequence[str] | None) -> None:
    """All its cells against a fresh server; what they were found to be is stored at once."""
    door = DOORS[peer_name]
    usual = SECURED_FEATURES if door.title else FEATURES
    wanted = [FEATURES[name] for name in features or usual if client.can(name, door)]
    if not wanted:
        return
    with _stage(client, door) as stage:
        for feature in wanted:
            begun = time.monotonic()
            reason = reason_of(stage, client, feature)
            took = time.monotonic() - begun
            print(f"{client.name:14} {feature.name:16} {peer_name:15} {reason or 'holds'} ({took:.1f} s)", flush=True)
            day = datetime.now(UTC).date().isoformat()
            # Read anew: another run may have written meanwhile.
            load().with_one(Result(client.name, feature.name, peer_name, not reason, day, reason)).save()


@contextlib.contextmanager
def _stage(client: Client, door: Door) -> Iterator[Stage]:
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="matrix-"))
        stand = door.make(Path(folder), {**SETTINGS, **client.settings}, is_encrypted=door.is_encrypted)
        stand.peer.start()
        stack.callback(stand.peer.stop)
        stand.prepare()
        admin = stack.enter_context(AdminClient(stand.operator()))
        program, address = stack.enter_context(client.start(stand))
        yield Stage(
            stand.peer,
            program,
            MESSAGES,
            PATIENCE_S,
            {**stand.options(door.keys), **client.options},
            stand=stand,
            admin=admin,
            address=address,
            behind_proxy=client.behind_proxy,
        )


def reason_of(stage: Stage, client: Client, feature: Feature) -> str:
    """Return why the feature does not hold; empty if it holds."""
    try:
        feature.holds(replace(stage, topic_type=feature.topic_type if client.behind_proxy else ""))
    except (AssertionError, RocketMQError, OSError, KeyError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return " ".join(lines[:2])[:REASON_CHARS]
    return ""
