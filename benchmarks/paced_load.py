"""Messages at a steady pace over plain sockets, whoever answers or not, and how long each answer took.

For `benchmarks.pauses`. The pace does not wait for answers, so a pause of the server is seen by all messages that were
due in it. Some messages are transactions, of which some have to be asked for; some are delayed; a consumer pulls all of
them and commits its offsets.
"""

from __future__ import annotations

import selectors
import socket
import time
from array import array
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

from wire.bodies.heartbeat import HeartbeatData
from wire.codes import RequestCode, ResponseCode
from wire.command import ONEWAY_FLAG, RemotingCommand
from wire.connection import Connection
from wire.frame import build_frame
from wire.headers.declare import Header, build_header, parse_header
from wire.headers.offsets import UpdateConsumerOffsetRequest
from wire.headers.pull import PullMessageRequest
from wire.headers.send import SendMessageRequest
from wire.headers.topics import CreateTopicRequest
from wire.headers.transaction import CheckTransactionStateRequest, EndTransactionRequest
from wire.message.flags import PullFlag, SysFlag

TOPIC = "paced"
GROUP = "paced"
QUEUES = 8
BODY = b"x" * 256
SENDERS = 8
HALF_EACH, FORGOTTEN_EACH = 20, 200
"""One message of so many is a half message; one of so many has to be asked for."""
DELAYED_EACH, TIMED_EACH = 20, 20
DELAYED_MS = 2_000
NEW_TOPIC_S = 5.0
COMMIT_S = 1.0
HOLD_MS = 15_000
OPAQUES = 1 << 30

now = time.monotonic


class Peer:
    """A connection to the broker."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = Connection()

    def send(self, code: int, header: Header, opaque: int = 0, body: bytes = b"", flag: int = 0) -> None:
        """Send a request."""
        command = RemotingCommand(code, opaque=opaque, flag=flag, ext_fields=build_header(header), body=body)
        self.socket.sendall(build_frame(command))

    def read(self) -> list[RemotingCommand]:
        """Return the answers that one read brings."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise SystemExit("the server closed a connection")
        return self._connection.receive_data(data)

    def ask(self, code: int, header: Header, body: bytes = b"") -> RemotingCommand:
        """Send a request and wait; nothing else may be under way."""
        self.send(code, header, body=body)
        while not (answers := self.read()):
            pass
        if answers[0].code != ResponseCode.SUCCESS:
            raise SystemExit(f"request {code} was answered {answers[0].code}: {answers[0].remark}")
        return answers[0]


