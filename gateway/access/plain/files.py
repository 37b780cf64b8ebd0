"""The files of accounts of one server: which they are, when they change, and the last good state of each.

A change is used when two looks in a row have seen it, so a file that an editor empties before it writes is not used
half written. Files that change at every look are used after a few. A file that cannot be used, or in which nothing is
written any more, keeps its last good state, and the log says so once. A file that is deleted takes its accounts along.
All methods block and may run in any thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias

from gateway.access.alone import alone
from gateway.access.plain.accounts import PlainAccount, PlainAccounts
from gateway.access.plain.changes import AccountRemoval, Change, NoSuchAccountError, put_version
from gateway.access.plain.document import MAX_ACCOUNTS, Document, Version, read_document
from gateway.access.plain.editing import Editing
from gateway.access.plain.parsing import MAX_FILE_BYTES, AccountsFileError, Parsing
from gateway.access.private_disk import PrivateDisk
from gateway.clock import Milliseconds
from gateway.errors import SettingsError
from gateway.settings.declare import with_home
from gateway.telemetry.logs import EventLog

log = EventLog("access")

MAIN: Final = "plain_acl.yml"
DIRECTORY: Final = "acl"
SUFFIXES: Final = (".yml", ".yaml")
MAX_FILES: Final = 1_000
"""The number of files of accounts."""
MOST_UNREST: Final = 5
"""The number of looks in a row that see another change each; then the files are used as they are."""
EMPTY: Final = "nothing is written in it; to remove all accounts, write 'accounts: []'"

Stamp: TypeAlias = tuple[int, int, int]
"""The time of a file's last change in nanoseconds, its size and its number."""


def main_file(named: str, home: str) -> Path:
    """Return the file of accounts; further files are in the directory ``acl`` beside it.

    :param named: ``gateway.aclFile``, which is beside the file of settings if nothing else is said.
    :param home: ``rocketmqHome``, or ``ROCKETMQ_HOME`` of the environment.
    :raises SettingsError: none of them says where the file is.
    """
    if named:
        return Path(with_home(named)).absolute()
    if home:
        return Path(with_home(home)).absolute() / "conf" / MAIN
    raise SettingsError(
        f"aclEnable=true, and nothing says where {MAIN} is: set gateway.aclFile, rocketmqHome or ROCKETMQ_HOME, or "
        "name a file of settings beside it with -c"
    )


