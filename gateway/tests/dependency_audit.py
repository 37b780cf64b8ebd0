"""Ask pip-audit whether packages of the lock files have known vulnerabilities.

    python -m gateway.tests.dependency_audit LOCK…                       asks the service of the package index
    python -m gateway.tests.dependency_audit --advisories PATH LOCK…     asks stored advisories, without a network

`make audit-dependencies` runs it. PATH is a file, a folder or a zip file of records in the format of OSV, JSON or YAML:
the export of OSV for PyPI, or a checkout of the advisory database of PyPA. pip-audit asks them through a server on the
loopback interface, which answers like the one of OSV.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click
import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

PACKAGES = "PyPI"
"""The name of Python's packages in records of OSV."""
KNOWN_TO_BE_BAD = "pyyaml==5.3.1\n"
"""A service of advisories names at least one for this version (CVE-2020-14343)."""
_YAML = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Leaves all values text: 1.10 is a version, not a number."""
_LOADERS: dict[str, Callable[[str], Any]] = {".json": json.loads, ".yaml": lambda text: yaml.load(text, _YAML)}


class Advisories:
    """Records of vulnerabilities of Python packages, by the packages that they name."""

    def __init__(self) -> None:
        self.newest = ""
        self.count = 0
        self._records: dict[str, list[dict[str, Any]]] = {}

    @classmethod
    def read(cls, path: Path) -> Advisories:
        """Read a file, a folder or a zip file of records; ClickException for what is none, or has none for Python."""
        read = cls()
        for name, text in _texts(path):
            try:
                read.add(_LOADERS[Path(name).suffix](text))
            except (ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
                raise click.ClickException(f"{name} is no record of OSV: {error!r}") from error
        if read.count == 0:
            raise click.ClickException(f"{path} has no advisory for a Python package")
        return read

    def add(self, record: dict[str, Any]) -> None:
        """Keep a record if it is about a Python package."""
        packages = [entry["package"] for entry in record.get("affected", ()) if "package" in entry]
        packages = [package for package in packages if package["ecosystem"] == PACKAGES]
        for package in packages:
            package["name"] = canonicalize_name(package["name"])  # pip-audit looks for this form
        for name in {package["name"] for package in packages}:
            self._records.setdefault(name, []).append(record)
        if packages:
            self.count += 1
            self.newest = max(self.newest, record["modified"][:10])

    def about(self, name: str, version: str) -> list[dict[str, Any]]:
        """Return the records that name this version of a package."""
        package = {"name": canonicalize_name(name), "ecosystem": PACKAGES}
        return [
            record
            for record in self._records.get(package["name"], ())
            if any(
                entry.get("package", {}).items() >= package.items() and _is_affected(entry, Version(version))
                for entry in record["affected"]
            )
        ]


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in _LOADERS and file.is_file())
        yield from ((str(file), file.read_text("utf-8")) for file in files)
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            names = [name for name in packed.namelist() if Path(name).suffix in _LOADERS]
            yield from ((name, packed.read(name).decode()) for name in names)
    elif path.suffix in _LOADERS:
        yield str(path), path.read_text("utf-8")
    else:
        raise click.ClickException(f"{path} is neither a folder nor a zip, JSON or YAML file")


def _is_affected(entry: dict[str, Any], version: Version) -> bool:
    ranges = (each["events"] for each in entry.get("ranges", ()) if each["type"] == "ECOSYSTEM")
    return any(_is_same(text, version) for text in entry.get("versions", ())) or any(
        _is_within(events, version) for events in ranges
    )


def _is_same(text: str, version: Version) -> bool:
    try:
        return Version(text) == version
    except InvalidVersion:  # a version of before PEP 440, which no lock has
        return False


def _is_within(events: list[dict[str, str]], version: Version) -> bool:
    """Follow the events up to a version, in the order of their versions."""
    within = False
    for kind, at in sorted(
        ((kind, Version(text)) for event in events for kind, text in event.items()), key=_by_version
    ):
        if kind == "introduced" and version >= at:
            within = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            within = False
    return within


def _by_version(event: tuple[str, Version]) -> tuple[Version, bool]:
    return event[1], event[0] == "introduced"


@contextmanager
def served(advisories: Advisories) -> Iterator[str]:
    """Answer questions of pip-audit on the loopback interface; the address to ask."""

    class Answers(BaseHTTPRequestHandler):
        """The one question that pip-audit has."""

        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                found = advisories.about(question["package"]["name"], question["version"])
            except (InvalidVersion, KeyError, TypeError) as error:
                self.send_error(500, f"an advisory of {question['package']['name']} cannot be read: {error!r}")
                return
            answer = json.dumps({"vulns": found} if found else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _ask(pip_audit: str, locks: tuple[str, ...], *arguments: str) -> list[dict[str, Any]]:
    """Return what pip-audit says of each package; ClickException if it says nothing.

    pip-audit refuses a package that is in two files, and locks share packages: each is asked for itself.
    """
    command = [pip_audit, "--format=json", "--progress-spinner=off", "--disable-pip", "--no-deps", *arguments]
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    packages: dict[tuple[str, str], dict[str, Any]] = {}
    for lock in locks:
        ran = subprocess.run(
            [*command, f"--requirement={lock}"], capture_output=True, text=True, check=False, env=environment
        )
        try:
            said = json.loads(ran.stdout)["dependencies"]
        except ValueError as error:
            last = (ran.stderr.strip() or "it says nothing").splitlines()[-1]
            raise click.ClickException(f"pip-audit ended with {ran.returncode}: {last}") from error
        packages |= {(package["name"], package.get("version", "")): package for package in said}
    return list(packages.values())


def _why_unanswered(pip_audit: str) -> str:
    """Return why the service of the package index knows no vulnerabilities, as a mirror's may; empty if it does."""
    with tempfile.TemporaryDirectory() as folder:
        bad = Path(folder, "bad.txt")
        bad.write_text(KNOWN_TO_BE_BAD)
        try:
            (package,) = _ask(pip_audit, (str(bad),))
        except click.ClickException as error:
            return error.message
    return "" if package.get("vulns") else str(package.get("skip_reason", f"{package} is vulnerable"))