class Load:
    """Senders, one consumer, and whoever makes a topic now and then.

    ``sent`` and ``answered`` are times by message number, 0 for no answer.
    """

    def __init__(self, port: int, rate: int) -> None:
        self._rate = rate
        self._selector = selectors.DefaultSelector()
        self._numbers = count()
        self._halves: dict[int, str] = {}
        self.sent = array("d")
        self.answered = array("d")
        self.late_s = array("d")
        self.pulled = 0
        self._admin = Peer(port)
        make_topic(self._admin, TOPIC)
        self.senders = [Peer(port) for _ in range(SENDERS)]
        for number, sender in enumerate(self.senders):
            beat = HeartbeatData(client_id=f"paced-{number}", producers=[GROUP])
            sender.socket.sendall(build_frame(RemotingCommand(RequestCode.HEART_BEAT, opaque=-1, body=beat.build())))
            self._selector.register(sender.socket, selectors.EVENT_READ, sender)
        self._consumer = Peer(port)
        self._selector.register(self._consumer.socket, selectors.EVENT_READ, self._consumer)
        self._offsets = [0] * QUEUES
        for queue_id in range(QUEUES):
            self._pull(queue_id)

    def run(self, seconds: float) -> None:
        """Send for so long, then wait a moment for the last answers."""
        begin = now()
        end, due, commit_due, topic_due = begin + seconds, begin, begin, begin + NEW_TOPIC_S
        step = 1 / self._rate
        for number in self._numbers:
            while (left := due - now()) > 0:
                self._answers(left)
            if due > end:
                break
            self._send(number, due)
            due += step
            if due > commit_due:
                commit_due += COMMIT_S
                self._commit()
            if due > topic_due:
                topic_due += NEW_TOPIC_S
                make_topic(self._admin, f"made-{number}", wait=False)
        end = now() + 3
        while not all(self.answered) and now() < end:
            self._answers(0.1)

    def close(self) -> None:
        """Close all connections."""
        for peer in (self._admin, self._consumer, *self.senders):
            with suppress(OSError):
                peer.socket.close()

    def _send(self, number: int, due: float) -> None:
        is_half = number % HALF_EACH == 0
        properties = f"UNIQ_KEY\x017F000001{number:024X}\x02KEYS\x01k{number}\x02TAGS\x01t\x02"
        if is_half:
            properties += f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02"
        elif number % DELAYED_EACH == 1:
            properties += "DELAY\x011\x02"
        elif number % TIMED_EACH == 2:
            due_ms = int(time.time() * 1000) + DELAYED_MS  # noqa: TID251 - the server goes by it too
            properties += f"TIMER_DELIVER_MS\x01{due_ms}\x02"
        header = SendMessageRequest(
            producer_group=GROUP,
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=number % QUEUES,
            sys_flag=SysFlag.TRANSACTION_PREPARED if is_half else 0,
            born_timestamp=0,
            flag=0,
            properties=properties,
        )
        moment = now()
        self.sent.append(moment)
        self.answered.append(0.0)
        self.late_s.append(moment - due)
        self.senders[number % SENDERS].send(RequestCode.SEND_MESSAGE, header, number, BODY)

    def _answers(self, patience_s: float) -> None:
        for key, _ in self._selector.select(patience_s):
            peer = key.data
            commands = peer.read()
            moment = now()
            for command in commands:
                if peer is self._consumer:
                    self._pulled(command)
                elif command.is_response:
                    self._stored(peer, command, moment)
                elif command.code == RequestCode.CHECK_TRANSACTION_STATE:
                    self._asked(peer, command)

    def _stored(self, peer: Peer, answer: RemotingCommand, moment: float) -> None:
        number = answer.opaque
        if number < 0:
            return
        if answer.code != ResponseCode.SUCCESS:
            raise SystemExit(f"a message was answered {answer.code}: {answer.remark}")
        self.answered[number] = moment
        if number % HALF_EACH == 0 and number % FORGOTTEN_EACH:
            fields = answer.ext_fields
            place, key = int(fields["msgId"][-16:], 16), fields["transactionId"]
            self._end(peer, place, int(fields["queueOffset"]), key, from_check=False)

    def _asked(self, peer: Peer, check: RemotingCommand) -> None:
        header = parse_header(CheckTransactionStateRequest, check.ext_fields)
        key = header.transaction_id or ""
        self._end(peer, header.commit_log_offset, header.tran_state_table_offset, key, from_check=True)

    def _end(self, peer: Peer, place: int, half_offset: int, key: str, *, from_check: bool) -> None:
        header = EndTransactionRequest(
            producer_group=GROUP,
            tran_state_table_offset=half_offset,
            commit_log_offset=place,
            commit_or_rollback=SysFlag.TRANSACTION_COMMIT,
            from_transaction_check=from_check,
            msg_id=key,
            transaction_id=key,
        )
        peer.send(RequestCode.END_TRANSACTION, header, flag=ONEWAY_FLAG)

    def _pull(self, queue_id: int) -> None:
        header = PullMessageRequest(
            consumer_group=GROUP,
            topic=TOPIC,
            queue_id=queue_id,
            queue_offset=self._offsets[queue_id],
            max_msg_nums=32,
            sys_flag=PullFlag.SUSPEND | PullFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=HOLD_MS,
            subscription="*",
            sub_version=1,
        )
        self._consumer.send(RequestCode.PULL_MESSAGE, header, opaque=queue_id)

    def _pulled(self, answer: RemotingCommand) -> None:
        if answer.opaque >= OPAQUES:
            return
        if answer.code == ResponseCode.SUCCESS:
            self.pulled += 1
        self._offsets[answer.opaque] = int(answer.ext_fields["nextBeginOffset"])
        self._pull(answer.opaque)

    def _commit(self) -> None:
        for queue_id, offset in enumerate(self._offsets):
            header = UpdateConsumerOffsetRequest(
                consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, commit_offset=offset
            )
            self._consumer.send(RequestCode.UPDATE_CONSUMER_OFFSET, header, OPAQUES, flag=ONEWAY_FLAG)

    def latencies(self) -> Iterator[tuple[float, float]]:
        """(when it was sent, seconds to the answer) of every message."""
        for sent, answered in zip(self.sent, self.answered, strict=True):
            if not answered:
                raise SystemExit("a message was never answered")
            yield sent, answered - sent


def make_topic(peer: Peer, name: str, *, wait: bool = True) -> None:
    """Make a topic with ``QUEUES`` queues."""
    header = CreateTopicRequest(
        topic=name,
        default_topic="TBW102",
        read_queue_nums=QUEUES,
        write_queue_nums=QUEUES,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    if wait:
        peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    else:
        peer.send(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
