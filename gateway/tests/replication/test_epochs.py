"""Epochs: what a promotion, a master's word and a cut make of them, and up to where two logs may be equal."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import GatewayError
from gateway.replication.epoch_file import NAME, EpochFile
from gateway.replication.epochs import Epochs, EpochTooOld
from wire.disk.epoch_file import EpochEntry


def epochs(*pairs: tuple[int, int]) -> Epochs:
    return Epochs(tuple(EpochEntry(*pair) for pair in pairs))


@pytest.mark.parametrize(
    ("before", "epoch", "end", "after"),
    [
        (epochs(), 1, 0, epochs((1, 0))),
        (epochs((1, 0)), 2, 500, epochs((1, 0), (2, 500))),
        (epochs((1, 0)), 2, 0, epochs((2, 0))),
        (epochs((1, 0), (2, 500)), 3, 500, epochs((1, 0), (3, 500))),
        (epochs((1, 0), (2, 500), (3, 700)), 7, 400, epochs((1, 0), (7, 400))),
        (epochs((1, 0), (5, 500)), 5, 500, epochs((1, 0), (5, 500))),
    ],
)
def test_a_promotion_drops_epochs_in_which_nothing_was_written(
    before: Epochs, epoch: int, end: int, after: Epochs
) -> None:
    assert before.promoted(epoch, end) == after


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_promotion_to_an_epoch_that_the_log_has_is_refused(epoch: int) -> None:
    with pytest.raises(EpochTooOld, match="the log has epoch 2 from 500 on"):
        epochs((1, 0), (2, 500)).promoted(epoch, 900)


@pytest.mark.parametrize(
    ("before", "told", "after"),
    [
        (epochs(), (1, 0), epochs((1, 0))),
        (epochs((1, 0)), (1, 0), epochs((1, 0))),
        (epochs((1, 0)), (2, 500), epochs((1, 0), (2, 500))),
        (epochs((1, 0)), (2, 0), epochs((2, 0))),
        (epochs((1, 0), (2, 500)), (3, 500), epochs((1, 0), (3, 500))),
        (epochs((1, 0), (2, 500)), (1, 0), epochs((1, 0))),
        (epochs((2, 0)), (1, 600), epochs((1, 600))),
    ],
)
def test_a_slave_takes_the_epochs_of_its_master(before: Epochs, told: tuple[int, int], after: Epochs) -> None:
    assert before.followed(EpochEntry(*told)) == after


def test_cuts_take_away_the_epochs_of_what_is_gone() -> None:
    whole = epochs((1, 0), (2, 500), (3, 700))
    assert whole.without_from(700) == epochs((1, 0), (2, 500))
    assert whole.without_from(701) == whole
    assert whole.without_from(0) == epochs()
    assert whole.without_before(499) == whole
    assert whole.without_before(500) == epochs((2, 500), (3, 700))
    assert whole.without_before(10_000) == epochs((3, 700))


def test_each_byte_has_an_epoch() -> None:
    whole = epochs((1, 100), (2, 500))
    assert [whole.at(offset) for offset in (99, 100, 499, 500)] == [None, (1, 100), (1, 100), (2, 500)]
    assert [whole.end_at(offset) for offset in (99, 100, 499, 500)] == [100, 500, 500, None]


@pytest.mark.parametrize(
    ("ours", "end", "theirs", "their_end", "common"),
    [
        (epochs((1, 0)), 300, epochs((1, 0)), 200, 200),
        (epochs((1, 0)), 200, epochs((1, 0)), 300, 200),
        (epochs((1, 0)), 1205, epochs((1, 0), (2, 723)), 1205, 723),  # the captured rejoin
        (epochs((1, 0), (2, 500)), 900, epochs((1, 0), (3, 400)), 900, 400),
        (epochs((1, 0), (2, 500)), 900, epochs((1, 0), (2, 500), (3, 800)), 900, 800),
        (epochs((1, 0), (2, 500)), 900, epochs((1, 0), (2, 600)), 900, 500),
        (epochs((2, 0)), 900, epochs((1, 0)), 900, None),
        (epochs(), 900, epochs((1, 0)), 900, None),
        (epochs((1, 0), (2, 500)), 400, epochs((1, 0), (2, 500)), 900, 400),
    ],
)
def test_two_logs_may_be_equal_up_to_the_end_of_the_last_common_epoch(
    ours: Epochs, end: int, theirs: Epochs, their_end: int, common: int | None
) -> None:
    assert ours.common_end(end, theirs.entries, their_end) == common
    assert theirs.common_end(their_end, ours.entries, end) == common


@given(st.integers(0, 1 << 30))
def test_whatever_masters_did_epochs_never_cut_away_what_is_equal(seed: int) -> None:
    """Logs are lists whose items name the epoch in which they were written; the item's number is its offset."""
    random = Random(seed)
    logs: list[list[tuple[int, int]]] = [[], []]
    known = [Epochs(), Epochs()]
    for epoch in range(1, 6):
        master = random.randrange(2)
        known[master] = known[master].promoted(epoch, len(logs[master]))
        logs[master] += [(epoch, number) for number in range(random.randrange(4))]
        if random.random() < 0.6:  # the other one follows, up to anywhere
            slave = 1 - master
            cut = known[slave].common_end(len(logs[slave]), known[master].entries, len(logs[master]))
            equal = next(
                (at for at, pair in enumerate(zip(*logs, strict=False)) if pair[0] != pair[1]), min(map(len, logs))
            )
            assert (cut or 0) == equal
            logs[slave] = logs[slave][: cut or 0]
            known[slave] = known[slave].without_from(len(logs[slave]))
            for offset in range(len(logs[slave]), random.randrange(len(logs[slave]), len(logs[master]) + 1)):
                entry = known[master].at(offset)
                assert entry is not None
                known[slave] = known[slave].followed(entry)
                logs[slave].append(logs[master][offset])


# --- the file ----------------------------------------------------------------------------------------------------


def test_the_file_keeps_epochs_and_the_content_before(tmp_path: Path) -> None:
    file = EpochFile(tmp_path)
    assert file.load() == epochs()
    file.keep(epochs((1, 0)))
    file.keep(epochs((1, 0), (2, 723)))
    assert EpochFile(tmp_path).load() == epochs((1, 0), (2, 723))
    assert (tmp_path / f"{NAME}.bak").read_bytes() == b"1\n1725254278\n1-0\n"


def test_a_damaged_file_is_replaced_by_its_backup_and_two_damaged_ones_are_refused(tmp_path: Path) -> None:
    file = EpochFile(tmp_path)
    file.keep(epochs((1, 0)))
    file.keep(epochs((1, 0), (2, 723)))
    (tmp_path / NAME).write_bytes(b"2\n5\n1-0\n2-723\n")
    assert EpochFile(tmp_path).load() == epochs((1, 0))
    (tmp_path / f"{NAME}.bak").write_bytes(b"nonsense")
    with pytest.raises(GatewayError, match=r"epochFileCheckpoint\.bak"):
        EpochFile(tmp_path).load()
