"""The honest clients: what each was promised is kept an account of, and how long it waited is measured.

A process of its own, so that what the fuzzer computes delays nobody: ``python -m gateway.tests.fuzz.honest BROKER
NAMESERVER``. It works until its standard input ends, reads what is left, and prints its report as JSON. They sign with
the keys in ``FUZZ_KEYS``, if that is set.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.tests.stalls import Stalls
from wire.bodies.route import TopicRouteData
from wire.codes import RequestCode, ResponseCode
from wire.command import RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame
from wire.headers.declare import Header, build_header
from wire.headers.name_server import GetRouteInfoRequest
from wire.headers.offsets import QueryConsumerOffsetRequest, UpdateConsumerOffsetRequest
from wire.headers.pop import AckMessageRequest, PopMessageRequest
from wire.headers.pull import PullMessageRequest
from wire.headers.send import SendMessageRequest
from wire.headers.topics import CreateTopicRequest
from wire.headers.transaction import EndTransactionRequest
from wire.message.properties import build_properties
from wire.message.record import parse_records
from wire.signature import RequestSigner

TOPIC: Final = "honest"
POP_TOPIC: Final = "honest-pop"
GROUP: Final = "honest-group"
QUEUES: Final = 4
PATIENCE_S: Final = 60.0
"""Seconds after which a request is given up."""
SENDS_PER_S: Final = 50
POPS_PER_S: Final = 10
ROUTES_PER_S: Final = 10
READS_PER_S: Final = 10
INVISIBLE_MS: Final = 60_000
LAST_ROUNDS: Final = 3
LAST_PAUSE_S: Final = 0.3
"""Seconds after each of the last rounds of pulls."""
COMMIT: Final = 8
ROLLBACK: Final = 12


@dataclass
class Report:
    """The findings of the honest clients.

    :param waits_ms: by kind of request, how long each answer took.
    :param wrong: sentences about promises that were not kept.
    :param machine_ms: the longest time that the machine itself took for a write and a short sleep.
    """

    waits_ms: dict[str, list[float]] = field(default_factory=dict)
    sent: int = 0
    received: int = 0
    popped: int = 0
    wrong: list[str] = field(default_factory=list)
    machine_ms: int = 0


class Account:
    """The acknowledged messages and the messages that arrived; pure."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, bool] = {}
        """Texts of messages by what they were promised: True to come once, False never to come."""
        self.unknown: set[str] = set()
        """Texts whose send had no good answer: they may come once or not at all."""
        self.arrived: list[str] = []

    def wrong(self) -> list[str]:
        """Every promise that was not kept."""
        counts: dict[str, int] = {}
        for text in self.arrived:
            counts[text] = counts.get(text, 0) + 1
        found = [f"message {text} came {count} times" for text, count in counts.items() if count > 1]
        found += [
            f"message {text} was rolled back and came"
            for text, is_wanted in self.acknowledged.items()
            if not is_wanted and text in counts
        ]
        found += [
            f"message {text} was acknowledged and is lost"
            for text, is_wanted in self.acknowledged.items()
            if is_wanted and text not in counts
        ]
        known = self.acknowledged.keys() | self.unknown
        found += [f"foreign message {text!r:.80}" for text in counts if text not in known]
        return found


class Link:
    """One blocking connection; every wait is measured."""

    def __init__(self, address: str, report: Report, signer: RequestSigner | None = None) -> None:
        self._signer = signer
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = Connection()
        self._opaque = 0
        self._report = report

    def ask(self, kind: str, code: int, header: Header, body: bytes = b"") -> RemotingCommand:
        """Ask and wait for the answer.

        :raises OSError: none came, or the connection is gone.
        """
        self._opaque += 1
        command = RemotingCommand(code, opaque=self._opaque, ext_fields=build_header(header), body=body)
        if self._signer is not None:
            self._signer.sign(command)
        frame = build_frame(command)
        begun = time.monotonic()
        self._socket.sendall(frame)
        while True:
            data = self._socket.recv(1 << 18)
            if not data:
                raise ConnectionResetError(f"{kind}: the server closed the connection")
            for command in self._connection.receive_data(data):
                if command.flag & 1 and command.opaque == self._opaque:
                    self._report.waits_ms.setdefault(kind, []).append((time.monotonic() - begun) * 1_000)
                    return command


