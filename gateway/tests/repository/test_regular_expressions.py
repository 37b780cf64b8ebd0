"""No regular expression of the product takes time that grows faster than the text it looks at.

A matcher goes back when it fails. Where two repetitions share characters and stand beside or within each other, every
way to share the text between them is tried: for ten thousand digits a hundred million. Whatever a peer sends may be
such a text. Possessive repetitions (``*+``, ``++``, ``?+``) are never gone back into and are the usual remedy.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for package in ("wire", "gateway")
    for path in (ROOT / package).rglob("*.py")
    if "tests" not in path.parts
)
FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
SEARCHING = FUNCTIONS - {"compile", "match", "fullmatch"}
SHORT = 64
"""So many repetitions at most are a constant, and no repetition."""

OWN_PATTERNS = {
    ("gateway/cli/clients/message_filter.py", "text.encode()"): "written by who runs the command, for the own command",
    ("gateway/spark/options.py", "text"): "written by who starts the Spark job, for names of topics",
    ("gateway/spark/reading/planning.py", "options.pattern"): "the same, in two places",
}
"""Patterns that this test cannot read, as their files have them, and why they are harmless."""

EXCUSED = {
    (
        "gateway/settings/files/properties.py",
        "'((?:\\\\\\\\.|[^\\\\\\\\:= \\\\t\\\\f]++)*)([ \\\\t\\\\f]*+[:=]?[ \\\\t\\\\f]*+)(.*)'",
    ): "ends with what matches everything, so that it never goes back",
    ("gateway/spark/registration.py", '\'version "([^"]+)"\''): "searched for once, in what ``java -version`` prints",
}
"""Patterns that are found fault with, by file and text, and why they are harmless."""

LOOKED_AT = {
    "gateway/delivery/filters/sql92_tokens.py": "comments: a slash after stars ends one, so there is one way to match",
}
"""Files whose patterns are found fault with, and why they are harmless; tests of their own double their input."""

parser: Any = importlib.import_module("re._parser")
compiler: Any = importlib.import_module("re._compiler")
SAMPLES = [*map(chr, range(256)), "\u0160", "\u0660", "\u2028", "\ufeff", "\ufffd", "\ud800", "\U0001f600"]
EVERYTHING = frozenset(SAMPLES)


class Part(NamedTuple):
    """A part of a pattern: all of its characters, those it begins with, and how it repeats."""

    characters: frozenset[str]
    first: frozenset[str]
    optional: bool
    repeats: bool


def faults(pattern: str | bytes, flags: int = 0, *, searched: bool = False) -> list[str]:
    """Return the parts of a pattern whose time grows faster than the text."""
    tree = parser.parse(pattern, flags)
    found: list[str] = []
    parts = _parts(tree, tree.state, found)
    _look_beside(parts, found)
    if searched:
        _look_at_starts(parts, found)
    return found


def _parts(nodes: Any, state: Any, found: list[str]) -> list[Part]:
    parts: list[Part] = []
    for node in nodes:
        name, argument = str(node[0]), node[1]
        if name == "SUBPATTERN":
            parts += _parts(argument[3], state, found)
        elif name in ("AT", "ASSERT", "ASSERT_NOT"):
            if name != "AT":
                _look_beside(_parts(argument[1], state, found), found)
        elif name == "BRANCH":
            ways = [_whole(_checked(way, state, found)) for way in argument[1]]
            parts.append(
                Part(
                    frozenset().union(*(way.characters for way in ways)),
                    frozenset().union(*(way.first for way in ways)),
                    any(way.optional for way in ways),
                    any(way.repeats for way in ways),
                )
            )
        elif name == "ATOMIC_GROUP":
            parts.append(_whole(_checked(argument, state, found))._replace(repeats=False))
        elif name.endswith("_REPEAT"):
            parts.append(_repetition(name, argument, state, found))
        elif name in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            characters = _characters(node, state)
            parts.append(Part(characters, characters, optional=False, repeats=False))
        else:
            found.append(f"{name} is nothing this test can judge")
    return parts


def _repetition(name: str, argument: Any, state: Any, found: list[str]) -> Part:
    least, most, body = argument
    inner = _whole(_checked(body, state, found))
    possessive = name == "POSSESSIVE_REPEAT"
    if inner.repeats and most > 1 and not possessive:
        found.append(f"a repetition within a repetition: {body}")
    if possessive and any(word in repr(body) for word in ("BRANCH", "MAX_REPEAT", "MIN_REPEAT")):
        found.append(f"possessive over what can go back, which CPython before 3.11.5 does wrongly: {body}")
    repeats = not possessive and (inner.repeats or most > SHORT)
    return inner._replace(optional=least == 0 or inner.optional, repeats=repeats)


def _checked(nodes: Any, state: Any, found: list[str]) -> list[Part]:
    parts = _parts(nodes, state, found)
    _look_beside(parts, found)
    return parts


def _whole(parts: Sequence[Part]) -> Part:
    first: frozenset[str] = frozenset()
    for part in parts:
        first |= part.first
        if not part.optional:
            break
    return Part(
        frozenset().union(*(part.characters for part in parts)),
        first,
        all(part.optional for part in parts),
        any(part.repeats for part in parts),
    )


def _characters(node: Any, state: Any) -> frozenset[str]:
    single = compiler.compile(parser.SubPattern(state, [node]), state.flags)
    as_text = isinstance(single.pattern, str | type(None)) and not isinstance(state.str, bytes)
    samples = SAMPLES if as_text else SAMPLES[:256]
    return frozenset(
        sample for sample in samples if single.fullmatch(sample if as_text else sample.encode("latin-1")) is not None
    )


def _look_beside(parts: Sequence[Part], found: list[str]) -> None:
    """Find two repetitions that can share characters, with nothing between them that tells where one ends."""
    for at, part in enumerate(parts):
        if not part.repeats:
            continue
        for later in parts[at + 1 :]:
            shares = bool(later.first & part.characters)
            if later.repeats and shares:
                found.append(f"two repetitions share {_shown(later.first & part.characters)}")
                return
            if not (shares or later.optional):
                break


def _look_at_starts(parts: Sequence[Part], found: list[str]) -> None:
    """Find a repetition that runs over places where the search begins again, when what follows it does not match."""
    for at, part in enumerate(parts):
        if (
            part.characters
            and (part.repeats or len(part.characters) > 1)
            and any(not later.optional for later in parts[at + 1 :])
            and part.repeats
            and _whole(parts[: at + 1]).first & part.characters
        ):
            found.append(f"searched for, and what repeats holds {_shown(part.characters)} of its start")


def _shown(characters: frozenset[str]) -> str:
    return repr("".join(sorted(characters)))[:40]


class Use(NamedTuple):
    """A place where the product makes a pattern."""

    source: str
    line: int
    text: str
    pattern: str | bytes | None
    flags: int
    searched: bool


def _uses(source: str) -> Iterator[Use]:
    text = (ROOT / source).read_text(encoding="utf-8")
    if not re.search(r"\bre\.", text):  # most have none, and take seconds to parse
        return
    tree = ast.parse(text)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    searched = {
        node.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in SEARCHING and isinstance(node.value, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=function)) if function in FUNCTIONS:
                parent = parents[node]
                names = _targets(parent)
                directly = isinstance(parent, ast.Attribute) and parent.attr in SEARCHING
                flags = [word for word in ast.walk(node) if isinstance(word, ast.Attribute) and word.attr.isupper()]
                yield Use(
                    source,
                    node.lineno,
                    ast.unparse(node.args[0]),
                    _pattern(source, node.args[0]),
                    sum(getattr(re, flag.attr) for flag in flags),
                    function in SEARCHING or directly or bool(searched & names),
                )


def _targets(node: ast.AST) -> set[str]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def _pattern(source: str, expression: ast.expr) -> str | bytes | None:
    """The pattern of a place: a constant, or what its expression gives within its module."""
    if isinstance(expression, ast.Constant):
        assert isinstance(expression.value, str | bytes)
        return expression.value
    if any((source, ast.unparse(expression)) == known for known in OWN_PATTERNS):
        return None
    module = importlib.import_module(source.removesuffix(".py").replace("/", "."))
    value = eval(compile(ast.Expression(expression), source, "eval"), vars(module))
    assert isinstance(value, str | bytes), f"{source}: {ast.unparse(expression)}"
    return value


USES = [use for source in SOURCES for use in _uses(source)]


def test_there_are_patterns_to_look_at() -> None:
    assert len(USES) > 50


def test_what_is_listed_is_there() -> None:
    assert {(use.source, use.text) for use in USES if use.pattern is None} == OWN_PATTERNS.keys()
    assert EXCUSED.keys() <= {(use.source, use.text) for use in USES}


@pytest.mark.parametrize(
    "use", [use for use in USES if use.pattern is not None], ids=lambda use: f"{use.source}:{use.line}"
)
def test_a_pattern_never_tries_many_ways_to_share_a_text(use: Use) -> None:
    assert use.pattern is not None
    found = faults(use.pattern, use.flags, searched=use.searched)
    assert not found or use.source in LOOKED_AT or (use.source, use.text) in EXCUSED, f"{use.text}: {found}"


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d+\.?\d*",
        r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?=[,}])",
        r"(a+)+b",
        r"(a|b*)*c",
        r"//[^/@]*:[^/@]*@",
        r"[0-9a-f:.]+:[0-9a-f:.]*:",
        r"[ \t]*=?[ \t]*",
        r"(?:a+){2,3}",
        r"\s+(?:x|\s*y)",
        r"(?=a*a*b)",
        r"(?:[eE][-+]?[0-9]++)?+",
    ],
)
def test_what_grows_is_found(pattern: str) -> None:
    assert faults(pattern)


def test_what_only_grows_when_it_is_searched_for_is_found_then() -> None:
    assert not faults(r"/\*.*?\*/")
    assert faults(r"/\*.*?\*/", searched=True)


@pytest.mark.parametrize(
    "pattern",
    [
        r"[-+]?[0-9]++(?:\.[0-9]*+)?",
        r'"[^"\\]*+(?:\\.[^"\\]*+)*+"',
        r"\d+(?:\.\d+)?[smhd]",
        r"[a-z]{0,62}(\.[a-z]{0,62})*",
        r"a+b+",
        r"a*ba*",
        r"(?:ab)*c",
    ],
)
def test_what_is_harmless_is_not_found(pattern: str) -> None:
    assert not faults(pattern)
