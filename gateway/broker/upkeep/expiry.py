"""Deletion of expired messages, round by round; steps that may block run in threads.

``gateway.store.space.retention`` decides what is deleted, and ``gateway.store.space.deletion`` has the steps. Only
their order is here, with the pause between two files, and the rounds that an operator asked for. The pause is needed
because deleting a file of a gigabyte takes a while on some file systems, and the log is on the same disk.
"""

from __future__ import annotations

from dataclasses import replace

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater

from gateway.clock import Milliseconds
from gateway.in_thread import InThread
from gateway.reactor.thread_result import thread_result
from gateway.store.message_store import MessageStore

ASKED_ROUNDS = 20
"""The number of rounds that one DELETE_EXPIRED_COMMITLOG grants.

Upstream: ``DefaultMessageStore.executeDeleteFilesManually``.
"""

QUEUES_AT_ONCE = 2_000
"""The number of queues whose start is moved in one turn of the reactor; requests are answered in between."""


class Expiry:
    """Rounds of deletion, which never overlap.

    :param pause_ms: the pause after the deletion of a commit log file, in milliseconds.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        clock_ms: Milliseconds,
        reactor: IReactorTime,
        in_thread: InThread,
        pause_ms: int,
    ) -> None:
        self._store = store
        self._clock_ms = clock_ms
        self._reactor = reactor
        self._in_thread = in_thread
        self._pause_ms = pause_ms
        self._asked_rounds = 0
        self._pause: tuple[IDelayedCall, Deferred[None]] | None = None
        self._hurries = False

    def ask(self) -> None:
        """Grant an operator's wish for space: the next rounds do not wait for the hour of deletion."""
        self._asked_rounds = ASKED_ROUNDS

    def hurry(self) -> None:
        """End the pause and skip later pauses, because the broker stops.

        The log file that is being deleted is the last one of the round.
        """
        self._hurries = True
        if self._pause is not None:
            call, waiting = self._pause
            self._pause = None
            call.cancel()
            waiting.callback(None)

    async def round(self) -> None:
        """Measure the disk, and delete what has expired."""
        store, deletion = self._store, self._store.deletion
        asked = self._asked_rounds > 0
        if asked:
            self._asked_rounds -= 1
        survey = await thread_result(self._in_thread, deletion.survey(self._clock_ms(), asked=asked))
        store.look_at_space(survey)
        if deletion.still_holds(survey):
            for first in range(0, len(survey.minima), QUEUES_AT_ONCE):
                if first:
                    await deferLater(self._reactor, 0)
                deletion.begin_queues(survey.minima[first : first + QUEUES_AT_ONCE])
            deletion.detach(replace(survey, minima=()))
        # Also what an earlier round could not remove.
        while deletion.has_log_files and not self._hurries:
            if not await thread_result(self._in_thread, lambda: deletion.remove_log_file(self._clock_ms())):
                break
            await self._wait()
        await self.remove_other_files()
        if survey.files:
            store.look_at_space(await thread_result(self._in_thread, deletion.look))

    async def remove_other_files(self) -> None:
        """Remove queue and index files that refer only to deleted messages."""
        if self._store.deletion.has_other_files:
            await thread_result(self._in_thread, self._store.deletion.remove_other_files)

    async def _wait(self) -> None:
        if not self._hurries:
            waiting: Deferred[None] = Deferred()
            self._pause = self._reactor.callLater(self._pause_ms / 1000, self._resume), waiting
            await waiting

    def _resume(self) -> None:
        assert self._pause is not None, "called once for each pause"
        _, waiting = self._pause
        self._pause = None
        waiting.callback(None)
