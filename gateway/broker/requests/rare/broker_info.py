"""Settings and running figures of the broker, for tools.

Upstream: ``AdminBrokerProcessor``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from shutil import disk_usage
from typing import Final
from uuid import uuid4

import msgspec
from twisted.internet.defer import DeferredLock

from gateway.broker.cold_reads import TOOLS
from gateway.broker.desk import Desk, DeskRequests
from gateway.broker.live_settings import declared
from gateway.errors import RequestRefused, SettingsError
from gateway.metadata.names import SCHEDULE_TOPIC
from gateway.metadata.saved.json_file import JsonFile
from gateway.remoting.declared import ADMIN_UPDATE, CLUSTER_GET, SERVED
from gateway.remoting.dispatch import Answer, Request
from gateway.remoting.requests import answers
from gateway.schedule.redirect import schedule_queue_id
from gateway.settings.declare import declarations
from gateway.settings.files.properties import escape_property, properties_of
from gateway.settings.tree import Settings
from wire.bodies.tools.statistics import KVTable
from wire.bodies.topics import DataVersion
from wire.codes import SERVER_VERSION, RequestCode, ResponseCode
from wire.errors import BodyError
from wire.headers.admin import GetBrokerConfigResponse

MAX_CONFIG_BYTES: Final = 65_536
"""The largest body of a request that changes settings, in bytes."""
QUEUE_CAPACITIES = {"send": 10_000, "pull": 100_000, "litePull": 100_000, "query": 20_000, "ack": 100_000}
"""The default capacities of the queues of upstream's thread pools: tools divide by these numbers."""
VERSION_TEXT = "V5_5_0"
"""The version that tools show."""
NO_POOL = 2**31 - 1
"""The number of buffers that upstream reports as left if it has no buffers."""