def create_topic(link: Link, topic: str) -> None:
    """Make a topic of ``QUEUES`` queues."""
    header = CreateTopicRequest(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=QUEUES,
        write_queue_nums=QUEUES,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
    )
    answer = link.ask("create", RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


def message_header(topic: str, queue_id: int, properties: dict[str, str], sys_flag: int = 0) -> SendMessageRequest:
    """The header of a send."""
    return SendMessageRequest(
        producer_group=GROUP,
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=QUEUES,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=int(time.time() * 1_000),  # noqa: TID251 - a client without a gateway's clock
        flag=0,
        properties=build_properties(properties).decode(),
    )


class Honest:
    """All honest clients.

    :param signer: signs their requests; their topics are there already then.
    """

    def __init__(self, broker: str, name_server: str, signer: RequestSigner | None = None) -> None:
        self._signer = signer
        self._broker = broker
        self._name_server = name_server
        self.report = Report()
        self.account = Account()
        self.pop_account = Account()
        self._ended = threading.Event()
        self._all_sent = threading.Event()

    def run(self, wait_for_end: Callable[[], object]) -> Report:
        """Work until ``wait_for_end`` returns, then read what is left."""
        if self._signer is None:
            link = Link(self._broker, self.report)
            create_topic(link, TOPIC)
            create_topic(link, POP_TOPIC)
        self._wait_for_route()
        print("ready", flush=True)  # noqa: T201
        workers = [self._send, self._read, self._pop, self._ask_routes]
        threads = [threading.Thread(target=self._work, args=(worker,), daemon=True) for worker in workers]
        with Stalls(Path(os.environ.get("FUZZ_DIRECTORY", "."))) as stalls:
            for thread in threads:
                thread.start()
            wait_for_end()
            self._ended.set()
            for thread in threads:
                thread.join(2 * PATIENCE_S)
                if thread.is_alive():
                    self.report.wrong.append("an honest client was not answered at all")
            self.report.machine_ms = stalls.longest_ms
        self.report.wrong += self.account.wrong() + self.pop_account.wrong()
        return self.report

    def _wait_for_route(self) -> None:
        """Wait until the name server knows the topic, which it hears a moment after its creation."""
        link = Link(self._name_server, self.report, self._signer)
        for _ in range(100):
            answer = link.ask("create", RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic=TOPIC))
            if answer.code == ResponseCode.SUCCESS:
                return
            time.sleep(0.1)  # noqa: TID251 - a real server has to be given real time
        raise RuntimeError(f"no route for {TOPIC}: {answer.remark}")

    def _work(self, worker: Callable[[], None]) -> None:
        try:
            worker()
        except Exception as error:  # noqa: BLE001 - each is a finding
            self.report.wrong.append(f"{worker.__name__.strip('_')}: {type(error).__name__}: {error}")

    def _until_end(self, per_s: int) -> bool:
        """Wait for one more turn; False when the work is over."""
        return not self._ended.wait(1 / per_s)

    def _expect(self, kind: str, answer: RemotingCommand) -> bool:
        if answer.code != ResponseCode.SUCCESS:
            self.report.wrong.append(f"{kind} was answered {answer.code}: {answer.remark}")
        return answer.code == ResponseCode.SUCCESS

    # -- producer -------------------------------------------------------------------------------------------

    def _send(self) -> None:
        try:
            self._send_many(Link(self._broker, self.report, self._signer))
        finally:
            self._all_sent.set()

    def _send_many(self, link: Link) -> None:
        number = 0
        while self._until_end(SENDS_PER_S):
            number += 1
            text = f"honest {number}"
            if number % 10:
                self._send_one(link, text, number % QUEUES)
            else:
                self._transact(link, text, number % QUEUES, is_wanted=number % 20 == 0)

    def _send_one(self, link: Link, text: str, queue_id: int) -> None:
        self.account.unknown.add(text)
        header = message_header(TOPIC, queue_id, {"KEYS": text.replace(" ", "-")})
        if self._expect("a send", link.ask("send", RequestCode.SEND_MESSAGE, header, text.encode())):
            self.account.acknowledged[text] = True
            self.report.sent += 1

    def _transact(self, link: Link, text: str, queue_id: int, *, is_wanted: bool) -> None:
        self.account.unknown.add(text)
        key = text.replace(" ", "-")
        properties = {"UNIQ_KEY": key, "TRAN_MSG": "true", "PGROUP": GROUP}
        half = message_header(TOPIC, queue_id, properties, 4)
        answer = link.ask("half", RequestCode.SEND_MESSAGE, half, text.encode())
        if not self._expect("a half message", answer):
            return
        header = EndTransactionRequest(
            topic=TOPIC,
            producer_group=GROUP,
            tran_state_table_offset=int(answer.ext_fields["queueOffset"]),
            commit_log_offset=int(answer.ext_fields["msgId"][16:32], 16),
            commit_or_rollback=COMMIT if is_wanted else ROLLBACK,
            msg_id=key,
            transaction_id=answer.ext_fields.get("transactionId", key),
        )
        if self._expect("an outcome", link.ask("outcome", RequestCode.END_TRANSACTION, header)):
            self.account.acknowledged[text] = is_wanted
            self.report.sent += is_wanted

    # -- consumer -------------------------------------------------------------------------------------------

    def _read(self) -> None:
        link = Link(self._broker, self.report, self._signer)
        offsets = [0] * QUEUES
        while self._until_end(READS_PER_S):
            for queue_id in range(QUEUES):
                self._pull(link, queue_id, offsets)
            self._keep_offset(link, offsets)
        self._all_sent.wait(2 * PATIENCE_S)
        for _ in range(LAST_ROUNDS):
            while any(self._pull(link, queue_id, offsets) for queue_id in range(QUEUES)):
                pass
            time.sleep(LAST_PAUSE_S)  # noqa: TID251 - a real server has to be given real time

    def _pull(self, link: Link, queue_id: int, offsets: list[int]) -> bool:
        header = PullMessageRequest(
            consumer_group=GROUP,
            topic=TOPIC,
            queue_id=queue_id,
            queue_offset=offsets[queue_id],
            max_msg_nums=32,
            sys_flag=4,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=1,
        )
        answer = link.ask("pull", RequestCode.PULL_MESSAGE, header)
        if answer.code == ResponseCode.PULL_NOT_FOUND:
            return False
        if not self._expect("a pull", answer):
            return False
        for record in parse_records(answer.body):
            place = f"{record.topic} queue {record.queue_id} offset {record.queue_offset}"
            if (record.topic, record.queue_id, record.queue_offset) != (TOPIC, queue_id, offsets[queue_id]):
                self.report.wrong.append(f"{place} came instead of offset {offsets[queue_id]} of queue {queue_id}")
            self.account.arrived.append(record.body.decode("utf-8", "replace"))
            self.report.received += 1
            offsets[queue_id] += 1
        return True

    def _keep_offset(self, link: Link, offsets: list[int]) -> None:
        if not offsets[0]:
            return
        place: dict[str, Any] = {"consumer_group": GROUP, "topic": TOPIC, "queue_id": 0}
        update = UpdateConsumerOffsetRequest(commit_offset=offsets[0], **place)
        self._expect("an offset", link.ask("offset", RequestCode.UPDATE_CONSUMER_OFFSET, update))
        answer = link.ask("offset", RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffsetRequest(**place))
        if self._expect("an offset asked for", answer) and answer.ext_fields["offset"] != str(offsets[0]):
            self.report.wrong.append(f"the offset is {answer.ext_fields['offset']}, stored was {offsets[0]}")

    # -- pops -----------------------------------------------------------------------------------------------

    def _pop(self) -> None:
        link = Link(self._broker, self.report, self._signer)
        number = 0
        while self._until_end(POPS_PER_S):
            number += 1
            text = f"popped {number}"
            self.pop_account.unknown.add(text)
            header = message_header(POP_TOPIC, number % QUEUES, {})
            if self._expect("a send", link.ask("send", RequestCode.SEND_MESSAGE, header, text.encode())):
                self.pop_account.acknowledged[text] = True
            self._take(link)
        while self._take(link):
            pass

    def _take(self, link: Link) -> bool:
        header = PopMessageRequest(
            consumer_group=GROUP,
            topic=POP_TOPIC,
            queue_id=-1,
            max_msg_nums=32,
            invisible_time=INVISIBLE_MS,
            poll_time=0,
            born_time=0,
            init_mode=0,
            exp_type="TAG",
            exp="*",
        )
        answer = link.ask("pop", RequestCode.POP_MESSAGE, header)
        if answer.code == ResponseCode.POLLING_TIMEOUT or not self._expect("a pop", answer):
            return False
        fields = answer.ext_fields
        starts = {entry.split(" ")[1]: entry.split(" ")[2] for entry in fields["startOffsetInfo"].split(";") if entry}
        for record in parse_records(answer.body):
            self.pop_account.arrived.append(record.body.decode("utf-8", "replace"))
            self.report.popped += 1
            broker = fields.get("brokerName", "broker-a")
            receipt = (
                f"{starts[str(record.queue_id)]} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']} 0 "
                f"{broker} {record.queue_id} {record.queue_offset}"
            )
            ack = AckMessageRequest(
                consumer_group=GROUP,
                topic=POP_TOPIC,
                queue_id=record.queue_id,
                extra_info=receipt,
                offset=record.queue_offset,
            )
            self._expect("an acknowledgement", link.ask("ack", RequestCode.ACK_MESSAGE, ack))
        return True

    # -- routes ---------------------------------------------------------------------------------------------

    def _ask_routes(self) -> None:
        link = Link(self._name_server, self.report, self._signer)
        while self._until_end(ROUTES_PER_S):
            answer = link.ask("route", RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest(topic=TOPIC))
            if not self._expect("a route", answer):
                continue
            route = TopicRouteData.parse(answer.body)
            found = [(queue.read_queue_nums, queue.write_queue_nums, queue.perm) for queue in route.queue_datas]
            if found != [(QUEUES, QUEUES, 6)] or len(route.broker_datas) != 1:
                self.report.wrong.append(f"the route of {TOPIC} says {answer.body[:300]!r}")


def main() -> None:
    """Run in this process until standard input ends."""
    keys = os.environ.get("FUZZ_KEYS", "").split()
    honest = Honest(sys.argv[1], sys.argv[2], RequestSigner(*keys) if keys else None)
    report = honest.run(sys.stdin.read)
    sys.stdout.write(json.dumps(asdict(report)) + "\n")


if __name__ == "__main__":
    main()
