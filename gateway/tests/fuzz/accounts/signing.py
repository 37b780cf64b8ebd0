"""Requests that are signed rightly, wrongly, by others, or not at all, and some that aim at what is protected."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from gateway.tests.fuzz.accounts.judge import Judge, Read, read
from gateway.tests.fuzz.accounts.party import CANARY, CANARY_GROUP, MANAGER, ROOT, Member, Party, signature
from gateway.tests.fuzz.accounts.said import said
from gateway.tests.fuzz.requests import names
from gateway.tests.fuzz.requests.frames import frame_of
from gateway.tests.fuzz.requests.grammar import Asked
from wire.codes import RequestCode as Code

AIMED: Final = 0.25
"""Requests in which a name is one that only the administrator may touch."""
RIGHTLY: Final = 0.6
"""Requests that are signed as they should be; some of them are changed afterwards."""
OFTEN: Final = (MANAGER, "fuzz_wide", "fuzz_wide", "fuzz_denied")
"""They may do much, so more of what they ask for is carried out."""
ODD_KEYS: Final = (
    *("Fuzz_Root", "FUZZ_ROOT", " fuzz_root", "fuzz_root ", "fuzz_root\x00", "fuzz_roo\u200bt", "ｆuzz_root"),
    *("User:fuzz_root", "*", "null", "fuzz_root,fuzz_narrow", *names.BAD_NAMES, "a" * 40_000),
)
ODD_SIGNATURES: Final = ("", "=", "null", "é", "A" * 27 + "=", "A" * 28, "x" * 40_000, "\x00", " ")
ODD_FIELDS: Final = (
    *(("accesskey", "fuzz_root"), ("ACCESSKEY", "fuzz_root"), ("AccessKey ", "fuzz_root"), ("Accesskey", "fuzz_root")),
    *(("SecurityToken", "token"), ("OnsChannel", "ALIYUN"), ("_UNIQUE_KEY_QUERY", "true"), ("__ZONE_NAME", "zone")),
    *(("__ZONE_MODE", "x"), ("signature", "x"), ("username", "fuzz_root"), ("", "fuzz_root")),
)
GIVES_AWAY: Final = b"authenticationEnabled=false\nauthorizationEnabled=false\naclEnable=false"
_SETTINGS: Final = (Code.UPDATE_BROKER_CONFIG, Code.UPDATE_NAMESRV_CONFIG)


class Signing:
    """Makes the frames of requests.

    :param message_id: of the message that nobody may read.
    """

    def __init__(self, random: Random, party: Party, judge: Judge, message_id: str) -> None:
        self._random = random
        self._party = party
        self._judge = judge
        self._message_id = message_id
        self._signers = [*party.signers, ROOT, ROOT, *(party.members[name] for name in OFTEN if name in party.members)]
        self._earlier: deque[str] = deque(["x"], 50)
        """Signatures of earlier requests."""

    def frame(self, asked: Asked) -> bytes:
        """Return the bytes of a request, signed in some way. The request is changed."""
        random = self._random
        if random.random() < AIMED:
            self._aim(asked)
        plain = list(asked.fields)
        member = random.choice(self._signers)
        if random.random() < 0.03:
            self._add(asked, random.choice(ODD_FIELDS))
        self._sign(asked, member)
        if random.random() > RIGHTLY:
            self._spoil(asked)
        frame = frame_of(asked)
        found = read(frame)
        if found is not None and self._does_harm(found):
            asked.fields = [*plain, ("AccessKey", ROOT.name), ("Signature", random.choice(ODD_SIGNATURES))]
            frame = frame_of(asked)
        return frame

    def _sign(self, asked: Asked, member: Member) -> None:
        asked.fields = [(name, value) for name, value in asked.fields if name not in ("AccessKey", "Signature")]
        asked.fields.append(("AccessKey", member.name))
        found = read(frame_of(asked))
        if found is not None:
            signed = signature(member.secret, found.fields, found.body)
            asked.fields.append(("Signature", signed))
            self._earlier.append(signed)

    # -- what is wrong --------------------------------------------------------------------------------------

    def _spoil(self, asked: Asked) -> None:
        random = self._random
        kind = random.randrange(10)
        if kind == 0:
            asked.fields = [pair for pair in asked.fields if pair[0] != random.choice(("AccessKey", "Signature"))]
        elif kind == 1:
            asked.fields = [pair for pair in asked.fields if pair[0] not in ("AccessKey", "Signature")]
        elif kind == 2:
            self._put(asked, "AccessKey", random.choice(ODD_KEYS))
        elif kind == 3:
            self._put(asked, "AccessKey", random.choice(list(self._party.members)))
        elif kind == 4:
            self._put(asked, "Signature", random.choice(ODD_SIGNATURES))
        elif kind == 5:
            self._put(asked, "Signature", random.choice(self._earlier))
        elif kind == 6:
            self._splice(asked)
        elif kind == 7:
            name = random.choice(("AccessKey", "Signature"))
            value: Any = random.choice((*self._party.members, *self._earlier, None, 1, [], True))
            asked.fields.insert(random.choice((0, len(asked.fields))), (name, value))
        elif kind == 8:
            asked.code = random.choice((Code.GET_BROKER_CONFIG, Code.AUTH_LIST_USER, Code.UPDATE_BROKER_CONFIG, 99))
            asked.body = GIVES_AWAY if asked.code in _SETTINGS else asked.body
        else:
            self._add(asked, random.choice(ODD_FIELDS))

    def _splice(self, asked: Asked) -> None:
        """Move characters from one value to the next, or change a value after the signature."""
        random = self._random
        texts = [at for at, (_, value) in enumerate(asked.fields) if isinstance(value, str) and value]
        if len(texts) < 2:
            return
        one, other = random.sample(texts, 2)
        name, value = asked.fields[one]
        cut = random.randint(0, len(value))
        asked.fields[one] = (name, value[:cut])
        if random.random() < 0.7:
            next_name, next_value = asked.fields[other]
            asked.fields[other] = (next_name, value[cut:] + next_value)

    def _put(self, asked: Asked, name: str, value: Any) -> None:
        asked.fields = [(known, value if known == name else kept) for known, kept in asked.fields]

    def _add(self, asked: Asked, pair: tuple[str, str]) -> None:
        asked.fields.insert(self._random.randint(0, len(asked.fields)), pair)

    # -- what is aimed at -----------------------------------------------------------------------------------

    def _aim(self, asked: Asked) -> None:
        random = self._random
        for known, protected in self._targets():
            if random.random() < 0.7:
                asked.fields = [
                    (name, protected if value in known else value) if isinstance(value, str) else (name, value)
                    for name, value in asked.fields
                ]
                for text in known:
                    if text:
                        asked.body = asked.body.replace(f'"{text}"'.encode(), f'"{protected}"'.encode())
        if asked.code in _SETTINGS:
            asked.body = GIVES_AWAY
        if asked.code == Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG:
            self._put(asked, "globalWhiteAddrs", "*")

    def _targets(self) -> Sequence[tuple[Sequence[str], str]]:
        random = self._random
        user = random.choice(self._party.protected)
        return (
            (names.TOPICS, random.choice((CANARY, CANARY, f"%RETRY%{CANARY_GROUP}", "honest"))),
            (names.GROUPS, CANARY_GROUP),
            (names.USERS, user),
            (names.SUBJECTS, f"User:{user}"),
            (names.RESOURCES, random.choice(("*", "Topic:*", "Topic:canary", "Cluster:DefaultCluster"))),
            (names.PERMISSIONS, "PUB|SUB"),
            (("fuzz", "ORDER_TOPIC_CONFIG"), CANARY),
            ([text for text in names.MESSAGE_IDS if text], self._message_id),
            (names.BROKERS, names.BROKER),
            (names.WHITE, "*"),
        )

    def _does_harm(self, asked: Read) -> bool:
        """Return whether a request would be carried out, and change what has to stay or make another administrator."""
        sender = self._judge.sender(asked)
        if sender is None:
            return False
        values = [value for name, value in asked.fields.items() if name not in ("AccessKey", "Signature")]
        texts = said(asked.fields, asked.body)
        is_protected = any(name in texts for name in self._party.protected) or self._message_id in texts
        if not ((sender.is_admin and sender.is_enabled) or sender.name == MANAGER):
            return is_protected and asked.code in _REGISTERS and self._judge.forbids(asked) is None
        if is_protected:
            return True
        if names.BROKER in values or f'"{names.BROKER}"' in texts:
            return asked.code not in _READS_BROKER
        wide = ('"*"', "Topic:*", "Group:*", "Cluster:DefaultCluster")
        if {"*", "PUB|SUB"} & set(values) or any(text in texts for text in wide):
            return asked.code in _ACCOUNTS
        if asked.code == Code.GATEWAY_SETTLE_TRANSACTION and asked.fields.get("id") not in names.TRANSACTION_IDS:
            return True
        if asked.fields.get("admin", "false").strip().lower() != "false" and asked.code in _ACCOUNTS:
            return True
        return sender.is_admin and "super" in texts.lower() and asked.code in _ACCOUNTS


_ACCOUNTS: Final = frozenset(range(50, 55)) | frozenset(range(3001, 3011))
_REGISTERS: Final = (Code.REGISTER_BROKER, Code.REGISTER_TOPIC_IN_NAMESRV)
"""Who may do them for one cluster adds a broker to the route of every topic in the body."""
_READS_BROKER: Final = frozenset(
    code
    for code in Code
    if code
    not in (
        *(Code.REGISTER_BROKER, Code.UNREGISTER_BROKER, Code.BROKER_HEARTBEAT, Code.WIPE_WRITE_PERM_OF_BROKER),
        *(Code.ADD_WRITE_PERM_OF_BROKER, Code.REGISTER_TOPIC_IN_NAMESRV),
    )
)
