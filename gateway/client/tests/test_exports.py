"""What `import gateway.client` gives, and what it must not load."""

import inspect
import subprocess
import sys

import pytest

import gateway.client
from gateway.client import aio

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


@pytest.mark.parametrize("name", aio.__all__)
def test_both_faces_have_the_same_methods(name: str) -> None:
    blocking, asynchronous = getattr(gateway.client, name), getattr(aio, name)
    public = {method for method, _ in inspect.getmembers(blocking, inspect.isfunction) if not method.startswith("_")}
    missing = public - set(dir(asynchronous))
    assert not missing, "the blocking face has methods that the other one lacks"


def test_all_names_are_listed() -> None:
    assert set(gateway.client.__all__) <= set(dir(gateway.client))
