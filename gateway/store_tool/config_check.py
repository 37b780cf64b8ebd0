"""The JSON files in ``config`` and their backups: whether a server can read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.store_tool.directory import StoreDirectory
from gateway.store_tool.findings import REPAIR, Finding, Findings, Kind
from wire.bodies.fastjson import parse_json
from wire.disk.config_json import MAX_FILE_BYTES, ConsumerOffsetsFile, DelayOffsetsFile, GroupsFile, TopicsFile
from wire.errors import RemoteError

_PARSERS: Mapping[str, Callable[[bytes], object]] = {
    "topics.json": TopicsFile.parse,
    "subscriptionGroup.json": GroupsFile.parse,
    "consumerOffset.json": ConsumerOffsetsFile.parse,
    "delayOffset.json": DelayOffsetsFile.parse,
}


@dataclass(frozen=True, slots=True)
class ConfigState:
    """One configuration file: why it and its backup cannot be read, None where they can; ``exists`` of either."""

    path: Path
    fault: str | None
    backup_fault: str | None
    exists: bool
    backup_exists: bool

    @property
    def backup(self) -> Path:
        """``NAME.bak``."""
        return self.path.with_name(self.path.name + ".bak")


def config_states(directory: StoreDirectory) -> list[ConfigState]:
    """Every ``*.json`` in ``config`` and every ``*.json.bak``."""
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
    """The topics of topics.json or its backup; None when neither can be read."""
    path = directory.root / "config" / "topics.json"
    for candidate in (path, path.with_name(path.name + ".bak")):
        try:
            return frozenset(TopicsFile.parse(candidate.read_bytes()).configs)
        except (FileNotFoundError, RemoteError):
            continue
    return None


def check_configs(directory: StoreDirectory, findings: Findings) -> None:
    """Tell of each file that cannot be read."""
    for state in config_states(directory):
        remedy = f"{REPAIR} {directory.root}"
        if state.fault is not None:
            usable = state.backup_exists and state.backup_fault is None
            how = remedy + (" restores its backup" if usable else " moves it away; there is no readable backup")
            _tell(findings, state.path, state.fault, how)
        elif not state.exists:
            findings.note(f"{state.path} is missing, its backup is there: the next start restores it")
        if state.backup_fault is not None:
            _tell(findings, state.backup, state.backup_fault, f"{remedy} moves it away")


def _fault(path: Path, name: str) -> str | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if not content.strip():
        return "is empty"
    try:
        _PARSERS.get(name, _parse_any)(content)
    except RemoteError as error:
        return f"cannot be read: {error}"
    return None


def _parse_any(content: bytes) -> object:
    return parse_json(content, max_bytes=MAX_FILE_BYTES, max_lenient_bytes=MAX_FILE_BYTES)


def _tell(findings: Findings, path: Path, what: str, remedy: str) -> None:
    findings.add(Finding(kind=Kind.CONFIG, path=path, what=what, remedy=remedy))
