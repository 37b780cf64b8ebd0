"""The properties that a message is stored with: those of its sender, and those that the broker adds.

The broker recognises most messages of stock producers by the start and the end of their properties
(``PlainProperties``). The place of such a message is then known without further parsing.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from secrets import randbelow
from typing import Final

from gateway.broker.announcing.store_hosts import LOOPBACK
from gateway.broker.requests.sending.placing import PLACING, StoredIn
from gateway.broker.requests.sending.put_answers import STATUS_REMARKS
from gateway.clock import Milliseconds
from gateway.errors import RequestRefused
from gateway.settings import Settings
from gateway.store.put_result import PutStatus
from gateway.transaction.records.half_messages import refuse_reason
from wire.codes import ResponseCode
from wire.message.message_id import UniqueKeys, pack_host
from wire.message.properties import PropertyName, append_properties, build_properties, parse_properties
from wire.message.record import OutgoingMessage
from wire.quick.sent import SentHeader

MAX_KNOWN: Final = 256
"""The number of endings that are remembered; all of them are forgotten when one more comes."""
MAX_ENDING_CHARACTERS: Final = 512
"""The largest number of characters of an ending that is remembered."""
MAX_TEXT_CHARACTERS: Final = 65_536
"""The largest number of characters of the properties in a header; a longer string is refused before it is parsed.

