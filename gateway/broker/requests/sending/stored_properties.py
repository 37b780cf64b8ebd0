"""The properties that a message is stored with: those of its sender, and those that the broker adds.

The broker recognises most messages of stock producers by the start and the end of their properties
(``plain_properties``). The place of such a message is then known without further parsing.
"""

# Compiled by mypyc: docs/decisions/0012-compiled-hot-paths.md

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gateway.broker.requests.sending.placing import PLACING, StoredIn
from gateway.broker.requests.sending.plain_properties import HALF_MARK, PlainProperties
from gateway.settings import Settings
from gateway.transaction.records.half_messages import refuse_reason
from wire.message.properties import PropertyName, append_properties, build_properties, parse_properties
from wire.message.record import OutgoingMessage
from wire.quick.sent import SentHeader

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
        """Give a message the properties of a string; return its place, or None if the place has to be found."""
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
