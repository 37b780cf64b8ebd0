"""Expressions and properties for generated tests: well-formed mostly, and of values that Java reads in odd ways."""

from __future__ import annotations

from hypothesis import strategies as st


def _words(text: str) -> list[str]:
    return text.split()


NAMES = ("a", "b", "c", "TAGS", "missing")
LITERALS = _words(
    "5 -5 0 007 5L 2147483647 2147483648 9223372036854775807 9223372036854775808 5.0 5. 1.5 .5 1e3 0.0 1e400 '5' 'abc' "
    "'' 'it''s' 'true' 'NaN' TRUE false NULL 5d"
)
TEXTS = [
    *_words("5 -5 +5 05 5.0 abc true TRUE NaN -NaN Infinity 2147483648 9223372036854775808 1e3 1d 0x1p3 0 -0.0 .5"),
    *_words("5. ٣ ² it's"),
    "",
    " 5",
    "1_000",
]
_string = st.sampled_from(["'5'", "'abc'", "'a'", "''", "'tr'"])


def _predicate(value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    words = st.sampled_from([" ", " NOT "])
    compared = st.builds("{} {} {}".format, value, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), value)
    return st.one_of(
        compared,
        st.builds("{}{}".format, value, st.sampled_from([" IS NULL", " is not null"])),
        st.builds("{}{}BETWEEN {} AND {}".format, value, words, value, value),
        st.builds("{}{}IN ({})".format, value, words, st.lists(_string, min_size=1, max_size=6).map(", ".join)),
        st.builds("{}{}{} {}".format, value, words, st.sampled_from(["CONTAINS", "startswith", "EndsWith"]), _string),
    )


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    value = st.one_of(inner.map("({})".format), st.sampled_from([*NAMES, *LITERALS]), inner.map("-({})".format))
    return st.one_of(
        _predicate(value),
        st.builds("{} {} {}".format, inner, st.sampled_from(["AND", "or"]), inner),
        inner.map("NOT ({})".format),
    )


expressions: st.SearchStrategy[str] = st.recursive(
    _predicate(st.sampled_from([*NAMES, *NAMES, *LITERALS])), _grown, max_leaves=6
)
"""Some of them are refused, for what they compare."""
word_heaps: st.SearchStrategy[str] = st.lists(
    st.sampled_from(
        [*NAMES, *LITERALS, *_words("= <> < > <= >= ( ) , ' . AND OR NOT IN IS NULL BETWEEN - + -- /* */ # $ é")]
    ),
    max_size=14,
).map(" ".join)
"""Words of the language in no order."""
properties: st.SearchStrategy[dict[str, str]] = st.dictionaries(st.sampled_from(NAMES[:4]), st.sampled_from(TEXTS))
