"""What is tried of each API with the keys of an account that has the rights to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from compat_tests import scenarios
from compat_tests.access.stands import EVERYWHERE, AccountScene, Stand
from compat_tests.client_program import ClientProgram
from compat_tests.python_program import PythonProgram
from compat_tests.scenarios import run_name

MESSAGES = 100
TRANSACTIONS = 30
Scenario = Callable[[AccountScene], object]


def pushed(scene: AccountScene) -> None:
    topic = scene.topic()
    scenarios.send_all(scene, topic, "send-sync")
    scenarios.receive_all(scene, topic, "consume-push")


def polled(scene: AccountScene) -> None:
    topic = scene.topic()
    scenarios.send_all(scene, topic, "send-async")
    scenarios.receive_all(scene, topic, "consume-lite-pull")


def pulled(scene: AccountScene) -> None:
    topic = scene.topic()
    scenarios.send_all(scene, topic, "send-batch", batch=20)
    scenarios.send_all(scene, topic, "send-oneway")
    got = scene.run("consume-pull", topic=topic, run=run_name(topic), group=f"g_{topic}", count=scene.messages)
    assert got["received"] == scene.messages, str(got)


def ordered(scene: AccountScene) -> None:
    topic = scene.topic()
    scenarios.send_all(scene, topic, "send-orderly", shards=4, threads=4)
    got = scenarios.receive_all(scene, topic, "consume-orderly", shards=4)
    assert got["order_breaks"] == 0, str(got)


def transacted(scene: AccountScene) -> None:
    scenarios.transactions_by_thirds(scene, TRANSACTIONS)


def answered(scene: AccountScene) -> None:
    topic = scene.topic()
    got = scene.run("request", topic=topic, group=f"g_{topic}", count=10, threads=4)
    assert (got["replied"], got["wrong"], got["failed"]) == (10, 0, 0), str(got)


def popped(scene: AccountScene) -> None:
    """The broker shares out the queues to a Java consumer; the simple consumer is there to pop."""
    topic = scene.topic()
    group = f"g_{topic}"
    scenarios.send_all(scene, topic)
    if isinstance(scene.client, PythonProgram):
        scenarios.receive_all(scene, topic, "consume-simple", group=group, skip=50, invisible_ms=8000)
    else:
        scene.stand.let_pop(topic, group)
        scenarios.receive_all(scene, topic, "consume-push", group=group, broker_balances=True)


ALL: tuple[Scenario, ...] = (
    pushed,
    polled,
    pulled,
    ordered,
    transacted,
    scenarios.retried_then_dead,
    answered,
    popped,
)


def _can(stand: Stand, client: ClientProgram, scenario: Scenario) -> bool:
    """A Java client waits up to twenty seconds for the queue of its retries. 4.x does not pop."""
    if scenario is popped:
        return client.version != "4.9.8" and not (stand.is_apache and stand.generation == "1.0")
    return scenario is not scenarios.retried_then_dead or isinstance(client, PythonProgram)


def try_at_once(stand: Stand, clients: Iterable[ClientProgram], tried: Iterable[Scenario]) -> None:
    """Try everything with each client, at once since most of their time is waiting."""
    scenes = [stand.scene(client, EVERYWHERE, MESSAGES) for client in clients]
    wanted = [(each, scene) for scene in scenes for each in tried if _can(stand, scene.client, each)]
    with ThreadPoolExecutor(len(wanted)) as pool:
        begun = [(pool.submit(run, scene), run, scene) for run, scene in wanted]
        for done, run, scene in begun:
            try:
                done.result()
            except Exception as error:
                error.add_note(f"{run.__name__}, client {scene.client.version}")
                raise
