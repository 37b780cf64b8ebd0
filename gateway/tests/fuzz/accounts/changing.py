"""Accounts that change while a server is fuzzed: by requests, by hand, and by files that are touched or broken.

Each change is followed by requests of the account that tell whether it counts.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.tests.fuzz.accounts.asking import Asking
from gateway.tests.fuzz.accounts.canary import send
from gateway.tests.fuzz.accounts.party import CANARY, ROOT, STEP, Kind, Member, file_of
from gateway.tests.stalls import Stalls
from wire.codes import RequestCode as Code
from wire.command import RemotingCommand

BY_HAND: Final = "fuzz_by_hand"
USED_WITHIN_S: Final = 1.0
TOUCHES_S: Final = 0.3


def fault_of_wait(waited_s: float, patience_s: float, machine_ms: int) -> str | None:
    """Return why a change by hand is used too late; None while it may still be on its way.

    :param machine_ms: the longest time that the machine itself took for a write and a short sleep.
    """
    if waited_s <= patience_s + machine_ms / 1_000:
        return None
    return f"not used after {patience_s:g} s, the machine itself {machine_ms} ms"


class Changing:
    """Changes accounts until it is told to end.

    :param patience_s: the longest time until a change by hand has to be used; what the machine itself took is added.
    """

    def __init__(self, kind: Kind, directory: Path, address: tuple[str, int], patience_s: float) -> None:
        self.wrong: list[str] = []
        self.rounds = 0
        self.longest_s = 0.0
        """The longest time until a change by hand was used."""
        self._kind = kind
        self._file = file_of(kind, directory)
        self._address = address
        self._patience_s = patience_s
        self._stalls = Stalls(directory)
        self._asking = Asking(address)
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._work, self._touch)]
        self._step = Member(STEP)
        self._by_hand = Member(BY_HAND)

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """End, after the round that is under way."""
        self._ended.set()
        for thread in self._threads:
            thread.join(60)
            if thread.is_alive():
                self.wrong.append("a change of accounts was not answered at all")

    def _touch(self) -> None:
        while not self._ended.wait(TOUCHES_S):
            if self.rounds % 3 == 2:
                with suppress(FileNotFoundError):
                    os.utime(self._file)

    def _work(self) -> None:
        with self._stalls:
            self._change()

    def _change(self) -> None:
        try:
            while not self._ended.is_set():
                self._by_requests()
                self._with_a_file()
                self.rounds += 1
        except Exception as error:  # noqa: BLE001 - each is a finding
            self.wrong.append(f"changing accounts: {type(error).__name__}: {error}")
        finally:
            self._asking.close()

    def _by_requests(self) -> None:
        steps = self._steps_of_users() if self._kind is Kind.USERS else self._steps_of_plain()
        for name, code, fields, body, may in steps:
            answer = self._ask(ROOT, code, fields, body)
            if answer.code:
                self.wrong.append(f"{name}: answered {answer.code}: {answer.remark}")
            self._expect(self._step, STEP, may=may, when=name)
            self._expect(self._step, CANARY, may=False, when=name)

    def _steps_of_users(self) -> list[tuple[str, int, dict[str, str], bytes, bool]]:
        user, subject = {"username": STEP}, {"subject": f"User:{STEP}"}
        made = json.dumps({"username": STEP, "password": self._step.secret, "userType": "Normal"}).encode()

        def acl(decision: str) -> bytes:
            entry = {"resource": f"Topic:{STEP}", "actions": ["Pub"], "decision": decision}
            return json.dumps({**subject, "policies": [{"policyType": "Custom", "entries": [entry]}]}).encode()

        return [
            ("made", Code.AUTH_CREATE_USER, user, made, False),
            ("allowed", Code.AUTH_CREATE_ACL, subject, acl("Allow"), True),
            ("denied", Code.AUTH_UPDATE_ACL, subject, acl("Deny"), False),
            ("allowed again", Code.AUTH_UPDATE_ACL, subject, acl("Allow"), True),
            ("disabled", Code.AUTH_UPDATE_USER, user, b'{"userStatus":"disable"}', False),
            ("enabled", Code.AUTH_UPDATE_USER, user, b'{"userStatus":"enable"}', True),
            ("without policies", Code.AUTH_DELETE_ACL, subject, b"", False),
            ("deleted", Code.AUTH_DELETE_USER, user, b"", False),
        ]

    def _steps_of_plain(self) -> list[tuple[str, int, dict[str, str], bytes, bool]]:
        def account(word: str) -> dict[str, str]:
            keys = {"accessKey": STEP, "secretKey": self._step.secret, "admin": "false"}
            return {**keys, "topicPerms": f"{STEP}={word}"}

        return [
            ("made", Code.UPDATE_AND_CREATE_ACL_CONFIG, account("SUB"), b"", False),
            ("allowed", Code.UPDATE_AND_CREATE_ACL_CONFIG, account("PUB"), b"", True),
            ("denied", Code.UPDATE_AND_CREATE_ACL_CONFIG, account("DENY"), b"", False),
            ("allowed again", Code.UPDATE_AND_CREATE_ACL_CONFIG, account("PUB|SUB"), b"", True),
            ("deleted", Code.DELETE_ACL_CONFIG, {"accessKey": STEP}, b"", False),
        ]

    def _with_a_file(self) -> None:
        if self._kind is Kind.USERS:
            self._write_users(lambda users: [*users, self._user()])
        else:
            more = self._file.parent / "acl" / "by_hand.yml"
            more.parent.mkdir(exist_ok=True)
            more.write_text(
                f"accounts:\n- accessKey: {BY_HAND}\n  secretKey: {self._by_hand.secret}\n"
                f"  topicPerms:\n  - {STEP}=PUB\n"
            )
        self._wait_until(may=True, when="added by hand")
        if self.rounds % 3 == 1:
            self._break()
        if self._kind is Kind.USERS:
            self._write_users(lambda users: [user for user in users if user["username"] != BY_HAND])
        else:
            more.unlink()
        self._wait_until(may=False, when="removed by hand")

    def _break(self) -> None:
        """Write a file that cannot be read, wait until it is looked at, and put the whole one back."""
        path = self._file if self._kind is Kind.USERS else self._file.parent / "acl" / "by_hand.yml"
        content = path.read_bytes()
        path.write_bytes(content + b"\n- [")
        self._ended.wait(USED_WITHIN_S + 0.5)
        self._expect(self._by_hand, STEP, may=True, when="while the file is broken")
        path.write_bytes(content)

    def _user(self) -> dict[str, object]:
        entry = {"resource": f"Topic:{STEP}", "actions": ["Pub"], "decision": "Allow"}
        policies = [{"policyType": "Custom", "entries": [entry]}]
        return {"username": BY_HAND, "password": self._by_hand.secret, "policies": policies}

    def _write_users(self, change: Callable[[list[dict[str, object]]], list[dict[str, object]]]) -> None:
        users = json.loads(self._file.read_text("utf-8"))["users"]
        temporary = self._file.with_suffix(".new")
        temporary.write_text(json.dumps({"users": change(users)}), "utf-8")
        temporary.chmod(0o600)
        temporary.replace(self._file)

    def _wait_until(self, *, may: bool, when: str) -> None:
        begun = time.monotonic()
        while self._may(self._by_hand, STEP) is not may:
            fault = fault_of_wait(time.monotonic() - begun, self._patience_s, self._stalls.longest_ms)
            if fault is not None:
                self.wrong.append(f"{when}: {fault}")
                return
            time.sleep(0.05)  # noqa: TID251 - a real server has to be given real time
        self.longest_s = max(self.longest_s, time.monotonic() - begun)

    def _expect(self, member: Member, topic: str, *, may: bool, when: str) -> None:
        if self._may(member, topic) is not may:
            self.wrong.append(f"{when}: {member.name} {'could not' if may else 'could'} send to {topic}")

    def _may(self, member: Member, topic: str) -> bool:
        return self._ask(member, Code.SEND_MESSAGE_V2, send(topic), b"step").code == 0

    def _ask(self, member: Member, code: int, fields: dict[str, str], body: bytes) -> RemotingCommand:
        try:
            return self._asking.ask(member, code, fields, body)
        except OSError:  # too many wrong keys from this address: each closes its connection behind the answer
            self._asking.close()
            self._asking = Asking(self._address)
            return self._asking.ask(member, code, fields, body)
