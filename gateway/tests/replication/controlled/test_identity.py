"""The files of a broker's id: Apache RocketMQ's names and texts, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.replication.controlled.identity import (
    AppliedIdentity,
    BrokerIdentity,
    IdentityFiles,
    IdentityUnreadable,
)

IDENTITY = BrokerIdentity("DefaultCluster", "broker-a", 2)
APPLIED = AppliedIdentity(IDENTITY, "10.0.0.1:10911;1790000000000")


def files(root: Path) -> IdentityFiles:
    return IdentityFiles(root, "DefaultCluster", "broker-a")


def test_an_empty_directory_has_no_identity(tmp_path: Path) -> None:
    assert files(tmp_path / "new").load() == (None, None)


def test_an_applied_identity_is_read_again(tmp_path: Path) -> None:
    files(tmp_path / "new").keep_applied(APPLIED)
    text = (tmp_path / "new" / "brokerIdentity-temp").read_text()
    assert text == "DefaultCluster#broker-a#2#10.0.0.1:10911;1790000000000"
    assert files(tmp_path / "new").load() == (None, APPLIED)


def test_a_kept_identity_replaces_the_applied_one(tmp_path: Path) -> None:
    files(tmp_path).keep_applied(APPLIED)
    files(tmp_path).keep(IDENTITY)
    assert (tmp_path / "brokerIdentity").read_text() == "DefaultCluster#broker-a#2"
    assert files(tmp_path).load() == (IDENTITY, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["brokerIdentity"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has 1 words"),
        ("DefaultCluster#broker-a", "has 2 words"),
        ("DefaultCluster#broker-a#2#more", "has 4 words"),
        ("DefaultCluster#broker-b#2", "is of broker broker-b"),
        ("Other#broker-a#2", "in cluster Other"),
        ("DefaultCluster#broker-a#0", "broker id above 0"),
        ("DefaultCluster#broker-a#-1", "broker id above 0"),
        ("DefaultCluster#broker-a#" + "9" * 30, "broker id above 0"),
        ("#" * 5000, "longer than 4096 bytes"),
    ],
)
def test_a_file_with_another_content_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "brokerIdentity").write_text(text)
    with pytest.raises(IdentityUnreadable, match=reason):
        files(tmp_path).load()
