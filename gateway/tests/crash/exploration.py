"""Plays workloads, cuts the power at every change of their disks' logs, and has the oracle judge what is left.

For each cut: the kill of the process, three plain losses, and some drawn ones. Equal images are judged once for the
same facts. Of some recovered images the power is cut again, at a change that recovery itself made. Seed and workload
decide everything; ``Finding`` names the one image that broke a promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from random import Random

from gateway.store.put_result import PutResult
from gateway.tests.crash.disk.image import Choice, Crash, Moment
from gateway.tests.crash.disk.recording import Image
from gateway.tests.crash.ledger import Ledger
from gateway.tests.crash.messages import QUEUES, message
from gateway.tests.crash.oracle import Oracle, Recovered, Violation, Visible, read_all, rebased, recover
from gateway.tests.crash.run import Life, Run
from gateway.tests.crash.small_broker import START_MS
from gateway.tests.crash.workload import Workload

DRAWN = 3
"""Images drawn at each cut besides the plain ones."""
AGAIN_PERCENT = 25
"""Of the images, how many have the power cut a second time, and how many are asked for outcomes again."""
GO_ON_PERCENT = 50
"""Of recovered images that have the power cut afterwards, how many take a message before."""
LAST_CHANGES = 12
LAST_NUMBER = 99_999
"""Of messages: that of those sent to recovered images."""
FRESH = Image({}, {"/": 0, "/data": 0})
"""The disk of a new broker: the directory above its own exists."""


class Finding(Exception):  # noqa: N818 (what the search is for)
    """An image that breaks a promise: what, where, and how to see it again."""

    def __init__(self, violation: Violation, workload: str, seed: int, images: int, story: list[str]) -> None:
        lines = [f"{workload}, seed {seed}, image {images}: {violation}", *story]
        lines.append(f"again: python -m gateway.tests.crash --workload {workload} --seed {seed} --rounds 1")
        super().__init__("\n".join(lines))
        self.violation = violation
        self.images = images


@dataclass(slots=True)
class Progress:
    """Counts of one exploration."""

    images: int = 0
    again: int = 0
    changes: int = 0
    lives: int = 0


class Exploration:
    """One workload with one seed.

    :param images: about how many images to judge at most, spread over the whole of each life; None for all.
    """

    def __init__(self, workload: Workload, seed: int, *, images: int | None = None) -> None:
        self._workload = workload
        self._seed = seed
        self._images = images
        self.progress = Progress()

    def run(self, told: Callable[[Progress], None] | None = None) -> Progress:
        """Explore.

        :raises Finding: a promise is broken.
        """
        image, ledger = FRESH, Ledger(START_MS)
        number = 0
        for count in range(self._workload.lives):
            random = Random(f"{self._seed} {self._workload.name} {count}")
            run = Run(self._workload, image, deepcopy(ledger), random, number)
            life = run.play()
            number = run.number
            self.progress.lives += 1
            image, ledger = self._explore(life, count, random)
            if told is not None:
                told(self.progress)
        return self.progress

    def _explore(self, life: Life, count: int, random: Random) -> tuple[Image, Ledger]:
        """Judge a life's images; returns one of its end, for the next life, and what is promised then."""
        judged: set[tuple[int, int]] = set()
        moment = Moment(life.image)
        ledger, facts = deepcopy(life.ledger), 0
        keep = self._kept_part(len(life.changes))
        for cut in range(len(life.changes) + 1):
            if cut:
                moment.pass_over(life.changes[cut - 1])
                self.progress.changes += 1
            while facts < len(life.facts) and life.facts[facts][0] <= cut:
                life.facts[facts][1](ledger)
                facts += 1
            for crash, name in _crashes(moment):
                dice = Random(f"{self._seed} {count} {cut} {name}")
                if dice.random() >= keep:
                    continue
                choice = moment.choice(crash, dice)
                image = moment.image(choice)
                key = image.fingerprint(), facts
                if key not in judged:
                    judged.add(key)
                    cutting = _Cut(life, cut, moment, choice, crash)
                    self._judge(cutting, image, ledger, dice)
        crash = random.choice((Crash.KILL, Crash.NOTHING, Crash.SOME, Crash.SOME))
        choice = moment.choice(crash, random)
        image = moment.image(choice)
        self._judge(_Cut(life, len(life.changes), moment, choice, crash), image, ledger, random)
        return image, rebased(recover(image, ledger.now_ms, self._workload.settings, self._workload.states), ledger)

    def _kept_part(self, changes: int) -> float:
        if self._images is None:
            return 1.0
        return self._images / self._workload.lives / max(1, changes * 2)

    # --- judging -------------------------------------------------------------------------------------------------

    def _judge(self, cutting: _Cut, image: Image, ledger: Ledger, dice: Random) -> None:
        self.progress.images += 1
        try:
            found = self._check(image, ledger, cutting.is_kill, dice)
        except Violation as violation:
            self._report(violation, cutting, ledger)
        if dice.random() * 100 < AGAIN_PERCENT:
            self.progress.again += 1
            self.progress.images += 1
            try:
                self._cut_again(found, image, ledger, cutting.is_kill, dice)
            except Violation as violation:
                raise self._finding(violation, cutting, cutting.choice) from None

    def _check(self, image: Image, ledger: Ledger, is_kill: bool, dice: Random) -> Recovered:
        found = recover(image, ledger.now_ms, self._workload.settings, self._workload.states)
        oracle = Oracle(ledger, self._workload.settings, kill=is_kill)
        oracle.check(found, dice)
        if ledger.timers:
            oracle.deliver_all(recover(image, ledger.now_ms, self._workload.settings, self._workload.states))
        return found

    def _cut_again(self, found: Recovered, image: Image, ledger: Ledger, is_kill: bool, dice: Random) -> None:
        """Cut the power while, or after, the image was recovered."""
        changes = found.broker.files.changes
        whole = dice.random() < 0.5
        shown = [found.visible]
        if whole and dice.random() * 100 < GO_ON_PERCENT:
            shown = self._go_on(found, ledger, dice)
        cut = len(changes) if whole else dice.randint(0, len(changes))
        moment = Moment(image)
        for change in changes[:cut]:
            moment.pass_over(change)
        crash = dice.choice((Crash.KILL, Crash.NOTHING, Crash.NAMES, Crash.BYTES, Crash.SOME, Crash.SOME))
        choice = moment.choice(crash, dice)
        try:
            again = self._check(moment.image(choice), ledger, is_kill, dice)
            allowed = shown[-1:] if crash is Crash.KILL or self._workload.settings.sync_flush else shown
            if whole and again.visible not in allowed:
                raise Violation("the second recovery shows something else than the first")
            if dice.random() < 0.5:
                Oracle(ledger, self._workload.settings, kill=is_kill).ask_again(again, dice)
        except Violation as violation:
            lost = [f"    lost: {line}" for line in moment.losses(choice)]
            story = [f"{violation}; cut again after {cut} of {len(changes)} changes of the recovery ({crash.value})"]
            story += [f"    {change}" for change in changes[max(0, cut - LAST_CHANGES) : cut]]
            raise Violation("\n".join([*story, *lost])) from None

    def _go_on(self, found: Recovered, ledger: Ledger, dice: Random) -> list[Visible]:
        """Send one message to a recovered broker; what it shows before and after."""
        broker, queue = found.broker, dice.choice(QUEUES)
        sent = message(self._workload, queue, LAST_NUMBER, ledger.now_ms, dice)
        ledger.allow(queue, sent.body)
        results: list[PutResult] = []
        broker.store.append(sent, results.append)
        broker.threads.run()
        if not results or not results[0].status.is_stored:
            raise Violation(f"a recovered broker takes no message: {results}")
        return [found.visible, replace(found, seen=read_all(broker.store)).visible]

    # --- reporting -----------------------------------------------------------------------------------------------

    def _report(self, violation: Violation, cutting: _Cut, ledger: Ledger) -> None:
        """Find the fewest losses that still break the promise, and raise."""
        choice = cutting.choice
        is_smaller = True
        while is_smaller:
            is_smaller = False
            for lighter in cutting.moment.lighter(choice):
                try:
                    self._check(cutting.moment.image(lighter), ledger, cutting.is_kill, Random(0))
                except Violation as found:
                    violation, choice, is_smaller = found, lighter, True
                    break
        raise self._finding(violation, cutting, choice)

    def _finding(self, violation: Violation, cutting: _Cut, choice: Choice) -> Finding:
        changes = cutting.life.changes
        story = [f"cut after {cutting.cut} of {len(changes)} changes ({cutting.crash.value}); the last of them:"]
        story += [f"    {change}" for change in changes[max(0, cutting.cut - LAST_CHANGES) : cutting.cut]]
        story += [f"    lost: {line}" for line in cutting.moment.losses(choice)]
        return Finding(violation, self._workload.name, self._seed, self.progress.images, story)


@dataclass(frozen=True, slots=True)
class _Cut:
    """The moment and the kind of the cut of a life."""

    life: Life
    cut: int
    moment: Moment
    choice: Choice
    crash: Crash

    @property
    def is_kill(self) -> bool:
        """Return whether the cut ended the process."""
        return self.crash is Crash.KILL


def _crashes(moment: Moment) -> Iterator[tuple[Crash, str]]:
    yield Crash.KILL, "kill"
    if not moment.is_settled:
        for crash in (Crash.NOTHING, Crash.NAMES, Crash.BYTES):
            yield crash, crash.value
        for number in range(DRAWN):
            yield Crash.SOME, f"some {number}"