class BrokerInfo(DeskRequests):
    """Answers UPDATE_BROKER_CONFIG (25), GET_BROKER_CONFIG (26) and GET_BROKER_RUNTIME_INFO (28)."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._earliest: tuple[int, int] | None = None  # place and store time of the log's first message
        self._store_id = ""  # until it is asked for: it may be missing on disk, or damaged there
        self._identifying = DeferredLock()
        self._booted_ms, self._booted_log_end = desk.booted

    @answers(RequestCode.UPDATE_BROKER_CONFIG, None, ADMIN_UPDATE, slave=SERVED)
    def update_config(self, request: Request, _header: None) -> Answer:
        """Change settings that may change while the broker runs: all settings of the request, or none.

        The body is properties text, which is read as far as its first unknown setting.
        """
        wanted: dict[str, str] = {}
        try:
            for entry in properties_of(request.command.body, "the request", MAX_CONFIG_BYTES):
                declared(entry.key)
                wanted[entry.key] = entry.value
        except SettingsError as error:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, str(error)) from error
        self._desk.live.change(wanted)
        return Answer()

    @answers(RequestCode.GET_BROKER_CONFIG, None, CLUSTER_GET, slave=SERVED)
    def config(self, request: Request, _header: None) -> Answer:
        """Answer with every setting in effect, as properties text."""
        current, reached_at = self._desk.live.current, request.channel.local[0]
        in_effect = current.in_effect() | {
            "broker_ip1": current.advertised.host or reached_at,
            "namesrv_addr": self._desk.name_servers(reached_at),
        }
        lines = [
            escape_property(
                key, in_effect.get(name := declaration.attribute, declaration.shown(getattr(current, name)))
            )
            for key, declaration in declarations(Settings).items()
        ]
        version = DataVersion(counter=1 + self._desk.live.changes, timestamp=self._booted_ms).build().decode()
        return Answer(header=GetBrokerConfigResponse(version=version), body="\n".join(lines).encode())

    @answers(RequestCode.GET_BROKER_RUNTIME_INFO, None, CLUSTER_GET, slave=SERVED)
    async def runtime_info(self, _request: Request, _header: None) -> Answer:
        """Answer with the figures that mqadmin and the dashboard show."""
        if not self._store_id:
            await self._identify()
        offset = self._desk.store.min_commit_log_offset
        if self._earliest is None or self._earliest[0] != offset:
            earliest = await self._desk.cold_reads.result(partial(self._desk.store.head_at, offset), TOOLS)
            self._earliest = None if earliest is None else (offset, earliest.stored_at_ms)
        return Answer(body=KVTable(self._figures()).build())

    async def _identify(self) -> None:
        """Read the identity of the store, or make it: one request at a time, so that only one is made.

        :raises RequestRefused: it cannot be written now; the next request tries again.
        """
        file = JsonFile(self._desk.live.current.store_path_root_dir / "config" / FILE_NAME)
        await self._identifying.acquire()
        try:
            if not self._store_id:
                work = partial(store_identity, file, lambda: uuid4().hex)
                self._store_id = await self._desk.cold_reads.result(work, TOOLS)
        except OSError as error:
            reason = f"the identity of the store cannot be written to {file.path}: {error.strerror or error}"
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, reason) from error
        finally:
            self._identifying.release()

    def _figures(self) -> dict[str, str]:
        now_ms = self._desk.clock()
        store = self._desk.store
        figures: dict[str, object] = {
            "brokerVersionDesc": VERSION_TEXT,
            "brokerVersion": SERVER_VERSION,
            "brokerActive": "true",
            "brokerRole": self._desk.live.current.broker_role.value,
            "storeId": self._store_id,
            "bootTimestamp": self._booted_ms,
            "runtime": _duration(now_ms - self._booted_ms),
            "startAcceptSendRequestTimeStamp": 0,
            "earliestMessageTimeStamp": -1 if self._earliest is None else self._earliest[1],
            "commitLogDirCapacity": _capacity(self._desk.live.current.commit_log_directory),
            "commitLogDiskRatio": _disk_ratio(self._desk.live.current.commit_log_directory),
            "consumeQueueDiskRatio": _disk_ratio(self._desk.live.current.store_path_root_dir),
            "commitLogMinOffset": store.min_commit_log_offset,
            "commitLogMaxOffset": store.max_commit_log_offset,
            "commitLogVisibleOffset": store.shown_end,
            "remainHowManyDataToFlush": f"{store.max_commit_log_offset - store.flushed_offset} B",
            **self._throughput_figures(),
            **self._put_figures(),
            **self._queues(),
            "dispatchBehindBytes": store.dispatch_behind_bytes,
            **{sample.name: sample.value for sample in self._desk.registry.samples() if not sample.labels},
        }
        for level, (offset, end) in self._delay_progress().items():
            figures[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
        return {name: str(value) for name, value in figures.items()}

    def _delay_progress(self) -> Mapping[int, tuple[int, int]]:
        """Return the next offset and the end of the queue of each delay level that ever held a message."""
        offsets = self._desk.delays.offsets()
        ends = {
            level: self._desk.store.max_offset(SCHEDULE_TOPIC, schedule_queue_id(level))
            for level in sorted({*offsets, *range(1, self._desk.levels.last + 1)})
        }
        return {level: (offsets.get(level, 0), end) for level, end in ends.items() if level in offsets or end > 0}

    def _throughput_figures(self) -> dict[str, object]:
        throughput = self._desk.throughput
        puts, gets = throughput.day(lambda t: t.puts), throughput.day(lambda t: t.gets)
        return {
            "msgPutTotalYesterdayMorning": puts.yesterday_morning,
            "msgPutTotalTodayMorning": puts.today_morning,
            "msgPutTotalTodayNow": puts.today_now,
            "msgGetTotalYesterdayMorning": gets.yesterday_morning,
            "msgGetTotalTodayMorning": gets.today_morning,
            "msgGetTotalTodayNow": gets.today_now,
            "putTps": throughput.rates(lambda t: t.puts),
            "getFoundTps": throughput.rates(lambda t: t.found_pulls),
            "getMissTps": throughput.rates(lambda t: t.missed_pulls),
            "getTotalTps": throughput.rates(lambda t: t.found_pulls + t.missed_pulls),
            "getTransferredTps": throughput.rates(lambda t: t.gets),
            "getTransferedTps": throughput.rates(lambda t: t.gets),  # so spelt by 4.x, and by exporters
        }

    def _put_figures(self) -> dict[str, object]:
        """Return the times of puts and reads in milliseconds, and the bytes in the commit log since the start."""
        traffic = self._desk.traffic
        count, size = traffic.stored_messages, self._desk.store.stored_end - self._booted_log_end
        return {
            "putMessageTimesTotal": count,
            "putMessageSizeTotal": size,
            "putMessageAverageSize": round(size / count, 2) if count else 0.0,
            "putMessageEntireTimeMax": traffic.longest_put_ms,
            "putMessageDistributeTime": traffic.put_times_text(),
            "getMessageEntireTimeMax": traffic.longest_read_ms,
        }

    def _queues(self) -> dict[str, object]:
        """Return the figures of upstream's thread pools and timer.

        The gateway has no queues before thread pools, so their sizes and waiting times are 0. Timer messages enter the
        timer at once.
        """
        waiting = {
            f"{kind}ThreadPoolQueue{figure}": value
            for kind, capacity in QUEUE_CAPACITIES.items()
            for figure, value in (("Size", 0), ("HeadWaitTimeMills", 0), ("Capacity", capacity))
        }
        timers = self._desk.timers
        timer: dict[str, object] = {
            "timerReadBehind": 0 if timers is None else timers.behind_ms // 1_000,
            "timerOffsetBehind": 0,
            "timerCongestNum": 0 if timers is None else timers.waiting,
            "timerEnqueueTps": self._desk.throughput.rate(lambda t: t.timers_entered),
            "timerDequeueTps": self._desk.throughput.rate(lambda t: t.timers_delivered),
        }
        others = {"EndTransactionQueueSize": 0, "pageCacheLockTimeMills": 0, "dispatchMaxBuffer": 0}
        return {**waiting, **timer, **others, "remainTransientStoreBufferNumbs": NO_POOL}


def _duration(elapsed_ms: int) -> str:
    minutes, seconds = divmod(elapsed_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _disk_ratio(directory: Path) -> float:
    """Return the part of the disk that is in use, 0 to 1; -1 if the disk cannot be measured."""
    try:
        usage = disk_usage(directory)
    except OSError:
        return -1.0
    return round(usage.used / usage.total, 4) if usage.total else -1.0


def _capacity(directory: Path) -> str:
    try:
        usage = disk_usage(directory)
    except OSError:
        return "unknown"
    return f"Total : {usage.total >> 30} GiB, Free : {usage.free >> 30} GiB."


FILE_NAME = "storeId.json"


def store_identity(file: JsonFile, make: Callable[[], str]) -> str:
    """Return the identity of the store, which distinguishes it from another store in its place.

    The identity is written when it is first needed, beside the tables. Readers that remember offsets (checkpoints of
    the Spark source) see it in the broker's runtime information. Upstream has no identity: there, readers notice
    another store only if its queues are shorter.

    :param make: returns a new identity.
    :raises GatewayError: the file exists and cannot be read.
    :raises OSError: the file cannot be written.
    """
    known = file.load(_parse)
    if known is not None:
        return known
    made = make()
    file.write(msgspec.json.encode({"storeId": made}))
    return made


def _parse(content: bytes) -> str:
    try:
        return msgspec.json.decode(content, type=dict[str, str])["storeId"]
    except (msgspec.MsgspecError, KeyError) as error:
        raise BodyError(f"no storeId: {error}") from error
