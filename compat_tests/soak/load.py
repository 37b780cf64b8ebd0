"""The Java clients at work, and what they report while they work.

All senders, transactions and consumers run in one JVM from the beginning of a soak to its end, through all faults;
every look at their ledgers brings what is new into the accounts.
"""

from __future__ import annotations

import base64
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from compat_tests.environment import Patience
from compat_tests.java_client import Answer, JavaClient
from compat_tests.peers import QUICK
from compat_tests.soak.account import Account, Entry
from compat_tests.soak.findings import Findings, Wrong
from compat_tests.soak.streams import QUEUES, SHARDS, STREAMS, Stream, commits

_ENTRY = struct.Struct(">iii")
SEND_TIMEOUT_MS = 3000
CHECKS_S = 60
PROGRESS_S = 60.0
_POLL_S = 0.05
_LOOK_S, _READ_S, _READ_ALL_S, _ENDS_S = 120, 240, 1800, 300
"""Longest times of single steps, of which a machine that runs much else takes a part."""
assert QUICK["transactionCheckInterval"] == "1000", "the checks of a soak shall not take longer than CHECKS_S"


class NoProgress(Exception):  # noqa: N818 - a fact, told to the user
    """The clients did not get on though the broker serves."""


class Load:
    """The clients of one soak.

    :param tag: makes topics and groups unique.
    :param longest_s: the verbs end by themselves after this time.
    :param streams: what the clients do; all that a soak has, unless given.
    """

    def __init__(
        self,
        client: JavaClient,
        nameserver: str,
        findings: Findings,
        *,
        tag: str,
        longest_s: int,
        streams: Sequence[Stream] = STREAMS,
    ) -> None:
        self.streams = streams
        self._client = client
        self._nameserver = nameserver
        self._findings = findings
        self._tag = tag
        self._longest_s = longest_s
        self._readings = 0
        self._sending: dict[str, Future[Answer]] = {}
        self._consuming: dict[str, Future[Answer]] = {}
        self.accounts = {
            stream.name: Account(
                stream.name,
                findings,
                queues=QUEUES,
                commits=commits if stream.is_transactional else None,
                shards=SHARDS if stream.is_orderly else 0,
            )
            for stream in self.streams
        }
        self.refusals: Counter[str] = Counter()
        self.refusal_texts: dict[str, str] = {}
        self.sent_totals: dict[str, int] = {}
        self.got_totals: dict[str, int] = {}
        self.last_reading: dict[str, list[Entry]] = {}
        """What the last reading found, by stream."""
        self.ended: dict[str, Answer] = {}
        """What the sending verbs said at their end."""
        self._seen_refusals: dict[str, dict[str, int]] = {}

    def topic(self, stream: Stream) -> str:
        return f"soak_{self._tag}_{stream.name}"

    def group(self, stream: Stream) -> str:
        return f"g_{self.topic(stream)}"

    def _run_name(self, stream: Stream) -> str:
        return f"{self._tag}{stream.name}"

    # -- starting and ending ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Make the topics, then let everybody begin."""
        for stream in self.streams:
            named = {"ns": self._nameserver, "topic": self.topic(stream)}
            made = self._client.run("create-topic", **named, queues=QUEUES, timeout_s=_READ_S)
            assert made["queues"] == QUEUES, str(made)
        for stream in self.streams:
            self._consuming[stream.name] = self._begin(
                stream, stream.consume, f"got_{stream.name}", "reading", {"pull_again_ms": 200}
            )
            options: dict[str, object] = {"retries": 0, "send_timeout_ms": SEND_TIMEOUT_MS, **stream.options}
            if stream.is_transactional:
                options |= {"group": f"pg_{self.topic(stream)}", "wait_checks_s": CHECKS_S}
            self._sending[stream.name] = self._begin(stream, stream.send, f"sent_{stream.name}", "sending", options)

    def _begin(
        self, stream: Stream, verb: str, ledger: str, until: str, options: Mapping[str, object]
    ) -> Future[Answer]:
        common: dict[str, Any] = {
            "ns": self._nameserver,
            "topic": self.topic(stream),
            "run": self._run_name(stream),
            "group": self.group(stream),
            "ledger": f"{self._tag}_{ledger}",
            "until": f"{self._tag}_{until}",
        }
        return self._client.start(verb, timeout_s=self._longest_s, **{**common, **options})

    def stop_sending(self) -> None:
        """Wait for the last sends, and for the checks of transactions left open."""
        self._client.stop(f"{self._tag}_sending")
        for name, ending in self._sending.items():
            answer = self.ended[name] = ending.result(timeout=CHECKS_S + _ENDS_S)
            if "unanswered" in answer.fields:
                assert answer["unanswered"] == 0, f"{name}: {answer['unanswered']} sends were never answered"

    def stop_consuming(self) -> None:
        self._client.stop(f"{self._tag}_reading")
        for name, ending in self._consuming.items():
            answer = ending.result(timeout=_ENDS_S)
            for kind in ("corrupt", "strangers"):
                if answer[kind]:
                    self._findings.add(Wrong.CORRUPT, f"{name}: the consumer got {answer[kind]} {kind}")

    def abandon(self) -> None:
        """Tell everybody to end, and do not wait: something is wrong already."""
        for what in ("sending", "reading"):
            self._client.stop(f"{self._tag}_{what}")

    def is_drained(self) -> bool:
        """Return whether the consumers got everything, and every reported commit is there."""
        return all(account.is_complete() for account in self.accounts.values())

    # -- looking ----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Bring what the clients were told since the last look into the accounts."""
        names = [f"{self._tag}_{part}_{stream.name}" for part in ("sent", "got") for stream in self.streams]
        pages = self._client.run("ledger", names=",".join(names), timeout_s=_LOOK_S)
        for stream in self.streams:
            account = self.accounts[stream.name]
            sent: dict[str, Any] = pages.json(f"{self._tag}_sent_{stream.name}")
            for number, attempts, _ in entries_of(sent["retried"]):
                account.attempted(number, attempts)
            account.acknowledge(entries_of(sent["entries"]))
            self._count_refusals(stream.name, sent)
            self.sent_totals[stream.name] = sent["total"]
            got: dict[str, Any] = pages.json(f"{self._tag}_got_{stream.name}")
            account.deliver(entries_of(got["entries"]))
            self.got_totals[stream.name] = got["total"]

    def wait_for_progress(self, *, with_consumers: bool = True, timeout_s: float = PROGRESS_S) -> str:
        """Wait until every sender was acknowledged and every consumer was given something more; the last to get on.

        :raises NoProgress: somebody did not.
        """
        self.look()
        sent, got = dict(self.sent_totals), dict(self.got_totals)
        last: list[str] = []
        limit, pause = Patience(timeout_s), threading.Event()
        while True:
            self.look()
            waiting = [f"{name} sending" for name in sent if self.sent_totals[name] <= sent[name]]
            if with_consumers:
                waiting += [f"{name} consuming" for name in got if self.got_totals[name] <= got[name]]
            last = waiting or last
            if not waiting:
                return ", ".join(last)
            if limit.is_over:
                raise NoProgress(
                    f"after {timeout_s:g} s no progress of {', '.join(last)}; refusals {self.refusal_texts}"
                )
            pause.wait(_POLL_S)

    def _count_refusals(self, name: str, page: dict[str, Any]) -> None:
        before = self._seen_refusals.get(name, {})
        self.refusals.update({code: count - before.get(code, 0) for code, count in page["refusals"].items()})
        self._seen_refusals[name] = page["refusals"]
        self.refusal_texts.update(page["samples"])

    def read_all(self, *, fresh: bool = False) -> None:
        """A consumer group that nobody knows reads what is new in all queues, or with ``fresh`` all there is.

        Whatever the accounts were told before must now be found.
        """
        positions = (
            ""
            if fresh
            else ",".join(
                f"{self.topic(stream)}/{queue}:{end}"
                for stream in self.streams
                for queue, end in enumerate(self.accounts[stream.name].ends())
            )
        )
        self._readings += 1
        answer = self._client.run(
            "read-queues",
            ns=self._nameserver,
            group=f"r_{self._tag}_{self._readings}",
            topics=",".join(map(self.topic, self.streams)),
            runs=",".join(map(self._run_name, self.streams)),
            timeout_s=_READ_ALL_S if fresh else _READ_S,
            **{"from": positions},
        )
        for stream in self.streams:
            self._put_down(stream, answer)
        for kind in ("corrupt", "strangers"):
            if answer[kind]:
                self._findings.add(Wrong.CORRUPT, f"{answer[kind]} {kind} in the queues")
        for account in self.accounts.values():
            account.check()
        self.look()
        for account in self.accounts.values():
            account.check_copies()

    def _put_down(self, stream: Stream, answer: Answer) -> None:
        found: list[list[tuple[int, int]]] = [[] for _ in range(QUEUES)]
        entries = self.last_reading[stream.name] = list(entries_of(answer.json("entries")[self.topic(stream)]))
        for number, queue, offset in entries:
            found[queue].append((offset, number))
        for queue in range(QUEUES):
            minimum, start, end = answer.json("ranges")[f"{self.topic(stream)}/{queue}"]
            self.accounts[stream.name].read(queue, minimum, start, end, found[queue])

    # -- sums -------------------------------------------------------------------------------------------------

    def total(self, of: Callable[[Account], int]) -> int:
        return sum(map(of, self.accounts.values()))

    def plain_acknowledged(self) -> int:
        """Sends told SEND_OK, without half messages."""
        return sum(account.acknowledged for name, account in self.accounts.items() if name != "transactions")


def entries_of(text: str) -> Iterable[Entry]:
    """Unpack the entries of a ledger."""
    return _ENTRY.iter_unpack(base64.b64decode(text))
