"""The tokens of an SQL92 expression, read one at a time.

The tokens are read only when needed, because upstream's parser stops at the end of the first whole expression. It never
reads the text after the word that follows: ``a = 1 or so #`` is an error, ``a = 1 so #`` is ``a = 1``.
"""

from __future__ import annotations

import re
from enum import Enum

from gateway.delivery.filters.sql92_tree import ExpressionError, shown

KEYWORDS = frozenset(
    "NOT AND OR BETWEEN IN TRUE FALSE NULL IS CONTAINS STARTSWITH ENDSWITH".split()  # noqa: SIM905 - reads as a list
)
"""The keywords, in upper or lower case; none of them can name a property."""
LONGEST_KEYWORD = max(map(len, KEYWORDS))

# Nothing is skipped in a string, and a string may hold line ends. A line comment needs its line end: behind the last
# one of the text, two minus signs are two minus signs, and no search for an end begins at each of them.
_SKIPPED_IN_LAST_LINE = re.compile(r"(?:[ \t\f]+|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)+")
_SKIPPED = re.compile(r"(?:[ \t\n\r\f]+|--[^\n\r]*(?:\r\n|\n|\r)|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)+")
_TOKEN = re.compile(
    r"""
      (?P<double> [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ )
    | (?P<decimal> 0 | [1-9][0-9]*[lL]? )
    | (?P<string> ' (?: [^'] | '' )* ' )
    | (?P<word> [A-Za-z_$][A-Za-z0-9_$]* )
    | (?P<symbol> <> | >= | <= | [=<>(),+-] )
    """,
    re.VERBOSE,
)


class TokenKind(Enum):
    """The kind of a token; keywords and symbols are told apart by their text."""

    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    WORD = "word"
    SYMBOL = "symbol"
    KEYWORD = "keyword"
    END = "end"


_KINDS: dict[str | None, TokenKind] = {kind.value: kind for kind in TokenKind}


class Tokens:
    """The current token, and a step to the next.

    ``text`` is the token as written, but keywords are in capitals and strings without quotes. ``mark`` is equal to
    ``text`` for a keyword or a symbol, and empty for other tokens. A plain class without an object for each token: an
    expression may have tens of thousands of tokens, and other requests wait while they are read.
    """

    __slots__ = ("_at", "_end", "_last_line", "_source", "kind", "mark", "text")

    def __init__(self, source: str) -> None:
        self._source = source
        self._last_line = max(source.rfind("\n"), source.rfind("\r")) + 1
        self._at = self._end = 0
        self.kind = TokenKind.END
        self.text = self.mark = ""
        self._step()

    def take(self) -> str:
        """Return the text of the current token, and move to the next one.

        :raises ExpressionError: the following text starts no token.
        """
        taken = self.text
        if self.kind is not TokenKind.END:
            self._step()
        return taken

    def take_mark(self, mark: str) -> bool:
        """Take this keyword or symbol if it is the current token; return whether it is."""
        if self.mark != mark:
            return False
        self._step()
        return True

    def expect(self, mark: str) -> None:
        """Take this keyword or symbol.

        :raises ExpressionError: the current token is another one.
        """
        if not self.take_mark(mark):
            raise self.unexpected(mark)

    def unexpected(self, wanted: str) -> ExpressionError:
        """Return the error for the current token."""
        is_end = self.kind is TokenKind.END
        found = "<EOF>" if is_end else shown(self._source[self._at : self._end])
        at = len(self._source) - 1 if is_end else self._at  # as upstream counts
        return ExpressionError(f'Encountered "{found}" at {self._place(at)}. Was expecting {wanted}')

    def _step(self) -> None:
        source = self._source
        skip = _SKIPPED if self._end < self._last_line else _SKIPPED_IN_LAST_LINE
        skipped = skip.match(source, self._end)
        at = self._at = self._end if skipped is None else skipped.end()
        if at == len(source):
            self._end, self.kind, self.text, self.mark = at, TokenKind.END, "", ""
            return
        found = _TOKEN.match(source, at)
        if found is None:
            character = source[at]
            raise ExpressionError(
                f'Lexical error at {self._place(at)}.  Encountered: "{character}" ({ord(character)})'
                + (", a string without its end" if character == "'" else "")
            )
        self._end = found.end()
        self._classify(_KINDS[found.lastgroup], found[0])

    def _classify(self, kind: TokenKind, text: str) -> None:
        if kind is TokenKind.STRING:
            text = text[1:-1].replace("''", "'")
        elif kind is TokenKind.WORD and len(text) <= LONGEST_KEYWORD and text.upper() in KEYWORDS:
            kind, text = TokenKind.KEYWORD, text.upper()
        self.kind, self.text = kind, text
        self.mark = text if kind is TokenKind.SYMBOL or kind is TokenKind.KEYWORD else ""

    def _place(self, at: int) -> str:
        """Return line and column, both from 1."""
        before = self._source[: max(at, 0)].replace("\r\n", "\n").replace("\r", "\n")
        return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
