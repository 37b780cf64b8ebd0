"""The end of a run: its clients stop, and somebody new reads everything from the beginning."""

from __future__ import annotations

from compat_tests.environment import Patience
from compat_tests.replica_faults.pair import BrokerPair
from compat_tests.replica_faults.verdict import Verdict, judge
from compat_tests.soak.findings import Findings, Wrong
from compat_tests.soak.load import Load
from compat_tests.soak.streams import commits

_DRAIN_S = 60.0


def stop_and_judge(load: Load) -> tuple[Verdict, Verdict]:
    """Stop the clients when they have got everything; the verdicts on plain messages and on transactions."""
    load.stop_sending()
    limit = Patience(_DRAIN_S)
    while not load.is_drained() and not limit.is_over:
        load.read_all()
    load.stop_consuming()
    load.read_all(fresh=True)
    plain = transactions = Verdict()
    for stream in load.streams:
        account = load.accounts[stream.name]
        account.settle()
        decides = commits if stream.is_transactional else None
        judged = judge(account.told(), load.last_reading[stream.name], account.attempts, decides)
        if stream.is_transactional:
            transactions += judged
        else:
            plain += judged
    return plain, transactions


def stop_and_compare(pair: BrokerPair, findings: Findings) -> bool:
    """Stop both brokers; whether their logs are equal to the last byte."""
    for member in (pair.slave, pair.master):
        member.stop()
    difference = pair.final_difference()
    if difference is not None:
        findings.add(Wrong.CHANGED, f"in the end the logs differ from byte {difference} on")
    return difference is None
