"""Settings of access control: texts with secrets, lists of codes, and the files that are meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import SettingsError
from gateway.settings import Settings
from gateway.settings.access import CREDENTIALS_MEMBERS, USER_MEMBERS, codes, credentials
from gateway.settings.declare import MASK, declarations
from gateway.settings.files import access_keys
from gateway.settings.files.load import Role, load_settings

PASSWORD = "swordfish"


def test_credentials_are_two_texts_of_an_object_or_of_a_file_with_one(tmp_path: Path) -> None:
    assert credentials("", USER_MEMBERS) is None
    assert credentials('{"username": "a", "password": "b"}', USER_MEMBERS) == ("a", "b")
    file = tmp_path / "keys.json"
    file.write_text('{"accessKey":"a","secretKey":"b","securityToken":"c"}')
    assert credentials(f"file:{file}", CREDENTIALS_MEMBERS) == ("a", "b")


@pytest.mark.parametrize(
    "text",
    [
        PASSWORD,
        f'{{"username": "a", "passwort": "{PASSWORD}"}}',
        f'{{"username": "", "password": "{PASSWORD}"}}',
        f'{{"username": 7, "password": "{PASSWORD}"}}',
        f'["{PASSWORD}"]',
        f'{{"username": "a", "password": ["{PASSWORD}"]}}',
        "[" * 100_000,
        "file:/nowhere/keys.json",
        "file:/",
    ],
)
def test_other_texts_are_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(Role.BROKER, assignments=[f"initAuthenticationUser={text}"])
    assert PASSWORD not in str(refused.value)
    assert "nowhere" not in str(refused.value)
    reason = {"file:/nowhere/keys.json": "No such file or directory", "file:/": "Is a directory"}.get(text, "")
    assert str(refused.value).endswith(
        f"; that file cannot be read: {reason}" if reason else "of a file with that"
    ) or ("both texts that are not empty" in str(refused.value))
    assert '"username"' in str(refused.value)


def test_secrets_are_never_shown() -> None:
    text = f'{{"accessKey": "a", "secretKey": "{PASSWORD}"}}'
    loaded = load_settings(Role.BROKER, assignments=[f"innerClientAuthenticationCredentials={text}"])
    key = "innerClientAuthenticationCredentials"
    assert loaded.settings.inner_client_authentication_credentials == text
    assert declarations(Settings)[key].shown(text) == MASK


def test_white_lists_are_lists_of_codes() -> None:
    assert codes(" 105, 34,,") == {105, 34}
    assert codes("") == frozenset()
    for wrong in ("105;34", "HEART_BEAT", "-1", "1.5", "٣"):
        with pytest.raises(SettingsError, match="request codes separated by commas"):
            load_settings(Role.BROKER, assignments=[f"authenticationWhitelist={wrong}"])


def test_without_a_user_a_request_passes_only_if_its_rights_are_not_judged_either() -> None:
    """Upstream judges the rights of a name that nobody has proved."""
    assignments = ["authenticationEnabled=true", "authenticationWhitelist=34, 310, 10", "authorizationWhitelist=34, 11"]
    loaded = load_settings(Role.BROKER, assignments=assignments)
    assert loaded.settings.open_codes == {10, 34, 310}
    assert list(loaded.notices) == []

    loaded = load_settings(Role.BROKER, assignments=[*assignments, "authorizationEnabled=true"])
    assert loaded.settings.open_codes == {34}
    (notice,) = loaded.notices
    assert notice == (
        "authenticationWhitelist (--set): still needs a user, since rights are judged: 10, 310; add this to "
        "authorizationWhitelist as well"
    )


def test_files_have_a_place_without_being_set(tmp_path: Path) -> None:
    settings = replace(Settings(), store_path_root_dir=tmp_path)
    assert settings.access_json == tmp_path / "config" / "access.json"
    assert settings.audit_log == tmp_path / "audit.jsonl"
    assert replace(settings, access_file="/a.json", audit_file="/b").access_json == Path("/a.json")


def test_the_home_of_apache_is_taken_from_its_variable_unless_it_is_set() -> None:
    environment = {"ROCKETMQ_HOME": "/opt/rocketmq"}
    assert load_settings(Role.NAMESERVER, environment=environment).settings.rocketmq_home == "/opt/rocketmq"
    loaded = load_settings(Role.BROKER, environment=environment, assignments=["rocketmqHome=/srv"])
    assert loaded.settings.rocketmq_home == "/srv"


def test_accounts_lie_beside_the_configuration_if_no_home_and_no_file_is_named(tmp_path: Path) -> None:
    on = replace(Settings(), acl_enable=True)
    file = tmp_path / "broker.conf"
    assert access_keys.beside_configuration(on, file) == tmp_path / "plain_acl.yml"
    for settings in (replace(on, rocketmq_home="/opt"), replace(on, acl_file="/x.yml"), Settings()):
        assert access_keys.beside_configuration(settings, file) is None
    assert access_keys.beside_configuration(on, None) is None
    file.write_text("aclEnable=true\n")
    loaded = load_settings(Role.BROKER, config_file=file)
    assert loaded.settings.acl_file == str(tmp_path / "plain_acl.yml")
    assert loaded.sources["gateway.aclFile"] == f"beside {file}"


@pytest.mark.parametrize(("key", "classes"), sorted(access_keys.STOCK_CLASSES.items()))
def test_the_classes_that_apache_must_be_told_of_are_accepted_and_no_others(key: str, classes: frozenset[str]) -> None:
    assert len(classes) == 2
    for name in classes:
        load_settings(Role.BROKER, assignments=[f"{key}={name}"])
    with pytest.raises(SettingsError, match="loads no Java classes"):
        load_settings(Role.BROKER, assignments=[f"{key}=com.example.Ours"])
    with pytest.raises(SettingsError, match="loads no Java classes"):
        load_settings(Role.BROKER, assignments=[f"{key}=StatefulAuthenticationStrategy"])


def test_the_names_of_stock_classes_are_apaches() -> None:
    stock = {max(classes) for classes in access_keys.STOCK_CLASSES.values()}
    prefix = "org.apache.rocketmq.auth"
    assert f"{prefix}.authentication.provider.DefaultAuthenticationProvider" in stock
    assert f"{prefix}.authorization.provider.LocalAuthorizationMetadataProvider" in stock
    assert f"{prefix}.authentication.strategy.StatelessAuthenticationStrategy" in stock


def test_rights_without_users_and_both_kinds_of_accounts_at_once_are_refused() -> None:
    with pytest.raises(SettingsError, match="anybody could send any user's name"):
        access_keys.check_together(replace(Settings(), authorization_enabled=True), {})
    both = replace(Settings(), acl_enable=True, authentication_enabled=True)
    with pytest.raises(SettingsError, match="migrateAuthFromV1Enabled=true"):
        access_keys.check_together(both, {})
    both_of_2 = replace(Settings(), authentication_enabled=True, authorization_enabled=True)
    access_keys.check_together(both_of_2, {})


def test_what_has_no_effect_without_access_control_is_named() -> None:
    loaded = load_settings(Role.BROKER, assignments=["gateway.aclFile=/x.yml"])
    assert loaded.notices == (
        "gateway.aclFile (--set): has no effect without aclEnable=true or authenticationEnabled=true",
    )
    assert list(access_keys.notices(replace(Settings(), acl_enable=True), {"gateway.aclFile": "x"})) == []
