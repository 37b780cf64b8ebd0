"""The pages about the Python client say what is true: their blocks run, against a gateway, and print what they show.

Pages that need more than a gateway have a test of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests import orders_service
from compat_tests.documentation import CLIENT_PAGES, NAME_SERVER, PageRun, blocks_of
from compat_tests.environment import LABEL, owner, wait_until
from compat_tests.images import image
from compat_tests.peers import QUICK
from compat_tests.postgresql_server import PostgresServer
from gateway.client import AdminClient, Message, Producer, RouteNotFound
from gateway.client.testing.server import GatewayServer

PAGES = {page.stem: page for page in CLIENT_PAGES}
WITH_MORE = {"errors", "recipes", "testing-kit"}
WITHOUT_BLOCKS = {"performance", "reference"}


@pytest.fixture
def server() -> Iterator[GatewayServer]:
    with GatewayServer(settings=QUICK) as server:
        yield server


@pytest.mark.parametrize("name", sorted(PAGES.keys() - WITH_MORE - WITHOUT_BLOCKS))
def test_every_block_of_a_page_runs(name: str, server: GatewayServer, tmp_path: Path) -> None:
    PageRun(PAGES[name], tmp_path, {NAME_SERVER: server.nameserver}).run()


def test_the_page_of_errors_with_a_broker_that_advertises_what_nobody_reaches(
    server: GatewayServer, tmp_path: Path
) -> None:
    with GatewayServer(settings={"gateway.advertise": "127.0.0.1:1"}) as unreachable:
        replaced = {
            NAME_SERVER: server.nameserver,
            "mq.example.com:9876": unreachable.nameserver,
            "mq.example.com:10911": unreachable.broker,
        }
        PageRun(PAGES["errors"], tmp_path, replaced).run()


def test_the_tests_on_the_page_about_tests_pass(tmp_path: Path) -> None:
    own_image = f'RocketMQGatewayContainer("{image("gateway")}", labels={{{LABEL!r}: {owner()!r}}}'
    PageRun(PAGES["testing-kit"], tmp_path, {'RocketMQGatewayContainer("rocketmq-gateway"': own_image}).run()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def dsn(database: PostgresServer, request: pytest.FixtureRequest) -> str:
    """Return the address of an empty schema."""
    schema = f"s{abs(hash(request.node.name))}"
    database.execute(f"CREATE SCHEMA {schema}")
    return database.dsn(schema)


@pytest.fixture
def recipes(server: GatewayServer, dsn: str, tmp_path: Path) -> Path:
    """The directory with the files of the recipes; what the page itself runs was run."""
    replaced = {
        NAME_SERVER: server.nameserver,
        "postgresql+psycopg://shop@localhost/shop": dsn.replace("postgresql", "postgresql+psycopg", 1),
    }
    PageRun(PAGES["recipes"], tmp_path, replaced).run()
    return tmp_path


def bodies(admin: AdminClient, topic: str) -> Counter[str]:
    """Return the bodies that consumers can read in a topic."""
    try:
        stats = admin.topics.stats(topic)
    except RouteNotFound:
        return Counter()
    return Counter(
        admin.messages.by_offset(queue, offset).body.decode()
        for queue, holds in stats.items()
        for offset in range(holds.min_offset, holds.max_offset)
    )


def test_a_recipe_is_the_program_that_other_tests_crash() -> None:
    (shown,) = (block for block in blocks_of(PAGES["recipes"].read_text()) if block.file == "orders_service.py")
    tested = Path(orders_service.__file__).read_text().split('"""\n\n', 1)[1]
    assert shown.text == "# orders_service.py\n" + tested


DJANGO = """
import os, queue
import django
from django.conf import settings

databases = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite"}}
settings.configure(INSTALLED_APPS=["shop"], DATABASES=databases, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField")
django.setup()

from django.core.management import call_command
from django.db import transaction
from gateway.client import TransactionState
from shop import orders

call_command("migrate", run_syncdb=True, verbosity=0)
orders.GIVE_UP_AFTER_S = 2
"""
A_WORKER = """
with transaction.atomic():  # as with ATOMIC_REQUESTS
    orders.place("1", "in a request")
try:
    with transaction.atomic():
        orders.place("2", "in a request that failed")
        raise OSError
except OSError:
    pass
with transaction.atomic():
    transaction.on_commit(lambda: os._exit(9))  # before the message's own
    orders.place("3", "committed, then killed")
"""
ANOTHER_WORKER = """
verdicts = queue.SimpleQueue()
check = orders.OrderChecker.check


def noted(self, message):
    state = check(self, message)
    verdicts.put((message.body.decode(), state))
    return state


orders.OrderChecker.check = noted
orders.producer()
decided = {}
while len(decided) < 2:
    body, state = verdicts.get(timeout=30)
    if state is not TransactionState.UNKNOWN:
        decided[body] = state.name
print(decided)
"""


def test_the_django_recipe_keeps_rows_and_messages_together(server: GatewayServer, recipes: Path) -> None:
    assert _run(DJANGO + A_WORKER, recipes, server).returncode == 9
    another = _run(DJANGO + ANOTHER_WORKER, recipes, server)
    decided = {"in a request that failed": "ROLLBACK", "committed, then killed": "COMMIT"}
    assert another.stdout, another.stderr
    assert literal_eval(another.stdout) == decided
    with AdminClient(namesrv=server.nameserver) as admin:
        found = bodies(admin, "orders")
    assert found == Counter(["apples", "7", "in a request", "committed, then killed"])


def test_the_asyncio_recipe_ends_in_order_and_goes_on_where_it_was(
    server: GatewayServer, dsn: str, recipes: Path
) -> None:
    baskets = [f"basket {number}" for number in range(40)]
    environment = {**os.environ, "NAMESRV_ADDR": server.nameserver, "DATABASE": dsn}
    with Producer("shop", namesrv=server.nameserver) as producer, AdminClient(namesrv=server.nameserver) as admin:
        before = bodies(admin, "orders")
        producer.send_batch([Message("baskets", basket.encode(), keys=basket.replace(" ", "-")) for basket in baskets])
        for wanted in (before.total() + 1, before.total() + len(baskets)):
            with subprocess.Popen([sys.executable, "order_service.py"], cwd=recipes, env=environment) as service:
                wait_until(lambda: admin.groups.consumers("order-service") is not None, "the service")
                wait_until(lambda: bodies(admin, "orders").total() >= wanted, f"{wanted} orders")  # noqa: B023
                service.terminate()
            assert service.returncode == 0
        assert bodies(admin, "orders") - before == Counter(baskets)
        assert admin.offsets.lag("order-service", "baskets") == 0


def _run(script: str, directory: Path, server: GatewayServer) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=directory,
        env={**os.environ, "NAMESRV_ADDR": server.nameserver},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
