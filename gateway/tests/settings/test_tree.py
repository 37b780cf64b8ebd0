"""The tree as a whole: complete, documented, and with Apache's defaults but where we differ on purpose."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from pathlib import Path

import gateway
from gateway.settings import Settings
from gateway.settings.declare import declarations, text_of
from gateway.settings.files.apache_keys import apache_keys

DIFFERS_ON_PURPOSE = {
    "enablePropertyFilter": "a consumer that filters by SQL92 works without a change of the broker",
    "bindAddress": "only this machine, as there is no authentication",
    "flushDiskType": "a message that was answered is on disk",
    "listenPort": "Apache's start scripts set 10911 too",
    "haListenPort": "the port asks for no account, so it opens when somebody asks for it",
    "haTransferBatchSize": "a new slave catches up several times as fast",
    "allAckInSyncStateSet": "a switch loses nothing that was acknowledged",
    "inSyncReplicas": "a SYNC_MASTER waits for a slave",
    "minInSyncReplicas": "nothing is acknowledged by one disk alone",
    "storePathRootDir": "the same place, with the home directory filled in",
    "kvConfigPath": "below the data directory",
    "tls.client.authServer": "a certificate is verified where the authorities are known",
    "tls.enable": "upstream's broker decides by the mode if it is not set",
    "tls.server.authClient": "a certificate that is asked for is verified",
}


def test_every_setting_has_a_key_and_a_sentence_of_its_own() -> None:
    found = declarations(Settings)
    assert len(found) == len(dataclasses.fields(Settings))
    assert all(declaration.sentence.endswith(".") for declaration in found.values())
    repeated = [text for text, count in Counter(one.sentence for one in found.values()).items() if count > 1]
    assert repeated == []


def test_a_key_is_apaches_or_has_our_prefix() -> None:
    ours = {key for key, declaration in declarations(Settings).items() if not declaration.is_own}
    assert ours <= set(apache_keys())


def test_every_key_has_an_environment_variable_of_its_own() -> None:
    names = [declaration.environment for declaration in declarations(Settings).values()]
    assert len(names) == len(set(names))


READ_THROUGH = {
    "tls_own_calls": "calls_with_tls",
    "broker_role": "copies_awaited",
    "ha_flow_control_enable": "most_bytes_in_second",
    "max_ha_transfer_bytes_in_second": "most_bytes_in_second",
    "in_sync_replicas": "copies_awaited",
    "controller_addr": "controller_addresses",
    "advertise": "advertised",
    "broker_ip1": "advertised",
    "namesrv_addr": "name_server_addresses",
    "delete_when": "delete_hours",
    "kv_config_path": "kv_config_file",
    "authentication_enabled": "is_guarded",
    "access_file": "access_json",
    "authentication_whitelist": "open_codes",
    "audit_file": "audit_log",
    "store_path_commit_log": "commit_log_directory",
    "enable_multi_dispatch": "fills_light_queues",
    "mapped_file_size_consume_queue": "consume_queue_file_bytes",
}
"""Settings that others read through a property of the tree."""
DECIDED_AT_START = {"all_ack_in_sync_state_set", "tls_file", "tls_test_mode"}
"""Settings that only accept or refuse a configuration."""


def test_every_setting_has_a_reader() -> None:
    package = Path(gateway.__file__).parent
    paths = [path.relative_to(package) for path in package.rglob("*.py")]
    sources = [package / path for path in paths if not {"tests", "settings"} & set(path.parts)]
    words = {word for path in sources for word in re.findall(r"\w+", path.read_text("utf-8"))}
    attributes = {declaration.attribute for declaration in declarations(Settings).values()}
    unread = {one for one in attributes - DECIDED_AT_START if READ_THROUGH.get(one, one) not in words}
    assert unread == set()


def test_every_default_is_in_its_own_range() -> None:
    settings = Settings()
    for declaration in declarations(Settings).values():
        value = getattr(settings, declaration.attribute)
        assert declaration.read(text_of(value)) == value


def test_defaults_are_apaches_but_where_we_say_why() -> None:
    settings = Settings()
    different = {
        key
        for key, declaration in declarations(Settings).items()
        if not declaration.is_own
        and apache_keys()[key].default
        and text_of(getattr(settings, declaration.attribute)) != apache_keys()[key].default
    }
    assert different == set(DIFFERS_ON_PURPOSE)


def test_the_key_value_file_is_below_the_data_directory_unless_set() -> None:
    settings = Settings(store_path_root_dir=Path("/data"))
    assert settings.kv_config_file == Path("/data/namesrv/kvConfig.json")
    assert Settings(kv_config_path="$HOME/kv.json").kv_config_file == Path.home() / "kv.json"
