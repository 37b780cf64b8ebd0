"""T1 to T13 on the wire: what a broker does in the cases in which Apache RocketMQ's transactions fail their users.

    python -m compat_tests.transaction_failures 127.0.0.1:10911
    python -m compat_tests.transaction_failures 127.0.0.1:10911 --pid 4711     also T13: its processor time when idle

Raw requests, one line of result for each row of docs/transactions/compared.md; takes one to three minutes. Works
against either broker, with settings that make checks quick: transactionTimeOut=1000, transactionCheckInterval=1000,
transactionCheckMax=3, autoCreateTopicEnable=true. T8 (fairness under load) and T9 (restarts) are left to
``transactions_load`` and the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from compat_tests.environment import wait_until
from compat_tests.frames import END_TRANSACTION, SEND_V2, Frame, read, request
from gateway.clock import wall_clock_ms

HEART_BEAT = 34
GET_MAX_OFFSET = 30
PULL = 11
CHECK = 39
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
CHECK_MAX_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
LATE_S = 6.0
"""By then, whatever is going to be checked was checked."""
PATIENCE_S = 20.0
"""For what has to come; Apache RocketMQ checks in rounds and waits in between."""


class Client:
    """One connection of a producer; checks that come in between answers are kept."""

    def __init__(self, address: tuple[str, int], group: str, *, joins: bool = True) -> None:
        self.group = group
        self.checks: list[tuple[float, Frame]] = []
        self._opaque = 0
        self._socket = socket.create_connection(address, 10)
        if joins:
            self.join()

    def close(self) -> None:
        self._socket.close()

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> Frame:
        self._opaque += 1
        self._socket.settimeout(10)
        self._socket.sendall(request(code, fields, body, opaque=self._opaque).pack())
        while True:
            frame = read(self._socket)
            assert frame is not None, "the broker closed the connection"
            if int(frame.header["flag"]) & 1 and frame.header["opaque"] == self._opaque:
                return frame
            self._keep(frame)

    def wait_for_checks(self, count: int, seconds: float) -> list[tuple[float, Frame]]:
        """Wait until this number of checks came, or until the time is over; return them."""
        end = time.monotonic() + seconds
        while len(self.checks) < count and (left := end - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                frame = read(self._socket)
            except TimeoutError:
                break
            assert frame is not None, "the broker closed the connection"
            self._keep(frame)
        return self.checks

    def _keep(self, frame: Frame) -> None:
        if frame.code == CHECK and not int(frame.header["flag"]) & 1:
            self.checks.append((time.monotonic(), frame))

    def join(self) -> None:
        body = {"clientID": f"{self.group}@{os.getpid()}", "producerDataSet": [{"groupName": self.group}]}
        self.ask(HEART_BEAT, {}, json.dumps({**body, "consumerDataSet": []}).encode())

    def half(self, topic: str, *, born_ms: int | None = None, **more: str) -> Frame:
        properties = {"TRAN_MSG": "true", "PGROUP": self.group, "UNIQ_KEY": f"{topic}{time.time_ns()}", **more}
        fields = {
            "a": self.group, "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": "4",
            "g": str(wall_clock_ms() if born_ms is None else born_ms),
            "h": "0", "i": "".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
            "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        return self.ask(SEND_V2, fields, b"body")

    def end(self, half: Frame, outcome: int, *, from_check: bool = False) -> int | None:
        """The answer's code; None for an outcome that is not answered."""
        fields = {
            "producerGroup": self.group,
            "tranStateTableOffset": half.fields["queueOffset"],
            "commitLogOffset": str(int(half.fields["msgId"][-16:], 16)),
            "commitOrRollback": str(outcome),
            "fromTransactionCheck": "true" if from_check else "false",
            "msgId": "id",
            "transactionId": "id",
        }
        if outcome == UNKNOWN:
            self._socket.sendall(request(END_TRANSACTION, fields, opaque=0).pack())
            return None
        return self.ask(END_TRANSACTION, fields).code

    def answer(self, check: Frame, outcome: int) -> None:
        """Answer a check, one-way, as clients do."""
        fields = {
            "producerGroup": self.group,
            "tranStateTableOffset": check.fields["tranStateTableOffset"],
            "commitLogOffset": check.fields["commitLogOffset"],
            "commitOrRollback": str(outcome),
            "fromTransactionCheck": "true",
            "msgId": "id",
            "transactionId": "id",
        }
        frame = request(END_TRANSACTION, fields, opaque=0)
        frame.header["flag"] = 2
        self._socket.sendall(frame.pack())

    def max_offset(self, topic: str) -> int:
        answer = self.ask(GET_MAX_OFFSET, {"topic": topic, "queueId": "0"})
        return int(answer.fields.get("offset", "0"))

    def records(self, queue_of: str, first: int, about: str) -> list[bytes]:
        """The records of a system topic from an offset on that are about one topic."""
        found: list[bytes] = []
        end = self.max_offset(queue_of)
        while first < end:
            fields = {
                "consumerGroup": "transaction_failures", "topic": queue_of, "queueId": "0",
                "queueOffset": str(first), "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
                "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
            }  # fmt: skip
            answer = self.ask(PULL, fields)
            at = 0
            while at < len(answer.body):
                size = int.from_bytes(answer.body[at : at + 4], "big")
                found += [answer.body[at : at + size]] if about.encode() in answer.body[at : at + size] else []
                at += size
            first = max(int(answer.fields.get("nextBeginOffset", "0")), first + 1)
        return found


