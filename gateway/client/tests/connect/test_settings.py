import pytest

from gateway.client.connect.producer_settings import ProducerSettings
from gateway.client.connect.settings import ClientSettings
from gateway.client.errors import ConfigurationError


def test_defaults_are_those_of_the_java_client() -> None:
    settings = ProducerSettings()
    assert settings.send_msg_timeout == 3.0
    assert settings.retry_times_when_send_failed == 2
    assert settings.compress_msg_body_over == 4096
    assert settings.max_message_size == 4 * 1024 * 1024
    assert settings.heartbeat_broker_interval == 30.0
    assert settings.poll_name_server_interval == 30.0
    assert settings.default_topic_queue_nums == 4


@pytest.mark.parametrize(
    ("namesrv", "addresses"),
    [
        ("a:9876", ("a:9876",)),
        ("a:9876;b:9876", ("a:9876", "b:9876")),
        (" a:9876 ; ", ("a:9876",)),
        ("a:9876,b:9876", ("a:9876", "b:9876")),
        (["a:9876", "b:9876"], ("a:9876", "b:9876")),
        ("http://a:9876", ("a:9876",)),
        ("[::1]:9876", ("[::1]:9876",)),
        ("", ()),
    ],
)
def test_name_servers_are_read_as_java_writes_them(namesrv: str | list[str], addresses: tuple[str, ...]) -> None:
    assert ClientSettings(namesrv=namesrv).name_servers == addresses


@pytest.mark.parametrize("namesrv", ["a", "a:", "a:0", "a:70000", "a b:9876", ":9876"])
def test_an_address_that_cannot_work_is_refused(namesrv: str) -> None:
    with pytest.raises(ConfigurationError, match="host:9876"):
        ClientSettings(namesrv=namesrv)


@pytest.mark.parametrize(
    ("key", "value", "limit"),
    [
        ("send_msg_timeout", 0.0, "from 0.001 to 600"),
        ("send_msg_timeout", float("nan"), "from 0.001 to 600"),
        ("send_msg_timeout", "3", "a number"),
        ("retry_times_when_send_failed", -1, "a whole number from 0 to 100"),
        ("retry_times_when_send_failed", 1.5, "a whole number"),
        ("max_in_flight", 0, "from 1"),
        ("max_in_flight", True, "a whole number"),
        ("compress_type", "gzip", "none, zlib, lz4, zstd"),
        ("heartbeat_broker_interval", 90, "to 60"),
        ("compress_msg_body_over", 0, "at least 1"),
    ],
)
def test_a_value_out_of_range_names_key_value_and_limit(key: str, value: object, limit: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ProducerSettings(**{key: value})  # type: ignore[arg-type]
    assert caught.value.key == key
    assert limit in str(caught.value)
    assert repr(value) in str(caught.value)


def test_one_key_without_the_other_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="secret_key"):
        ClientSettings(access_key="who")


def test_secrets_are_not_shown() -> None:
    assert "hush" not in repr(ClientSettings(access_key="who", secret_key="hush", security_token="hush too"))


def test_only_what_differs_from_the_defaults_is_shown() -> None:
    assert repr(ProducerSettings(max_in_flight=5, namesrv="a:9876")) == (
        "ProducerSettings(namesrv='a:9876', max_in_flight=5)"
    )
    assert repr(ClientSettings(address_map={})) == "ClientSettings()"


def test_settings_are_equal_that_say_the_same_of_the_same_client() -> None:
    assert ProducerSettings(max_in_flight=5) == ProducerSettings(max_in_flight=5)
    assert ProducerSettings(max_in_flight=5) != ProducerSettings(max_in_flight=6)
    assert ProducerSettings() != ClientSettings()


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        ProducerSettings().max_in_flight = 6  # type: ignore[misc]


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "a:9876;b:9876")
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "who")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "hush")
    monkeypatch.setenv("ROCKETMQ_TLS", "TRUE")
    settings = ProducerSettings.from_env(send_msg_timeout=5)
    assert settings.name_servers == ("a:9876", "b:9876")
    assert (settings.access_key, settings.secret_key, settings.tls) == ("who", "hush", True)
    assert settings.send_msg_timeout == 5


def test_a_variable_that_neither_asks_for_tls_nor_against_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETMQ_TLS", "1")
    with pytest.raises(ConfigurationError, match="ROCKETMQ_TLS is '1'; it must be true or false"):
        ProducerSettings.from_env()
    monkeypatch.setenv("ROCKETMQ_TLS", "False")
    assert ProducerSettings.from_env().tls is False


def test_what_the_caller_says_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "a:9876")
    assert ClientSettings.from_env(namesrv="c:9876").name_servers == ("c:9876",)


def test_changed_settings_are_checked_too() -> None:
    settings = ProducerSettings(namesrv="a:9876")
    assert settings.with_changes(max_in_flight=5).max_in_flight == 5
    with pytest.raises(ConfigurationError):
        settings.with_changes(max_in_flight=0)


def test_a_target_of_the_address_map_is_checked() -> None:
    with pytest.raises(ConfigurationError, match="address_map"):
        ClientSettings(address_map={"10.0.0.1:10911": "localhost"})


@pytest.mark.parametrize("given", ["localhost:9876", ClientSettings(), {"namesrv": "localhost:9876"}])
def test_what_are_no_settings_of_such_a_client_is_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match=r"it must be ProducerSettings\(…\).*namesrv="):
        ProducerSettings.chosen(given, None)  # type: ignore[arg-type]