A string may be longer than the store's limit, because the broker leaves out values that are its own.
"""

HALF_MARK: Final = "TRAN_MSG\x01true\x02"
"""The text before the unique key of a half message."""

_UNIQ_KEY: Final = PropertyName.UNIQ_KEY


def check_text(text: str) -> None:
    """Refuse properties that are far longer than any message may have: parsing 13 MB of them takes two seconds.

    :raises RequestRefused: MESSAGE_ILLEGAL, as for properties that the store refuses.
    """
    if len(text) > MAX_TEXT_CHARACTERS:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, STATUS_REMARKS[PutStatus.PROPERTIES_SIZE_EXCEEDED])


class PlainProperties:
    """The meanings of the texts of properties after the unique key. Such a text, the ending, is parsed only once.

        UNIQ_KEY 0x01 key 0x02 ending
        TRAN_MSG 0x01 true 0x02 UNIQ_KEY 0x01 key 0x02 ending

    Stock producers write the unique key first, or directly after the mark of a half message. The ending is the same in
    most of a producer's messages. A message is plain if its type is NORMAL and it is stored in the topic and queue to
    which it is sent.

    :param added: properties that every message gets.
    :param special: names of properties that a plain message never has in its ending.
    :param mark: the text before the unique key.
    :param learns: False if every text has to be parsed.
    :param takes: returns whether a message is plain whose ending has the given properties; None: each is.
    """

    __slots__ = ("_added", "_known", "_last", "_learns", "_marks", "_special", "_takes", "start")

    def __init__(
        self,
        added: Mapping[str, str],
        special: frozenset[str],
        *,
        learns: bool = True,
        mark: str = "",
        takes: Callable[[Mapping[str, str]], bool] | None = None,
    ) -> None:
        self._added = dict(added)
        self._marks = {**parse_properties(mark), _UNIQ_KEY: ""}
        self._special = special
        self.start = f"{mark}{_UNIQ_KEY}\x01"
        """The text before the unique key in the properties of a plain message."""
        self._takes = takes
        self._learns = learns
        self._known: dict[str, dict[str, str]] = {}  # empty: not plain
        self._last = ""

    def of(self, text: str) -> dict[str, str] | None:
        """Return the properties of a plain message, the added ones included; None if the text has to be parsed.

        ``text`` ends with 0x02 unless None is returned.
        """
        start = len(self.start)
        if not text.startswith(self.start):
            return None
        end = text.find("\x02", start)
        if end <= start:
            return None
        return self.of_key(text[start:end], text[end + 1 :])

    def of_key(self, key: str, ending: str) -> dict[str, str] | None:
        """Return what ``of`` returns for a text that consists of ``start``, a key, 0x02 and an ending."""
        known = self._known.get(ending)
        if known is None:
            known = self._learned(ending)
        if not known:
            return None
        properties = known.copy()
        properties[_UNIQ_KEY] = key
        return properties

    def _learned(self, ending: str) -> dict[str, str]:
        """Return the properties of an ending; empty for an ending that is new or not plain.

        An ending is learned once two messages in a row have it, because some endings never come again.
        """
        if not self._learns or ending != self._last or len(ending) > MAX_ENDING_CHARACTERS:
            self._last = ending
            return {}
        properties = parse_properties(ending)
        is_plain = (
            (not ending or ending.endswith("\x02"))
            and _UNIQ_KEY not in properties
            and self._special.isdisjoint(properties)
            and (self._takes is None or self._takes(properties))
        )
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        known = self._known[ending] = {**self._marks, **properties, **self._added} if is_plain else {}
        return known


SPECIAL: Final = PLACING | {PropertyName.LITE_TOPIC, PropertyName.PRIORITY, PropertyName.SHARDING_KEY}
"""Names of properties that give a message another type than NORMAL, or send the message to another place."""

# Looked up for every message, which for an attribute of an enumeration takes as long as a call.
_ITS_TOPIC: Final = StoredIn.ITS_TOPIC
_HALF_TOPIC: Final = StoredIn.HALF_TOPIC


class StoredProperties:
    """Gives messages their properties.

    :param added: the properties that the broker adds.
    :param unique_key: returns a key for a message whose sender gave it none.
    """

    def __init__(self, settings: Settings, added: Mapping[str, str], unique_key: Callable[[], str]) -> None:
        self._settings = settings
        self._unique_key = unique_key
        self._added = dict(added)
        self._added_raw = build_properties(added)
        self._added_text = self._added_raw.decode()
        self._reserved = frozenset({PropertyName.POP_CK, *added})
        special = self._reserved | SPECIAL
        learns = settings.short_ways
        self._plain = PlainProperties(added, special, learns=learns)
        self._half = PlainProperties(
            added,
            special,
            learns=learns,
            mark=HALF_MARK,
            takes=lambda properties: refuse_reason(properties) is None,
        )

    def give(self, message: OutgoingMessage, text: str) -> StoredIn | None:
        """Give a message the properties of a string; return its place, or None if the place has to be found.

        :raises RequestRefused: MESSAGE_ILLEGAL: the string is far too long.
        """
        check_text(text)
        properties, place = self._plain.of(text), _ITS_TOPIC
        if properties is None and not self._settings.reject_transaction_message:
            properties, place = self._half.of(text), _HALF_TOPIC
        if properties is None:
            self.give_unknown(message, text)
            return None
        message.properties = (text + self._added_text).encode()
        message.property_map = properties
        return place

    def give_known(self, message: OutgoingMessage, header: SentHeader) -> StoredIn | None:
        """Do what ``give`` does for a send of a known form, without building the string if its parts are enough."""
        form = header.form
        known, place = self._plain, _ITS_TOPIC
        if form.before != known.start:
            known, place = self._half, _HALF_TOPIC
            if form.before != known.start or self._settings.reject_transaction_message:
                return self.give(message, header.properties)
        properties = known.of_key(header.unique_key.decode(), form.ending)
        if properties is None:
            return self.give(message, header.properties)
        message.properties = b"".join((form.raw_before, header.unique_key, form.raw_ending, self._added_raw))
        message.property_map = properties
        return place

    def give_unknown(self, message: OutgoingMessage, text: str) -> None:
        """Give a message the properties of a string by parsing the whole string."""
        raw = text.encode()
        properties = parse_properties(text)
        if not self._reserved.isdisjoint(properties):
            # The broker's own values win; a client that forwards a received message sends the old ones.
            for name in self._reserved:
                properties.pop(name, None)
            raw = build_properties(properties)
        if PropertyName.UNIQ_KEY not in properties:
            key = self._unique_key()
            properties[PropertyName.UNIQ_KEY] = key
            raw = append_properties(raw, ((PropertyName.UNIQ_KEY, key),))
        properties.update(self._added)
        if raw and not raw.endswith(b"\x02"):
            raw += b"\x02"
        message.properties = raw + self._added_raw
        message.property_map = properties


def unique_keys(clock: Milliseconds) -> UniqueKeys:
    """Return a maker of keys, for messages without one, that look like those of a client in this process."""
    return UniqueKeys(
        ip=pack_host(LOOPBACK, 0)[:4],
        process_id=os.getpid(),
        instance_hash=randbelow(1 << 31),
        elapsed_ms=lambda: _ms_into_month(clock()),
    )


def _ms_into_month(moment_ms: int) -> int:
    moment = datetime.fromtimestamp(moment_ms / 1000)  # clients count in local time
    start = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int((moment - start).total_seconds() * 1000)
