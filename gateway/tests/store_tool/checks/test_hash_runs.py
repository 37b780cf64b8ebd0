"""Runs of one hash are found where they are, and nowhere else."""

from __future__ import annotations

from array import array

import pytest

from gateway.store_tool.checks.hash_runs import REPEATED, hash_runs


@pytest.mark.parametrize("before", [0, 1, 63, 64, 200])
@pytest.mark.parametrize("length", [2 * REPEATED, 300, 1000])
def test_a_run_is_found_with_both_its_ends(before: int, length: int) -> None:
    hashes = array("i", [*range(1, before + 1), *[-7] * length, *range(1, 100)])
    assert hash_runs(hashes) == [(before, before + length)]


def test_runs_of_several_hashes_are_in_order() -> None:
    hashes = array("i", [5] * 200 + [6] * 200 + [*range(100)] + [5] * 200)
    assert hash_runs(hashes) == [(0, 200), (200, 400), (500, 700)]


@pytest.mark.parametrize("hashes", [[], [1], [1] * (REPEATED - 1), [*range(500)], [1, 1, 2, 2] * 200])
def test_short_runs_are_left_alone(hashes: list[int]) -> None:
    assert hash_runs(array("i", hashes)) == []


def test_bytes_that_look_like_a_hash_between_two_others_are_none() -> None:
    # 0x01000000 and 0x00000001 in a row hold the other one's bytes, whatever the byte order
    hashes = array("i", [0x00010001, 0x00010001] + [0x01000100] * 200)
    assert hash_runs(hashes) == [(2, 202)]
