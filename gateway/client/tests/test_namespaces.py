import pytest

from gateway.client.namespaces import with_namespace, without_namespace


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("orders", "ns%orders"),
        ("%RETRY%group", "%RETRY%ns%group"),
        ("%DLQ%group", "%DLQ%ns%group"),
        ("a%b", "ns%a%b"),
    ],
)
def test_names_go_into_a_namespace_and_come_out(name: str, inside: str) -> None:
    assert with_namespace("ns", name) == inside
    assert with_namespace("ns", inside) == inside
    assert without_namespace("ns", inside) == name


@pytest.mark.parametrize("name", ["TBW102", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_x", "CID_RMQ_SYS_x"])
def test_system_names_stay(name: str) -> None:
    assert with_namespace("ns", name) == name


def test_without_a_namespace_nothing_changes() -> None:
    assert with_namespace("", "orders") == "orders"
    assert without_namespace("", "a%b") == "a%b"
    assert without_namespace("other", "ns%orders") == "ns%orders"
