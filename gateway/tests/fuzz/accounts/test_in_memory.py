"""Requests that are signed in all ways, to a broker without sockets: the guard and the judge agree about each."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from gateway.access.failures import Failures
from gateway.access.guard import Guard, Rules
from gateway.access.model import Accounts
from gateway.access.plain.files import PlainFiles
from gateway.access.policies.kept_users import KeptUsers
from gateway.access.refusals import PlainRefusals, Refusals, UserRefusals
from gateway.broker.door import RequestAdmission
from gateway.in_thread import in_this_thread
from gateway.tests.broker.whole_broker import WholeBroker
from gateway.tests.fuzz.accounts.judge import CLUSTER, Judge
from gateway.tests.fuzz.accounts.party import Kind, file_of, party, settings
from gateway.tests.fuzz.accounts.signing import Signing
from gateway.tests.fuzz.requests.frames import spoiled
from gateway.tests.fuzz.requests.grammar import Grammar, Server
from gateway.tests.fuzz.requests.sequences import a_sequence
from gateway.tests.remoting.conversation import Peer

REQUESTS = 1_500
LEAST_LET_IN = 100
"""A run in which nearly everything is refused tests nothing."""
UNLIMITED = 1_000_000


def guard_of(kind: Kind, directory: Path) -> Guard:
    settings(kind, directory)
    path = file_of(kind, directory)
    accounts: Accounts
    refusals: Refusals = PlainRefusals()
    if kind is Kind.PLAIN:
        accounts = PlainFiles(path, lambda: 0).load()
    else:
        accounts, refusals = KeptUsers(path, in_this_thread), UserRefusals()
        accounts.load()
    return Guard(accounts, Rules(refusals=refusals, cluster=CLUSTER), Failures(UNLIMITED, lambda: 0))


@pytest.mark.parametrize("kind", [Kind.USERS, Kind.PLAIN])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_request_is_carried_out_that_the_table_of_rights_forbids(tmp_path: Path, kind: Kind, seed: int) -> None:
    (tmp_path / "broker").mkdir()
    broker = WholeBroker(tmp_path / "broker")
    guard = guard_of(kind, tmp_path / "accounts")
    broker.conversation.dispatch._admit = RequestAdmission(broker.parts.settings, guard.admit).admit
    random = Random(seed)
    judge = Judge(party(kind), b"canary-text")
    grammar = Grammar(random, broker.clock)
    signing = Signing(random, judge.party, judge, "AC" * 16)
    peer: Peer | None = None
    sent = link = 0
    while sent < REQUESTS:
        for asked in [grammar.any_request()] if random.random() < 0.3 else a_sequence(grammar):
            if asked.server is not Server.BROKER:
                continue
            if peer is None or peer.channel.closed:
                peer, link = broker.connect(), link + 1
            frame = signing.frame(asked)
            if random.random() < 0.03:
                frame = spoiled(frame, random)
            judge.sent(link, frame)
            peer.send_bytes(frame)
            broker.turn()
            for command in peer.received():
                if command.is_response:
                    judge.answered(link, command)
            sent += 1
    broker.stop()
    assert judge.wrong == []
    assert judge.let_in.total() > LEAST_LET_IN
    assert judge.refused.total() > LEAST_LET_IN
