"""What nobody but the administrator may touch: made before a run, and compared with itself after it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Final

import yaml

from gateway.tests.fuzz.accounts.asking import Asking
from gateway.tests.fuzz.accounts.party import AUDIT_BYTES, AUDIT_FILES, CANARY, CANARY_GROUP, ROOT, STEP, Kind, Party
from gateway.tests.fuzz.requests import names
from gateway.tests.fuzz.requests.grammar import Server
from wire.codes import RequestCode as Code
from wire.codes import ResponseCode
from wire.command import RemotingCommand

Addresses = Mapping[Server, tuple[str, int]]
MAX_BATCH_BYTES: Final = 1_500_000
"""The entries that wait together are written whole before a file is renamed."""
_ROUTE_PATIENCE_S: Final = 10.0


class Canary:
    """The topic, its message, its group and offset, a value of the name server, and the settings."""

    def __init__(self, party: Party, addresses: Addresses) -> None:
        self.text = f"canary-{token_hex(8)}"
        self.message_id = ""
        self._party = party
        self._addresses = addresses
        self._before: Mapping[str, str] = {}

    def make(self) -> None:
        """Make all of it, and the topics of the honest clients and of the account that changes."""
        with Asking(self._addresses[Server.BROKER]) as broker, Asking(self._addresses[Server.NAME_SERVER]) as server:
            for topic in (CANARY, "honest", "honest-pop", STEP):
                _good(broker.ask(ROOT, Code.UPDATE_AND_CREATE_TOPIC, _topic(topic)))
            # The administrator sends back messages by small offsets, so something else is there.
            _good(broker.ask(ROOT, Code.SEND_MESSAGE_V2, send(STEP), b"first"))
            sent = _good(broker.ask(ROOT, Code.SEND_MESSAGE_V2, send(CANARY), self.text.encode()))
            self.message_id = sent.ext_fields["msgId"]
            group = json.dumps({"groupName": CANARY_GROUP, "consumeEnable": True}).encode()
            _good(broker.ask(ROOT, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, group))
            place = {"consumerGroup": CANARY_GROUP, "topic": CANARY, "queueId": "0"}
            _good(broker.ask(ROOT, Code.UPDATE_CONSUMER_OFFSET, {**place, "commitOffset": "1"}))
            _good(server.ask(ROOT, Code.PUT_KV_CONFIG, {"namespace": CANARY, "key": CANARY, "value": "sings"}))
        end = time.monotonic() + _ROUTE_PATIENCE_S
        while "code 0" not in self._looked()["route"] and time.monotonic() < end:
            time.sleep(0.1)  # noqa: TID251 - a real server has to be given real time
        self._before = self._looked()
        missing = [name for name, text in self._before.items() if "code 0" not in text and name != "connections"]
        if missing:
            raise RuntimeError(f"not made: {missing}, {self._before}")

    def changes(self) -> list[str]:
        """Return what is not as it was."""
        after = self._looked()
        return [
            f"the protected {name} was {_short(text, after[name])}, and is {_short(after[name], text)}"
            for name, text in self._before.items()
            if after[name] != text
        ]

    def _looked(self) -> dict[str, str]:
        topic, group = {"topic": CANARY}, {"consumerGroup": CANARY_GROUP}
        with Asking(self._addresses[Server.BROKER]) as broker, Asking(self._addresses[Server.NAME_SERVER]) as server:
            found = {
                "topic": _text(broker.ask(ROOT, Code.GET_TOPIC_CONFIG, topic)),
                "messages": _text(broker.ask(ROOT, Code.GET_TOPIC_STATS_INFO, topic)),
                "group": _text(broker.ask(ROOT, Code.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": CANARY_GROUP})),
                "connections": _text(broker.ask(ROOT, Code.GET_CONSUMER_CONNECTION_LIST, group)),
                "offset": _text(broker.ask(ROOT, Code.QUERY_CONSUMER_OFFSET, {**topic, **group, "queueId": "0"})),
                "route": _text(server.ask(ROOT, Code.GET_ROUTEINFO_BY_TOPIC, topic)),
                "value": _text(server.ask(ROOT, Code.GET_KV_CONFIG, {"namespace": CANARY, "key": CANARY})),
                "settings": _settings(broker.ask(ROOT, Code.GET_BROKER_CONFIG)),
                "name server's settings": _settings(server.ask(ROOT, Code.GET_NAMESRV_CONFIG)),
            }
            if self._party.kind is Kind.USERS:
                for name in self._party.protected[2:]:
                    found[f"user {name}"] = _text(broker.ask(ROOT, Code.AUTH_GET_USER, {"username": name}))
                    found[f"policies of {name}"] = _text(
                        broker.ask(ROOT, Code.AUTH_GET_ACL, {"subject": f"User:{name}"})
                    )
        return found


def accounts_wrong(party: Party, path: Path) -> list[str]:
    """Return what is wrong with the file of accounts at the end: administrators that were not there, open addresses."""
    text = path.read_text("utf-8")
    if party.kind is Kind.USERS:
        users = json.loads(text)["users"]
        admins = {user["username"] for user in users if user.get("userType") == "Super"}
        secrets = {user["username"]: user["password"] for user in users}
    else:
        read = yaml.safe_load(text)
        admins = {account["accessKey"] for account in read["accounts"] if account.get("admin")}
        secrets = {account["accessKey"]: account["secretKey"] for account in read["accounts"]}
        white = [*(read.get("globalWhiteRemoteAddresses") or [])]
        white += [account.get("whiteRemoteAddress") for account in read["accounts"]]
        if any(pattern in ("*", "127.0.0.1") for pattern in white):
            return [f"the white lists are {white}"]
    wanted = {name for name, member in party.members.items() if member.is_admin}
    found = [] if admins == wanted else [f"administrators are {sorted(admins)}, and should be {sorted(wanted)}"]
    return found + [
        f"the key of {name} is gone or another one"
        for name in party.protected[2:]
        if secrets.get(name) != party.members[name].secret
    ]


def audit_wrong(party: Party, directory: Path) -> list[str]:
    """Return what is wrong with the audit files: too many, too large, not readable, or with a secret."""
    refusals, changes = (sorted(directory.glob(f"{name}*")) for name in ("audit.jsonl", "audit.changes.jsonl"))
    found = [f"{len(files)} audit files" for files in (refusals, changes) if len(files) > AUDIT_FILES]
    files = refusals + changes
    if not files:
        return ["no audit file"]
    for path in files:
        text = path.read_text("utf-8")
        if len(text.encode()) > AUDIT_BYTES + MAX_BATCH_BYTES:
            found.append(f"{path.name} has {len(text):,} characters")
        found += secrets_in(party, text, path.name)
        for line in text.splitlines():
            try:
                json.loads(line)
            except ValueError:
                found.append(f"{path.name}: {line[:200]!r}")
    return found


def secrets_in(party: Party, text: str, place: str) -> list[str]:
    """Return which secrets a text has."""
    return [f"{place} has the secret of {member.name}" for member in party.members.values() if member.secret in text]


def send(topic: str) -> dict[str, str]:
    """Return the header of a send."""
    return {
        **dict.fromkeys("efhj", "0"),
        **dict.fromkeys("km", "false"),
        "a": "fuzz_producers",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "i": "",
        "g": str(int(time.time() * 1_000)),  # noqa: TID251 - a client's clock
    }


def _topic(name: str) -> dict[str, str]:
    return {
        **dict.fromkeys(("readQueueNums", "writeQueueNums"), "4"),
        "topic": name,
        "defaultTopic": "TBW102",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }


def _good(answer: RemotingCommand) -> RemotingCommand:
    if answer.code != ResponseCode.SUCCESS:
        raise RuntimeError(f"answered {answer.code}: {answer.remark}")
    return answer


def _text(answer: RemotingCommand) -> str:
    return (
        f"code {answer.code} {answer.remark if answer.code else ''} {sorted(answer.ext_fields.items())} {answer.body!r}"
    )


def _settings(answer: RemotingCommand) -> str:
    """Return the settings that no request of the fuzzer changes."""
    live = {line.partition("=")[0] for line in names.LIVE_SETTINGS}
    lines = [line for line in answer.body.decode().splitlines() if line.partition("=")[0] not in live]
    return "\n".join([f"code {answer.code}", *sorted(lines)])


def _short(text: str, other: str) -> str:
    """Return a text from a little before its first difference."""
    at = next((at for at, (one, two) in enumerate(zip(text, other, strict=False)) if one != two), 0)
    return repr(text[max(0, at - 60) : at + 200])