class Trial:
    """One broker, asked row by row."""

    def __init__(self, address: tuple[str, int], pid: int | None) -> None:
        self._address = address
        self._pid = pid
        self._run = f"{wall_clock_ms():x}"

    def client(self, row: str, *, joins: bool = True) -> tuple[Client, str]:
        """A client of a group of its own, and a topic of its own."""
        return Client(self._address, f"G_{row}_{self._run}", joins=joins), f"T_{row}_{self._run}"

    def t1_second_commit(self) -> str:
        client, topic = self.client("t1")
        half = client.half(topic)
        codes = [client.end(half, COMMIT) for _ in range(3)]
        client.wait_for_checks(99, 1)
        return f"{client.max_offset(topic)} messages after three commits, answered {codes}"

    def t2_commit_after_rollback(self) -> str:
        client, topic = self.client("t2")
        half = client.half(topic)
        codes = [client.end(half, ROLLBACK), client.end(half, COMMIT)]
        client.wait_for_checks(99, 1)
        return f"{client.max_offset(topic)} messages after rollback and commit, answered {codes}"

    def t3_commit_during_a_check(self) -> str:
        client, topic = self.client("t3")
        half = client.half(topic)
        [(_, check)] = client.wait_for_checks(1, PATIENCE_S)[:1]
        client.end(half, COMMIT)
        client.answer(check, COMMIT)
        client.checks.clear()
        further = len(client.wait_for_checks(99, LATE_S))
        return f"{client.max_offset(topic)} messages, {further} further checks"

    def t4_what_a_check_writes(self) -> str:
        client, topic = self.client("t4")
        first = client.max_offset(HALF_TOPIC)
        client.half(topic)
        count = len(client.wait_for_checks(2, PATIENCE_S))
        again = client.records(HALF_TOPIC, first, topic)[1:]
        return f"{len(again)} more half messages after {count} checks, {sum(map(len, again))} bytes of log"

    def t5_no_producer(self) -> str:
        absent, topic = self.client("t5", joins=False)
        first = absent.max_offset(CHECK_MAX_TOPIC)
        absent.half(topic)
        absent.wait_for_checks(99, PATIENCE_S)
        given_up = len(absent.records(CHECK_MAX_TOPIC, first, topic))
        absent.join()
        checks = len(absent.wait_for_checks(1, LATE_S))
        return f"{given_up} given up in {PATIENCE_S:g} s without a producer, {checks} checks once there is one"

    def t6_the_clients_clock(self) -> str:
        client, topic = self.client("t6")
        begun = time.monotonic()
        client.half(topic, born_ms=wall_clock_ms() - 3_600_000, CHECK_IMMUNITY_TIME_IN_SECONDS="15")
        first = next((moment for moment, _ in client.wait_for_checks(1, 30)), begun + 30)
        return f"first check after {first - begun:.1f} s with an immunity time of 15 s and a client an hour behind"

    def t7_one_bad_half_message(self) -> str:
        client, topic = self.client("t7")
        taken = False
        for filler in range(32_760, 31_000, -10):
            if client.half(topic, filler="x" * filler).code == 0:
                taken = True
                break
        client.half(topic, KEYS="good")
        checks = client.wait_for_checks(2, PATIENCE_S)
        good = any(b"KEYS\x01good" in check.body for _, check in checks)
        return f"full properties taken: {taken}; the good one behind it is checked: {good}"

    def t10_with_a_delay(self) -> str:
        client, topic = self.client("t10")
        half = client.half(topic, DELAY="1")
        if half.code != 0:
            return f"the send is answered {half.code}: {half.remark}"
        code = client.end(half, COMMIT)
        client.wait_for_checks(99, 3)
        return f"send and commit answered {half.code} and {code}; {client.max_offset(topic)} messages 3 s later"

    def t11_after_the_maximum(self) -> str:
        client, topic = self.client("t11")
        first = client.max_offset(CHECK_MAX_TOPIC)
        client.half(topic)
        end = time.monotonic() + 3 * PATIENCE_S
        while not (given_up := client.records(CHECK_MAX_TOPIC, first, topic)) and time.monotonic() < end:
            client.wait_for_checks(99, 1)
        reason = any(b"TRANSACTION_DISCARD_REASON" in record for record in given_up)
        return f"{len(given_up)} given up after {len(client.checks)} checks, with a reason: {reason}"

    def t12_a_lost_commit(self) -> str:
        client, topic = self.client("t12")
        client.half(topic)
        for _, check in client.wait_for_checks(1, PATIENCE_S):
            client.answer(check, COMMIT)
        client.wait_for_checks(99, 1)
        return f"{client.max_offset(topic)} message after {len(client.checks)} check"

    def t13_idle(self) -> str:
        if self._pid is None:
            return "not measured: --pid names the broker's process"
        client, _ = self.client("t13")
        client.wait_for_checks(99, LATE_S)
        begun = _cpu_s(self._pid)
        client.wait_for_checks(99, 5)
        return f"{(_cpu_s(self._pid) - begun) / 5:.2f} cores when nothing happens"

    def rows(self) -> list[tuple[str, Callable[[], str]]]:
        """The rows in their order; T7 last, as Apache RocketMQ checks nothing after it."""
        names = sorted((name for name in dir(self) if name[:1] == "t" and name[1:2].isdecimal()), key=_number)
        names.sort(key=lambda name: _number(name) == 7)
        return [(name.partition("_")[0].upper(), getattr(self, name)) for name in names]


def _number(name: str) -> int:
    return int(name[1:].partition("_")[0])


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _answers(address: tuple[str, int]) -> bool:
    """Return whether there is a broker, which may be starting."""
    try:
        Client(address, "G_are_you_there").close()
    except (OSError, AssertionError):
        return False
    return True


def main() -> None:
    """Parse the command line, ask, print."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.transaction_failures")
    parser.add_argument("broker", help="HOST:PORT")
    parser.add_argument("--pid", type=int, help="the broker's process, for T13")
    parser.add_argument("--only", nargs="*", metavar="ROW", help="e.g. T1 T5")
    options = parser.parse_args()
    host, _, port = options.broker.rpartition(":")
    address = host, int(port)
    wait_until(lambda: _answers(address), f"an answer of {options.broker}", timeout_s=PATIENCE_S * 3)
    trial = Trial(address, options.pid)
    for name, row in trial.rows():
        if not options.only or name in options.only:
            print(f"{name:4} {row()}", flush=True)


if __name__ == "__main__":
    main()