def _judge(packages: list[dict[str, Any]]) -> None:
    """Print what is known, and end with 1 if a package is vulnerable or was not looked at."""
    skipped = [f"{package['name']}: {package['skip_reason']}" for package in packages if "skip_reason" in package]
    found = [(package, known) for package in packages for known in package.get("vulns", ())]
    for package, known in found:
        names = ", ".join([known["id"], *known["aliases"]])
        fixed = ", ".join(known["fix_versions"]) or "no version"
        click.echo(f"{package['name']} {package['version']}: {names}, fixed in {fixed}: {known['description'][:200]}")
    for each in skipped:
        click.echo(f"not looked at: {each}")
    click.echo(f"{len(packages) - len(skipped)} packages looked at, {len(found)} known vulnerabilities")
    if found or skipped or not packages:
        sys.exit(1)


@click.command()
@click.option("--pip-audit", required=True, help="The program pip-audit.")
@click.option(
    "--advisories", type=click.Path(exists=True, path_type=Path), help="Ask these records instead of the network."
)
@click.option("--ignore-vuln", "ignored", multiple=True, help="The id of a vulnerability that does not matter here.")
@click.argument("locks", nargs=-1, required=True)
def main(pip_audit: str, advisories: Path | None, ignored: tuple[str, ...], locks: tuple[str, ...]) -> None:
    """Look for known vulnerabilities of the packages in lock files."""
    arguments = [f"--ignore-vuln={each}" for each in ignored]
    if advisories is not None:
        stored = Advisories.read(advisories)
        click.echo(f"asking {stored.count:,} stored advisories, the newest of {stored.newest}")
        with served(stored) as address:
            packages = _ask(pip_audit, locks, "--vulnerability-service=osv", f"--osv-url={address}", *arguments)
        _judge(packages)
    elif why := _why_unanswered(pip_audit):
        click.echo(f"NOT audited, no service of advisories answers: {why}", err=True)
        click.echo("ADVISORIES=PATH asks stored advisories", err=True)
        sys.exit(0 if os.environ.get("CI") == "true" else 1)
    else:
        _judge(_ask(pip_audit, locks, *arguments))


if __name__ == "__main__":
    main()
