"""``transactionStateStore=database`` on a real PostgreSQL: the promises of transactions, and its loss and return."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.postgresql_server import PostgresServer
from gateway.errors import RequestRefused
from gateway.store.put_result import PutResult
from gateway.tests.transaction.state_stores.stores import DATABASE, choice, follow
from gateway.tests.transaction.test_transactions import (  # noqa: F401 (pytest runs them here on PostgreSQL)
    test_a_message_whose_outcome_could_not_be_stored_is_checked_again,
    test_an_outcome_that_cannot_be_stored_leaves_the_message_pending,
    test_check_counts_and_due_times_survive_a_crash,
    test_t1_a_second_commit_after_a_restart_stores_nothing,
    test_t2_a_contradicting_outcome_is_refused_counted_and_logged,
    test_t2_an_outcome_after_the_message_was_given_up_is_refused,
    test_t9_a_restart_checks_nothing_that_is_settled,
    test_t11_a_resumed_message_is_still_pending_after_a_restart,
    test_t12_a_lost_commit_is_made_good_by_the_check,
)
from gateway.tests.transaction.world import COMMIT, ROLLBACK, World
from gateway.transaction.state_stores import postgresql
from gateway.transaction.state_stores.database import ForeignDatabase
from gateway.transaction.state_stores.remembered import Remembered
from wire.codes import ResponseCode

LIMIT = 5


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def schema(server: PostgresServer, request: pytest.FixtureRequest) -> str:
    name = "t" + re.sub(r"\W+", "_", request.node.name.lower())[-55:]
    server.execute(f"CREATE SCHEMA {name}")
    return name


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "POOL_TIMEOUT_S", 0.3)
    monkeypatch.setattr(postgresql, "RECONNECT_TIMEOUT_S", 0.5)


@pytest.fixture(autouse=True)
def pools_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Also those that a test leaves behind as a crash does: their own clean-up may run in one of their threads."""
    opened: list[postgresql.PostgresDatabase] = []
    make = postgresql.PostgresDatabase.__init__

    def noted(self: postgresql.PostgresDatabase, *arguments: object) -> None:
        make(self, *arguments)  # type: ignore[arg-type]
        opened.append(self)

    monkeypatch.setattr(postgresql.PostgresDatabase, "__init__", noted)
    yield
    for database in opened:
        database.close()


@pytest.fixture
def world(server: PostgresServer, schema: str, tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, choice=choice(tmp_path, DATABASE, database=server.dsn(schema), limit=LIMIT))
    yield world
    _close(world)


def rows(server: PostgresServer, schema: str) -> list[tuple[object, ...]]:
    return server.execute(f'SELECT "offset", "producerGroup" FROM {schema}.t_transaction ORDER BY 1')


def patient(world: World, seconds: float = 15) -> None:
    """Let the follower try until its database has answered."""
    follower = world.transactions._follower
    assert follower is not None
    for _ in range(round(seconds)):
        world.wait(1)
        if not follower.waiting and follower._batch is None:
            return
    raise AssertionError(f"still waiting: {follower._reason}")


def _close(world: World) -> None:
    follower = world.transactions._follower
    if follower is not None and follower._states is not None:
        follower._states.close()


def restarted(world: World) -> World:
    again = world.restart()
    _close(world)
    return again


def test_pending_half_messages_are_rows_until_they_have_an_outcome(
    world: World, server: PostgresServer, schema: str
) -> None:
    first, second, third = (world.send(f"k{number}", group=f"g{number}") for number in range(3))
    follow(world)
    assert rows(server, schema) == [(0, "g0"), (1, "g1"), (2, "g2")]
    world.end(first, COMMIT, group="g0")
    world.end(second, ROLLBACK, group="g1")
    follow(world)
    assert rows(server, schema) == [(2, "g2")]
    again = restarted(world)
    assert list(again.transactions.pending) == [third.queue_offset]
    _close(again)


def test_half_messages_wait_for_a_lost_database_up_to_a_limit_and_none_is_lost(
    world: World, server: PostgresServer, schema: str
) -> None:
    before = [world.send(f"a{number}") for number in range(3)]
    follow(world)
    server.kill()
    try:
        world.end(before[0], COMMIT)
        while_down = _send_until_refused(world)
        world.end(before[1], ROLLBACK)
        world.end(while_down[0], COMMIT)
        with pytest.raises(RequestRefused, match=r"PostgreSQL database postgres at 127\.0\.0\.1") as refused:
            world.transactions.half_of(world.message("c0"))
    finally:
        server.start()
    assert refused.value.code is ResponseCode.SERVICE_NOT_AVAILABLE
    assert LIMIT <= len(while_down) <= LIMIT + 2
    assert world.finals() == ["a0", "b0"], "outcomes do not wait for the database"
    patient(world)
    pending = [before[2], *while_down[1:]]
    assert rows(server, schema) == [(half.queue_offset, "g") for half in pending]
    world.transactions.half_of(world.message("c1"))  # is taken again


def _send_until_refused(world: World) -> list[PutResult]:
    sent: list[PutResult] = []
    follower = world.transactions._follower
    assert follower is not None
    while follower.refusal is None:
        sent.append(world.send(f"b{len(sent)}"))
        world.wait(1.2)
    return sent


def test_a_start_without_its_database_finds_everything_in_the_log(
    world: World, server: PostgresServer, schema: str
) -> None:
    halves = [world.send(f"k{number}") for number in range(6)]
    follow(world)
    world.end(halves[0], COMMIT)
    world.end(halves[3], ROLLBACK)
    server.kill()
    try:
        again = restarted(world)
        expected = [1, 2, 4, 5]
        assert list(again.transactions.pending) == expected
        again.end(halves[1], COMMIT)
    finally:
        server.start()
    patient(again)
    assert [offset for offset, _ in rows(server, schema)] == [2, 4, 5]
    last = restarted(again)
    assert list(last.transactions.pending) == [2, 4, 5]
    assert last.finals() == ["k0", "k1"]
    _close(last)


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM {0}.t_transaction_progress; DELETE FROM {0}.t_transaction",
        "UPDATE {0}.t_transaction_progress SET sequence = 0; DELETE FROM {0}.t_transaction",
        "DROP TABLE {0}.t_transaction; DROP TABLE {0}.t_transaction_progress",
    ],
)
def test_a_database_that_comes_back_with_other_content_is_told_everything_again(
    world: World, server: PostgresServer, schema: str, harm: str
) -> None:
    for number in range(4):
        world.send(f"k{number}")
    follow(world)
    for statement in harm.format(schema).split(";"):
        server.execute(statement)
    world.send("k4")
    patient(world)
    assert [offset for offset, _ in rows(server, schema)] == [0, 1, 2, 3, 4]


def test_a_connection_that_was_cut_is_replaced(world: World, server: PostgresServer, schema: str) -> None:
    world.send("k0")
    follow(world)
    server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rocketmq-gateway'")
    world.send("k1")
    patient(world)
    assert [offset for offset, _ in rows(server, schema)] == [0, 1]


def test_the_database_of_another_directory_is_refused(
    world: World, server: PostgresServer, schema: str, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    theirs = choice(other, DATABASE, database=server.dsn(schema))
    with pytest.raises(ForeignDatabase, match="holds the transactions of another store directory"):
        theirs.make(DATABASE, Remembered(identity="somebody else")).load(0, 0, 0)  # type: ignore[union-attr]
