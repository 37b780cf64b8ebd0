"""The names that `import gateway.client` gives, and the modules that it must not load."""

import inspect
import subprocess
import sys
from collections.abc import Callable

import pytest

import gateway.client
from gateway.client import aio
from gateway.client.admin.admin_cluster import AdminCluster
from gateway.client.admin.admin_groups import AdminGroups
from gateway.client.admin.admin_messages import AdminMessages
from gateway.client.admin.admin_offsets import AdminOffsets
from gateway.client.admin.admin_topics import AdminTopics
from gateway.client.blocking import admin

FORBIDDEN = ("twisted", "zope", "gateway.broker", "gateway.store", "gateway.remoting", "gateway.cli")


def _loaded_by(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_importing_the_client_loads_no_server_and_not_even_asyncio() -> None:
    loaded = _loaded_by("import gateway.client")
    assert not loaded & {*FORBIDDEN, "asyncio", "ssl", "wire"}


def test_using_a_producer_loads_no_server() -> None:
    loaded = _loaded_by("from gateway.client import Producer, Message, aio; aio.Producer")
    assert not loaded & set(FORBIDDEN)
    assert not loaded & {"lz4", "zstandard", "opentelemetry"}


@pytest.mark.parametrize("name", [name for name in gateway.client.__all__ if name != "aio"])
def test_every_public_name_is_there(name: str) -> None:
    value = getattr(gateway.client, name)
    assert inspect.isclass(value)
    assert value.__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = gateway.client.Nonsense
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = aio.Nonsense


ADMIN_PARTS = [
    (admin.BlockingTopics, AdminTopics),
    (admin.BlockingGroups, AdminGroups),
    (admin.BlockingOffsets, AdminOffsets),
    (admin.BlockingMessages, AdminMessages),
    (admin.BlockingCluster, AdminCluster),
]
# What the asyncio classes answer to the rest of the package, not to applications.
INTERNAL = {"answers", "consumer_data", "producer_data", "route_changed", "topics", "subscriptions", "properties"} | {
    "drop",
    "options",
    "executed",
    "execute_of_listener",
}


def methods(cls: type) -> dict[str, Callable[..., object]]:
    return {name: method for name, method in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("blocking", "asynchronous"),
    [*((getattr(gateway.client, name), getattr(aio, name)) for name in aio.__all__), *ADMIN_PARTS],
)
def test_both_faces_have_the_same_methods_with_the_same_parameters(blocking: type, asynchronous: type) -> None:
    ours, theirs = methods(blocking), methods(asynchronous)
    internal = INTERNAL if hasattr(asynchronous, "start") else set()
    assert set(ours) == set(theirs) - internal
    for name in set(ours) - {"close"}:  # its default is each class's own
        mine, other = (inspect.signature(method).parameters for method in (ours[name], theirs[name]))
        assert [(part.name, part.kind, part.default) for part in mine.values()] == [
            (part.name, part.kind, part.default) for part in other.values()
        ], name


def test_all_names_are_listed() -> None:
    assert set(gateway.client.__all__) <= set(dir(gateway.client))