class PlainFiles:
    """The files, read with ``load`` first.

    :param main: the file for new accounts; the others are in ``acl`` beside it.
    """

    def __init__(self, main: Path, clock_ms: Milliseconds) -> None:
        self.main = main
        self.disk = PrivateDisk()
        self._clock_ms = clock_ms
        self._lock = Lock()
        self._used: Mapping[Path, Stamp] = {}
        self._seen: Mapping[Path, Stamp] = {}
        self._documents: Mapping[Path, Document] = {}
        self._rejected: set[Path] = set()
        self._gone: set[str] = set()
        """Accounts that others removed from the files, and that no request asked this process to remove since.

        A tool sends a removal to all brokers, which may have one file: the second one finds the account removed.
        """
        self._fault = ""
        self._unrest = 0

    def load(self) -> PlainAccounts:
        """Read all files for the first time.

        :raises SettingsError: a file cannot be used, or there is neither an account nor a white list.
        """
        with self._lock:
            try:
                stamps = self._stamps()
            except OSError as error:
                raise SettingsError(f"the files of accounts cannot be read: {error}") from None
            documents = {path: self._read(path, stamp) for path, stamp in stamps.items()}
            found = _together(documents, set(documents))
            if not found.accounts and not found.white:
                raise SettingsError(
                    f"aclEnable=true, and no account is in {self.main} or in {self.main.parent / DIRECTORY}: write an "
                    "account with admin: true there, or set gateway.aclFile or rocketmqHome"
                )
            self._used = self._seen = stamps
            self._documents = documents
            return found

    def look(self) -> PlainAccounts | None:
        """Return the accounts if files have changed and stayed so since the last look, None if not."""
        with self._lock:
            try:
                stamps = self._stamps()
            except (OSError, SettingsError) as error:
                if self._fault != str(error):
                    self._fault = str(error)
                    log.error("files of accounts not looked at; the accounts stay as they are", fault=error)
                return None
            self._fault = ""
            if stamps == self._used:
                self._seen, self._unrest = stamps, 0
                return None
            if stamps != self._seen and self._unrest < MOST_UNREST:
                self._seen, self._unrest = stamps, self._unrest + 1
                return None
            self._seen, self._unrest = stamps, 0
            return self._take(stamps)

    def change(self, change: Change) -> PlainAccounts:
        """Change the text of one file, and return all accounts; ``disk.sync_names`` has to follow.

        :raises ValueError: the change is refused; the error's text is the reason, without a secret.
        :raises OSError: the old text is still there.
        """
        with self._lock:
            known = _together(self._documents, set())
            try:
                path = change.place(known.accounts, self._used, self.main)
            except NoSuchAccountError as error:
                if error.name not in self._gone:
                    raise
                self._gone.discard(error.name)
                return known
            with alone(path):
                found = self._changed(path, change)
            self._gone -= found.accounts.keys()
            if isinstance(change, AccountRemoval):
                self._gone.discard(change.name)
            return found

    def _changed(self, path: Path, change: Change) -> PlainAccounts:
        """Change the text of a file that no other process changes meanwhile."""
        if len(self._used.keys() | {path}) > MAX_FILES:
            raise ValueError(f"{path} would be one more than {MAX_FILES} files of accounts")
        before, text = self._edited(path, change)
        content = text.encode()
        try:
            after = read_document(Parsing(path, content))
            documents = {**self._documents, path: after}
            found = _together(documents, {path})
        except AccountsFileError as error:
            raise ValueError(f"{error}, after the change; change the file by hand") from None
        asked = change.expected(before)
        if dict(after.accounts) != dict(asked.accounts) or set(after.white) != set(asked.white):
            raise ValueError(f"{path} is written in a form that is not changed by requests; change it by hand")
        stamp = _stamp(self.disk.replace(path, content, path.stat() if path.exists() else None))
        if path in self._documents:
            self._gone |= self._documents[path].accounts.keys() - before.accounts.keys()
        self._documents = documents
        self._rejected.discard(path)
        self._used = self._seen = {**self._used, path: stamp}
        return found

    def versions(self) -> Mapping[Path, Version]:
        """Return the version of each file."""
        documents = self._documents
        return {path: document.version for path, document in documents.items()}

    def _edited(self, path: Path, change: Change) -> tuple[Document, str]:
        """Return the entries of a file now, and its changed text."""
        try:
            parsing = Parsing(path, _content(path) if path.exists() else b"")
            before = read_document(parsing)
        except AccountsFileError as error:
            raise ValueError(f"{error}; mend the file first") from None
        try:
            editing = Editing(parsing)
            change.edit(editing)
            put_version(editing, before.version.counter + 1, self._clock_ms())
        except ValueError as error:
            raise ValueError(f"{path} cannot be changed by requests: {error}; change it by hand") from None
        return before, editing.result()

    def _take(self, stamps: Mapping[Path, Stamp]) -> PlainAccounts:
        """Read what has changed; a file with a fault stays as it was."""
        documents: dict[Path, Document] = {}
        changed: set[Path] = set()
        self._rejected.intersection_update(stamps)
        for path, stamp in stamps.items():
            if path not in self._rejected and self._used.get(path) == stamp:
                documents[path] = self._documents[path]
                continue
            try:
                documents[path] = self._read(path, stamp)
                changed.add(path)
            except AccountsFileError as error:
                self._reject(error, documents)
        while True:
            try:
                found = _together(documents, changed)
                break
            except AccountsFileError as error:
                changed.discard(error.path)
                self._reject(error, documents)
        for document in self._documents.values():
            self._gone |= document.accounts.keys()
        self._gone -= found.accounts.keys()
        if len(self._gone) > MAX_ACCOUNTS:
            self._gone.clear()
        self._used, self._documents = stamps, documents
        self._rejected -= changed
        log.info("accounts read again", files=len(documents), accounts=len(found.accounts))
        if not documents:
            log.error("all files of accounts are gone: every request is refused", file=self.main)
        return found

    def _reject(self, error: AccountsFileError, documents: dict[Path, Document]) -> None:
        """Keep the last good state of a file, if there is one."""
        self._rejected.add(error.path)
        last = self._documents.get(error.path)
        if last is not None and documents.get(error.path) is not last:
            documents[error.path] = last
        else:
            documents.pop(error.path, None)
        log.error(
            "file of accounts cannot be used; its last good state stays in use",
            file=error.path,
            line=error.line,
            reason=error.reason,
        )

    def _read(self, path: Path, stamp: Stamp) -> Document:
        found = read_document(Parsing(path, _content(path)), stamp[0] // 1_000_000)
        last = self._documents.get(path)
        if found.is_empty and last is not None and not last.is_empty:
            raise AccountsFileError(path, 0, EMPTY)
        return found

    def _stamps(self) -> Mapping[Path, Stamp]:
        """Return the stamp of each file that is there.

        :raises OSError: a directory cannot be read.
        """
        found: dict[Path, Stamp] = {}
        for path in (self.main, *_files_below(self.main.parent / DIRECTORY)):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                found[path] = _stamp(status)
            if len(found) > MAX_FILES:
                raise SettingsError(f"more than {MAX_FILES} files of accounts in {self.main.parent / DIRECTORY}")
        return found


def _together(documents: Mapping[Path, Document], changed: set[Path]) -> PlainAccounts:
    """Return the accounts of all files.

    :param changed: the files that are at fault if they do not fit to the others.
    :raises AccountsFileError: an account is in two files, or there are too many.
    """
    accounts: dict[str, PlainAccount] = {}
    for document in sorted(documents.values(), key=lambda document: document.path in changed):
        for name, account in document.accounts.items():
            if (other := accounts.get(name)) is not None:
                where = f"{other.file}, line {other.line}"
                raise AccountsFileError(
                    document.path, account.line, f"account {name} is also in {where}; keep one of the two"
                )
            if len(accounts) == MAX_ACCOUNTS:
                raise AccountsFileError(document.path, account.line, f"more than {MAX_ACCOUNTS} accounts in all files")
            accounts[name] = account
    return PlainAccounts(accounts, [pattern for document in documents.values() for pattern in document.white])


def _files_below(directory: Path) -> Iterator[Path]:
    """Yield the YAML files of a directory in order; hidden ones, such as Kubernetes makes, are left out."""

    def failed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise error

    for place, directories, names in os.walk(directory, onerror=failed):
        directories[:] = sorted(name for name in directories if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield Path(place, name)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise AccountsFileError(
            path, 0, f"cannot be read: {error.strerror}; give the user of this process the right to read it"
        ) from None
