"""Measure how easy the product is to read: wide functions and classes, full folders, names with two meanings, size.

``python -m docs.measure`` prints each figure beside its limit, ``--list`` the places as well, ``--root`` measures
another checkout. The product is every module below ``wire`` and ``gateway`` outside folders named ``tests``. Nothing
is imported: the sources are parsed, so that any commit can be measured.

How each figure is counted:

- *Parameters* of a function are all that its definition names, keyword-only ones, ``*args`` and ``**kwargs`` included,
  without a first ``self`` or ``cls``. Constructors that ``@dataclass`` writes do not count: they only store.
- *Collaborators* of a class are the parameters of its own ``__init__`` that are not plain values. Where ``@dataclass``
  writes the constructor, its fields count in the same way, if the class has a method of its own that is no property
  (a class without is data that travels together, not a working class). A plain value has an annotation that names
  nothing but built-in types, collections, paths, enumerations, ``NewType``s, named tuples, structs, and frozen
  dataclasses whose fields are plain themselves. A callable is a collaborator.
- *Files of a folder* are the Python files directly in it, ``__init__.py`` included.
- *Class names* are those at module level without a leading underscore. An asyncio class and its blocking twin of the
  same name count too.
- *Results told apart by type* are calls ``isinstance(…, BaseException)`` and ``isinstance(…, Exception)``, in which
  either may be part of a tuple or union of types.
- *Lines* are lines of the files, blank ones and docstrings included.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

PACKAGES = ("wire", "gateway")
MOST_PARAMETERS = 6
MOST_COLLABORATORS = 7
MOST_FILES = 16

# fmt: off
PLAIN = frozenset({
    "Any", "None", "bool", "bytearray", "bytes", "complex", "float", "int", "memoryview", "object", "range", "str",
    "AbstractSet", "Buffer", "Collection", "Counter", "Iterable", "Iterator", "Mapping", "MutableMapping",
    "OrderedDict", "Sequence", "Set", "array", "defaultdict", "deque", "dict", "frozenset", "list", "set", "tuple",
    "ClassVar", "Final", "Literal", "Optional", "Union",
    "Decimal", "Path", "PurePath", "UUID", "datetime", "timedelta",
})
# fmt: on
"""Names whose values do nothing by themselves."""
PLAIN_BASES = frozenset({"Enum", "Flag", "IntEnum", "IntFlag", "NamedTuple", "StrEnum", "Struct", "TypedDict"})
"""Base classes of plain values."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """A parsed file of the product."""

    path: str
    """Below the root of the checkout."""
    lines: int
    tree: ast.Module


class Place(NamedTuple):
    """Where something was counted."""

    amount: int
    """The number that is judged, for example of parameters."""
    what: str


class Figure(NamedTuple):
    """A figure of the page, with the places it was counted at."""

    title: str
    limit: int
    places: list[Place]
    total: int | None = None
    """The value where it is not the number of places."""

    @property
    def value(self) -> int:
        """The number to compare with the limit."""
        return len(self.places) if self.total is None else self.total


def modules_of(root: Path) -> list[Module]:
    """Parse every module of the product."""
    found = []
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            relative = path.relative_to(root)
            if "tests" not in relative.parts:
                text = path.read_text(encoding="utf-8")
                found.append(Module(str(relative), len(text.splitlines()), ast.parse(text)))
    return found


def figures(root: Path) -> list[Figure]:
    """Return every figure of a checkout, in the order of the page."""
    modules = modules_of(root)
    lines = Counter[str]()
    for module in modules:
        lines[str(Path(module.path).parent)] += module.lines
    return [
        Figure(f"functions with more than {MOST_PARAMETERS} parameters", 15, wide_functions(modules)),
        Figure(f"working classes with more than {MOST_COLLABORATORS} collaborators", 0, wide_classes(modules)),
        Figure(f"folders with more than {MOST_FILES} files", 0, full_folders(root, tests=False)),
        Figure("class names that exist in more than one module", 10, shared_names(modules)),
        Figure("results told apart by isinstance(…, BaseException)", 0, told_apart(modules)),
        Figure("lines", 76_000, [Place(number, folder) for folder, number in lines.items()], sum(lines.values())),
    ]


# -- functions ---------------------------------------------------------------------------------------------


def wide_functions(modules: Sequence[Module]) -> list[Place]:
    """List the functions that take too many parameters."""
    return [
        Place(number, f"{module.path}:{function.lineno} {name}")
        for module in modules
        for name, function in _functions(module.tree, "")
        if (number := len(_parameters(function))) > MOST_PARAMETERS
    ]


def _functions(parent: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    """Walk over the functions in a module or class, each with its dotted name."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, Function | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if isinstance(node, Function):
                yield name, node
            yield from _functions(node, f"{name}.")
        else:
            yield from _functions(node, prefix)


