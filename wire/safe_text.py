r"""Text of a peer or of a file, made harmless for a log line and for a terminal.

No text of a peer may break a line, move the cursor, hide text or change the direction of text. The escapes are those of
JSON, ``\u009b``, so a JSON text keeps its value when it is made safe.
"""

from __future__ import annotations

import json
import re

_ABOVE_CONTROLS = (
    "\x7f-\x9f"  # DEL, C1 controls: terminals obey U+009B as they obey ESC [
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"  # format characters, invisible or joined to others
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line and paragraph separators, directions
    "\ud800-\udfff"  # half of a character: it cannot be encoded
    "\ufeff\ufff9-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
UNSAFE = f"\x00-\x1f{_ABOVE_CONTROLS}"
"""The characters that are escaped, in the form of a character class's content: Unicode's Cc, Cf, Cs, Zl and Zp."""
_UNSAFE = re.compile(f"[{UNSAFE}]")
_UNSAFE_IN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f{_ABOVE_CONTROLS}]")
_UNSAFE_IN_JSON = re.compile(f"[{_ABOVE_CONTROLS}]")


def safe_text(text: str, limit: int | None = None) -> str:
    """Return the text as a part of one line, with escapes for unsafe characters.

    :param limit: the most characters; the rest is cut off before characters are escaped.
    """
    if limit is not None and len(text) > limit:
        text = f"{text[:limit]}…"
    return _UNSAFE.sub(_escape, text)


def safe_lines(text: str) -> str:
    """Return the text with escapes for unsafe characters, except line breaks and tabs."""
    return _UNSAFE_IN_LINES.sub(_escape, text)


def safe_json(value: object, indent: int | None = None) -> str:
    """Return a value as readable and safe JSON; the text has the same value as that of ``json.dumps``."""
    return _UNSAFE_IN_JSON.sub(_escape, json.dumps(value, ensure_ascii=False, indent=indent))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
