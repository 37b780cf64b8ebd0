"""Keys from arguments, from the environment and from files of several forms; none is ever shown."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from gateway.client.connect.credentials import Credentials, read_credentials, signer_of
from gateway.client.connect.settings import ClientSettings
from gateway.client.errors import ConfigurationError
from wire.command import RemotingCommand


def signed_by(settings: ClientSettings) -> str | None:
    signer = signer_of(settings)
    if signer is None:
        return None
    command = RemotingCommand(1, ext_fields={})
    signer.sign(command)
    return command.ext_fields["AccessKey"]


@pytest.mark.parametrize(
    "text",
    [
        "AccessKey=shop\nSecretKey=hush=hush\nSecurityToken=tok\n",
        "\ufeff# ours\n\n  access_key = shop \r\nsecret_key\t=  hush=hush\nsecurity_token=tok\nregion=eu",
        "accessKey: shop\nsecretKey: 'hush=hush'\nsecurityToken: \"tok\"\n",
    ],
    ids=["Java's ~/key", "ours", "tools.yml"],
)
def test_files_of_all_forms_are_read(tmp_path: Path, text: str) -> None:
    file = tmp_path / "key"
    file.write_text(text, encoding="utf-8")
    assert read_credentials(str(file)) == Credentials("shop", "hush=hush", "tok")


def test_quotes_belong_to_the_secret_where_java_reads_them_so(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text('AccessKey=shop\nSecretKey="a:b"\n')
    assert read_credentials(str(file)).secret_key == '"a:b"'


def test_the_home_directory_may_be_named_shortly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text("AccessKey=shop\nSecretKey=hush\n")
    assert read_credentials("~/key").access_key == "shop"


@pytest.mark.parametrize(
    "content", [b"AccessKey=shop\n", b"SecretKey=very-secret\n", b"", b"very-secret\xff\xfe", None]
)
def test_a_file_that_cannot_be_used_is_named_and_its_content_is_not(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"credentials_file is .*AccessKey=…") as caught:
        read_credentials(str(file))
    assert "very-secret" not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_keys_given_as_arguments_win_over_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("AccessKey=of the file\nSecretKey=hush\n")
    assert signed_by(ClientSettings()) is None
    assert signed_by(ClientSettings(credentials_file=str(file))) == "of the file"
    given = ClientSettings(credentials_file=str(file), access_key="given", secret_key="hush")
    assert signed_by(given) == "given"


def test_the_environment_may_name_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    file.write_text("AccessKey=shop\nSecretKey=hush\n")
    monkeypatch.setenv("ROCKETMQ_CREDENTIALS_FILE", str(file))
    assert signed_by(ClientSettings.from_env()) == "shop"
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "other")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "hush")
    assert signed_by(ClientSettings.from_env()) == "other"


def test_keys_are_not_shown_and_can_travel() -> None:
    keys = Credentials("shop", "very-secret", "very-secret-token")
    assert "very-secret" not in repr(keys) + str(keys)
    assert pickle.loads(pickle.dumps(keys)) == keys
