"""The real tools that look at the lock files: pip-audit on stored advisories, and CycloneDX's bill of materials."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from compat_tests.environment import REPOSITORY

LOCKED = dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE))


def make(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=REPOSITORY,
        env=environment | {"CI": "true"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def test_a_known_vulnerability_of_a_locked_package_fails_the_audit(tmp_path: Path) -> None:
    record = {
        "schema_version": "1.6.0",
        "id": "MADE-1",
        "modified": "2026-11-01T00:00:00Z",
        "aliases": ["CVE-0000-0"],
        "summary": "made up",
        "affected": [
            {
                "package": {"name": "Twisted", "ecosystem": "PyPI"},
                "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "9999"}]}],
            }
        ],
    }
    (tmp_path / "MADE-1.json").write_text(json.dumps(record))
    ran = make("audit-dependencies", f"ADVISORIES={tmp_path}")
    assert ran.returncode != 0, ran.stdout
    assert f"twisted {LOCKED['twisted']}: " in ran.stdout
    assert "MADE-1" in ran.stdout
    assert "fixed in 9999: made up" in ran.stdout

    record["affected"][0]["ranges"][0]["events"][1]["fixed"] = "1"  # type: ignore[index]
    (tmp_path / "MADE-1.json").write_text(json.dumps(record))
    ran = make("audit-dependencies", f"ADVISORIES={tmp_path}")
    assert ran.returncode == 0, ran.stdout
    assert "packages looked at, 0 known vulnerabilities" in ran.stdout


def test_the_bill_of_materials_has_every_locked_package() -> None:
    ran = make("sbom")
    assert ran.returncode == 0, ran.stdout
    bill = json.loads((REPOSITORY / "build" / "sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "rocketmq-gateway"
    assert bill["metadata"]["component"]["version"]
    assert {component["name"]: component["version"] for component in bill["components"]} == LOCKED
    assert all(component["externalReferences"][0]["hashes"] for component in bill["components"])