def _parameters(function: Function) -> list[ast.arg]:
    """Return the parameters of a function, without a first ``self`` or ``cls``."""
    named = function.args
    rest = [argument for argument in (named.vararg, named.kwarg) if argument]
    found = [*named.posonlyargs, *named.args, *named.kwonlyargs, *rest]
    return found[1:] if found and found[0].arg in ("self", "cls") else found


# -- classes -----------------------------------------------------------------------------------------------


def wide_classes(modules: Sequence[Module]) -> list[Place]:
    """List the classes that work with too many others."""
    classes = [(module, node) for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    plain = _plain_names(modules, [node for _, node in classes])
    return [
        Place(number, f"{module.path}:{node.lineno} {node.name}")
        for module, node in classes
        if (number := sum(not _is_plain(given, plain) for given in _given(node))) > MOST_COLLABORATORS
    ]


def _given(node: ast.ClassDef) -> list[ast.expr | None]:
    """Return the annotations of what the constructor of a working class takes."""
    methods = [part for part in node.body if isinstance(part, Function)]
    for method in methods:
        if method.name == "__init__":
            return [argument.annotation for argument in _parameters(method)]
    does_something = any(not _is_property(method) and not method.name.startswith("__") for method in methods)
    return [field.annotation for field in _fields(node)] if does_something and _dataclass(node) else []


def _fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    """Return the fields of a dataclass that its constructor takes."""
    return [
        part
        for part in node.body
        if isinstance(part, ast.AnnAssign) and "ClassVar" not in _names(part.annotation) and not _is_made_inside(part)
    ]


def _is_made_inside(field: ast.AnnAssign) -> bool:
    """Say whether a field is no parameter: ``field(init=False, …)``."""
    call = field.value
    return isinstance(call, ast.Call) and any(word.arg == "init" for word in call.keywords)


def _dataclass(node: ast.ClassDef) -> ast.expr | None:
    """Return the decorator that makes a dataclass of a class."""
    return next((found for found in node.decorator_list if "dataclass" in _names(found)), None)


def _is_property(function: Function) -> bool:
    return any("property" in name for found in function.decorator_list for name in _names(found))


def _plain_names(modules: Sequence[Module], classes: Sequence[ast.ClassDef]) -> frozenset[str]:
    """Find all names of plain values: each round may prove plain what is made of those found before."""
    named: dict[str, list[ast.ClassDef]] = defaultdict(list)
    for node in classes:
        named[node.name].append(node)
    aliases = dict(_aliases(modules))
    plain = PLAIN
    while True:
        found = {name for name, same in named.items() if all(_is_value_class(node, plain) for node in same)}
        found |= {name for name, value in aliases.items() if name not in named and _is_plain(value, plain)}
        if found <= plain:
            return plain
        plain |= found


def _aliases(modules: Sequence[Module]) -> Iterator[tuple[str, ast.expr]]:
    """Walk over the types that modules name: ``Name = NewType("Name", …)``, ``Name: TypeAlias = …``, ``Name = …``."""
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                value = node.value
                if isinstance(value, ast.Call) and "NewType" in _names(value.func):
                    yield node.targets[0].id, value.args[1]
                elif isinstance(value, ast.Subscript | ast.BinOp | ast.Name):
                    yield node.targets[0].id, value
            elif isinstance(node, ast.AnnAssign) and node.value and "TypeAlias" in _names(node.annotation):
                yield ast.unparse(node.target), node.value


def _is_value_class(node: ast.ClassDef, plain: frozenset[str]) -> bool:
    bases = {name for base in node.bases for name in _names(base)}
    if bases & PLAIN_BASES or bases & (plain - {"object"}):
        return True
    decorator = _dataclass(node)
    is_frozen = isinstance(decorator, ast.Call) and any(word.arg == "frozen" for word in decorator.keywords)
    return is_frozen and all(_is_plain(field.annotation, plain) for field in _fields(node))


def _is_plain(annotation: ast.expr | None, plain: frozenset[str]) -> bool:
    return annotation is not None and _names(annotation) <= plain


def _names(annotation: ast.expr) -> set[str]:
    """Return the names in an annotation, the last part of dotted ones, without the words of a ``Literal``."""
    if isinstance(annotation, ast.Name):
        return {annotation.id}
    if isinstance(annotation, ast.Attribute):
        return {annotation.attr}
    if isinstance(annotation, ast.Subscript) and "Literal" in _names(annotation.value):
        return set()
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return _names(ast.parse(annotation.value, mode="eval").body)
    parts = (node for node in ast.iter_child_nodes(annotation) if isinstance(node, ast.expr))
    return {name for part in parts for name in _names(part)}


# -- folders, names, results -------------------------------------------------------------------------------


def full_folders(root: Path, *, tests: bool) -> list[Place]:
    """List the folders of the product, or of its tests, that hold too many files."""
    files = [path.relative_to(root) for package in PACKAGES for path in (root / package).rglob("*.py")]
    folders = Counter(str(path.parent) for path in files if ("tests" in path.parts) is tests)
    return [Place(number, folder) for folder, number in folders.items() if number > MOST_FILES]


def shared_names(modules: Sequence[Module]) -> list[Place]:
    """List the names that public classes of several modules have."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for name in {node.name for node in module.tree.body if isinstance(node, ast.ClassDef)}:
            homes[name].append(module.path)
    return [
        Place(len(paths), f"{name}: {', '.join(paths)}")
        for name, paths in homes.items()
        if len(paths) > 1 and not name.startswith("_")
    ]


def told_apart(modules: Sequence[Module]) -> list[Place]:
    """List the calls that ask whether a result is an error."""
    return [
        Place(1, f"{module.path}:{node.lineno}")
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and _names(node.args[1]) & {"BaseException", "Exception"}
    ]


# -- the page ----------------------------------------------------------------------------------------------


def page(found: Sequence[Figure], *, with_places: bool) -> Iterator[str]:
    """Write a line for each figure, and for each of its places, the largest first, where they are wanted."""
    for figure in found:
        mark = " " if figure.value <= figure.limit else "!"
        yield f"{mark} {figure.value:>7,}  at most {figure.limit:>6,}  {figure.title}"
        if with_places:
            yield from (f"{place.amount:>15,}  {place.what}" for place in sorted(figure.places, reverse=True))


@click.command(help=__doc__.split("\n\n")[0] if __doc__ else None)
@click.option("--list", "with_places", is_flag=True, help="Print the places of each figure.")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(__file__).parents[1],
    help="The checkout to measure; this one unless given.",
)
def main(*, with_places: bool, root: Path) -> None:
    """Print the figures."""
    found = figures(root)
    found.append(Figure(f"folders of tests with more than {MOST_FILES} files", 0, full_folders(root, tests=True)))
    for line in page(found, with_places=with_places):
        click.echo(line)


if __name__ == "__main__":
    main()
