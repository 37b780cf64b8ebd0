"""The audit of the locked packages: which versions a stored advisory names, and when the audit fails."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from gateway.tests.dependency_audit import Advisories, main

STAND_IN = """#!{python}
import json, sys, urllib.request
options = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
answers = []
for name, version in (line.split("==") for line in open(options["--requirement"]).read().split()):
    if "--osv-url" not in options:
        answers.append({{"name": name, "skip_reason": "not found"}})
        continue
    asked = {{"package": {{"name": name, "ecosystem": "PyPI"}}, "version": version}}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
    found = json.load(opener.open(options["--osv-url"], json.dumps(asked).encode())).get("vulns", [])
    known = [dict(id=each["id"], aliases=[], fix_versions=[], description="made") for each in found]
    answers.append({{"name": name, "version": version, "vulns": known}})
print(json.dumps({{"dependencies": answers}}))
"""
"""Asks as pip-audit does, which has an environment of its own: ``compat_tests/test_supply_chain.py`` runs that one."""


def advisory(*events: dict[str, str], versions: tuple[str, ...] = (), name: str = "shop") -> dict[str, Any]:
    """A record of OSV."""
    affected: dict[str, Any] = {"package": {"name": name, "ecosystem": "PyPI"}, "versions": list(versions)}
    if events:
        affected["ranges"] = [{"type": "GIT", "events": []}, {"type": "ECOSYSTEM", "events": list(events)}]
    return {"id": "MADE-1", "modified": "2026-11-01T00:00:00Z", "affected": [affected]}


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (advisory(versions=("1.0", "1.1.0")), "1.0 1.1"),
        (advisory(versions=("1.0", "of old times")), "1.0"),
        (advisory({"introduced": "0"}, {"fixed": "1.1"}), "0.9 1.0 1.1rc1"),
        (advisory({"fixed": "1.1"}, {"introduced": "1.0"}), "1.0 1.1rc1"),
        (advisory({"introduced": "1.0"}, {"last_affected": "1.1"}), "1.0 1.1rc1 1.1"),
        (advisory({"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "1.10"}, {"fixed": "2"}), "0.9 1.10"),
        (advisory({"introduced": "1.10"}), "1.10 2.0"),
        (advisory({"introduced": "0"}, name="Shop"), "0.9 1.0 1.1rc1 1.1 1.10 2.0"),
        (advisory({"introduced": "0"}, name="shop-window"), ""),
    ],
)
def test_an_advisory_names_versions_one_by_one_or_by_ranges(record: dict[str, Any], named: str) -> None:
    advisories = Advisories()
    advisories.add(record)
    versions = ["0.9", "1.0", "1.1rc1", "1.1", "1.10", "2.0"]
    assert [version for version in versions if advisories.about("Shop", version)] == named.split()


def test_packages_of_other_languages_do_not_count(tmp_path: Path) -> None:
    record = advisory({"introduced": "0"})
    record["affected"][0]["package"]["ecosystem"] = "npm"
    (tmp_path / "it.json").write_text(json.dumps(record))
    with pytest.raises(click.ClickException, match="has no advisory for a Python package"):
        Advisories.read(tmp_path)


def test_a_file_a_folder_and_a_zip_file_are_read(tmp_path: Path) -> None:
    inner = tmp_path / "vulns" / "shop" / "it.yaml"
    inner.parent.mkdir(parents=True)
    inner.write_text(
        "id: MADE-2\nmodified: 2026-11-02T00:00:00Z\naffected:\n"
        "- package: {name: shop, ecosystem: PyPI}\n  versions: [1.10]\n"
    )
    packed = tmp_path / "all.zip"
    with zipfile.ZipFile(packed, "w") as made:
        made.writestr("MADE-1.json", json.dumps(advisory(versions=("1.10",))))
    for path, identity in ((inner, "MADE-2"), (tmp_path / "vulns", "MADE-2"), (packed, "MADE-1")):
        assert [record["id"] for record in Advisories.read(path).about("shop", "1.10")] == [identity]
        assert Advisories.read(path).about("shop", "1.1") == []


@pytest.mark.parametrize("text", ["", "[]", "{", '{"affected": [{"package": {}}]}'])
def test_what_is_no_record_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "it.json").write_text(text)
    with pytest.raises(click.ClickException, match=r"it\.json is no record of OSV"):
        Advisories.read(tmp_path)


def audited(tmp_path: Path, *arguments: str, ci: str = "") -> Result:
    """Audit a lock with the package ``shop`` 1.0 and another lock that has it too."""
    program = tmp_path / "pip-audit"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    locks = [tmp_path / "a.lock", tmp_path / "b.lock"]
    locks[0].write_text("shop==1.0\n")
    locks[1].write_text("shop==1.0\nwindow==2.0\n")
    return CliRunner().invoke(main, ["--pip-audit", str(program), *arguments, *map(str, locks)], env={"CI": ci})


@pytest.mark.parametrize("ci", ["", "true"])
def test_a_known_vulnerability_fails_the_audit_also_without_a_network(tmp_path: Path, ci: str) -> None:
    stored = tmp_path / "stored.json"
    stored.write_text(json.dumps(advisory({"introduced": "0"}, {"fixed": "1.1"})))
    result = audited(tmp_path, "--advisories", str(stored), ci=ci)
    assert "shop 1.0: MADE-1" in result.output
    assert "2 packages looked at, 1 known" in result.output
    assert result.exit_code == 1


def test_a_clean_lock_passes(tmp_path: Path) -> None:
    stored = tmp_path / "stored.json"
    stored.write_text(json.dumps(advisory({"introduced": "1.1"})))
    result = audited(tmp_path, "--advisories", str(stored))
    assert (result.exit_code, "2 packages looked at, 0 known" in result.output) == (0, True), result.output


def test_an_advisory_that_cannot_be_read_fails_the_audit(tmp_path: Path) -> None:
    stored = tmp_path / "stored.json"
    stored.write_text(json.dumps(advisory({"introduced": "the beginning"})))
    assert audited(tmp_path, "--advisories", str(stored), ci="true").exit_code == 1


@pytest.mark.parametrize(("ci", "status"), [("", 1), ("true", 0)])
def test_without_a_service_nothing_passes_for_audited(tmp_path: Path, ci: str, status: int) -> None:
    result = audited(tmp_path, ci=ci)
    assert "NOT audited, no service of advisories answers: not found" in result.output
    assert result.exit_code == status
