"""Check that a server can read the JSON files in ``config`` and their backups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.metadata.offsets import LIGHT_FILE_NAME
from gateway.store_tool.checks.findings import REPAIR, Finding, FindingKind, Findings
from gateway.store_tool.files.directory import StoreDirectory, data_end
from wire.disk.config_json import (
    MAX_FILE_BYTES,
    ConsumerOffsetsFile,
    DelayOffsetsFile,
    GroupsFile,
    TopicsFile,
    parse_config,
)
from wire.errors import RemoteError

_PARSERS: Mapping[str, Callable[[bytes], object]] = {
    "topics.json": TopicsFile.parse,
    "subscriptionGroup.json": GroupsFile.parse,
    "consumerOffset.json": ConsumerOffsetsFile.parse,
    LIGHT_FILE_NAME: ConsumerOffsetsFile.parse,
    "delayOffset.json": DelayOffsetsFile.parse,
}


@dataclass(frozen=True, slots=True)
class ConfigState:
    """One configuration file and its backup: why each cannot be read (None if it can), and whether each exists."""

    path: Path
    fault: str | None
    backup_fault: str | None
    exists: bool
    backup_exists: bool

    @property
    def backup(self) -> Path:
        """The path of the backup: ``NAME.bak``."""
        return self.path.with_name(self.path.name + ".bak")


def config_states(directory: StoreDirectory) -> list[ConfigState]:
    """Return the state of every ``*.json`` and every ``*.json.bak`` in ``config``."""
    folder = directory.root / "config"
    if not folder.is_dir():
        return []
    names = {path.name.removesuffix(".bak") for path in folder.iterdir() if path.is_file()}
    states = []
    for name in sorted(name for name in names if name.endswith(".json")):
        path = folder / name
        backup = path.with_name(name + ".bak")
        states.append(ConfigState(path, _fault(path, name), _fault(backup, name), path.exists(), backup.exists()))
    return states


def known_topics(directory: StoreDirectory) -> frozenset[str] | None:
    """Return the topics of topics.json or of its backup; None if neither can be read."""
    path = directory.root / "config" / "topics.json"
    for candidate in (path, path.with_name(path.name + ".bak")):
        if not candidate.is_file() or _at_a_glance(candidate) is not None:
            continue
        try:
            return frozenset(TopicsFile.parse(candidate.read_bytes()).configs)
        except RemoteError:
            continue
    return None


def check_configs(directory: StoreDirectory, findings: Findings) -> None:
    """Report each file that cannot be read."""
    for state in config_states(directory):
        remedy = f"{REPAIR} {directory.root}"
        if state.fault is not None:
            usable = state.backup_exists and state.backup_fault is None
            how = remedy + (" restores its backup" if usable else " moves it away; there is no readable backup")
            findings.add(Finding(FindingKind.CONFIG, state.path, state.fault, how))
        elif not state.exists:
            findings.note(f"{state.path} is missing, its backup is there: the next start restores it")
        if state.backup_fault is not None:
            findings.add(Finding(FindingKind.CONFIG, state.backup, state.backup_fault, f"{remedy} moves it away"))


def _fault(path: Path, name: str) -> str | None:
    if not path.is_file():
        return None  # missing, or told of as a misfit
    if (fault := _at_a_glance(path)) is not None:
        return fault
    content = path.read_bytes()
    if not content.strip():
        return "is empty"
    parse: Callable[[bytes], object] = _PARSERS.get(name, parse_config)
    try:
        parse(content)
    except RemoteError as error:
        return f"cannot be read: {error}"
    return None


def _at_a_glance(path: Path) -> str | None:
    """Return the fault of a file that shows without parsing, as a size or zeros; None if there is none."""
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        return f"has {size} bytes, the limit is {MAX_FILE_BYTES}"
    if (end := data_end(path, size)) < size:
        return f"cannot be read: from byte {end} on there are only zeros"
    return None
