"""Settings whose order matters: made right when one of them is a default, refused when both were set (point 19)."""

from __future__ import annotations

import pytest

from gateway.settings import Settings
from gateway.settings.files.load import Loaded, Role, load_settings
from gateway.settings.files.together import ANY_AGE, INNER_AND_OUTER, OLD, REFUSE, conflict, never_reached


def with_set(*assignments: str, role: Role = Role.SERVE) -> Loaded:
    return load_settings(role, assignments=assignments)


def space(loaded: Loaded) -> tuple[int, int, int]:
    settings = loaded.settings
    return (
        settings.disk_max_used_space_ratio,
        settings.disk_space_clean_forcibly_ratio,
        settings.disk_space_warning_level_ratio,
    )


def test_the_defaults_are_in_order() -> None:
    assert conflict(Settings()) is None
    assert list(never_reached(Settings())) == []
    assert space(with_set()) == (75, 85, 90)


def test_point_19_old_files_are_deleted_before_those_of_any_age() -> None:
    loaded = with_set("diskMaxUsedSpaceRatio=88")
    assert space(loaded) == (88, 89, 90)
    (notice,) = loaded.notices
    assert notice == (
        "diskMaxUsedSpaceRatio=88 (--set) and diskSpaceCleanForciblyRatio=85 (default): files of any age would be "
        "deleted before those that are older than fileReservedTime; diskSpaceCleanForciblyRatio is taken as 89"
    )
    assert loaded.sources["diskSpaceCleanForciblyRatio"] == "follows diskMaxUsedSpaceRatio"


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        ((f"{OLD}=85",), (85, 86, 90)),
        ((f"{OLD}=95",), (95, 96, 96)),
        ((f"{OLD}=98",), (98, 99, 99)),
        ((f"{OLD}=99",), (99, 100, 99)),
        ((f"{OLD}=100",), (100, 100, 90)),
        ((f"{ANY_AGE}=70",), (69, 70, 90)),
        ((f"{ANY_AGE}=10",), (10, 10, 90)),
        ((f"{ANY_AGE}=95",), (75, 95, 95)),
        ((f"{ANY_AGE}=99",), (75, 99, 99)),
        ((f"{ANY_AGE}=100",), (75, 100, 90)),
        ((f"{REFUSE}=80",), (75, 80, 80)),
        ((f"{REFUSE}=50",), (49, 50, 50)),
        ((f"{REFUSE}=80", f"{OLD}=78"), (78, 80, 80)),
        ((f"{OLD}=85", f"{ANY_AGE}=85"), (85, 85, 90)),
        ((f"{REFUSE}=50", "cleanFileForciblyEnable=false"), (50, 85, 50)),
        ((f"{OLD}=88", "cleanFileForciblyEnable=false"), (88, 85, 90)),
        ((f"{OLD}=99", "gateway.diskMeasuredBytes=0"), (99, 85, 90)),
    ],
)
def test_what_nobody_set_follows_what_somebody_set(
    assignments: tuple[str, ...], expected: tuple[int, int, int]
) -> None:
    loaded = with_set(*assignments)
    assert space(loaded) == expected
    changed = [key for key, source in loaded.sources.items() if source.startswith("follows")]
    assert len(changed) == len(loaded.notices)
    told = {assignment.partition("=")[0] for assignment in assignments}
    assert all(any(key in notice for key in told) for notice in loaded.notices)


@pytest.mark.parametrize(
    "assignments",
    [
        (f"{OLD}=88", f"{ANY_AGE}=85"),
        (f"{OLD}=95", f"{REFUSE}=90"),
        (f"{ANY_AGE}=95", f"{REFUSE}=90"),
    ],
)
def test_two_that_were_set_the_wrong_way_round_start_with_a_notice_as_in_apache_rocketmq(
    assignments: tuple[str, ...],
) -> None:
    loaded = with_set(*assignments)
    (notice,) = [notice for notice in loaded.notices if "is taken as" not in notice]
    assert all(f"{assignment} (--set)" in notice for assignment in assignments)
    assert " and " in notice


def test_a_name_server_has_no_disk_to_watch() -> None:
    loaded = with_set("diskMaxUsedSpaceRatio=80", "diskSpaceCleanForciblyRatio=80", role=Role.NAMESERVER)
    assert loaded.notices == ()


@pytest.mark.parametrize(
    ("inner", "assignment"),
    [
        ("gateway.heldPullsPerConnection", "gateway.heldPullsLimit=9999"),
        ("popPollingSize", "maxPopPollingSize=1023"),
        ("gateway.unsentBytesLimit", "gateway.unsentBytesTotal=16777216"),
        ("gateway.connectionBrokersLimit", "gateway.nameserverBrokersLimit=999"),
        ("gateway.registrationTopicsLimit", "gateway.nameserverTopicsLimit=199999"),
        ("gateway.nameserverTopicsLimit", "gateway.nameserverEntriesLimit=499999"),
        ("flushIntervalCommitLog", "flushCommitLogThoroughInterval=499"),
        ("flushIntervalConsumeQueue", "flushConsumeQueueThoroughInterval=999"),
    ],
)
def test_a_limit_that_is_never_reached_is_named_with_the_one_before_it(inner: str, assignment: str) -> None:
    (notice,) = with_set(assignment).notices
    outer = assignment.partition("=")[0]
    assert (inner, outer) in INNER_AND_OUTER
    assert f"{assignment} (--set): {outer} comes first, {inner} has no effect" in notice
    assert notice.startswith(f"{inner}=")
