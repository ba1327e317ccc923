"""List the checks of the .tflite reader, each with the source of its module without the check."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

READER = ("reader", "flexbuffer")  # in edgetool.model; the modules there that these import belong to them
VALUES = ("enums", "schema", "types")  # but these hold no checks in code; the schema's are _schema_removals
LIMIT = re.compile(r"_?(MAX|BUDGET)_\w+")
NO_LIMIT = 10**30
RULES = re.compile(r"_?([A-Z]+_)*RULES")
COUNTS = re.compile(r"_?([A-Z]+_)*COUNTS")  # a text of entries between commas

Change = Callable[[ast.AST], None]  # what is done to the node that holds the check


@dataclass(frozen=True, slots=True)
class Removal:
    """A check that is removed: its descriptive name, the path of the module in the package, and what returns its
    source without the check, which takes time for hundreds of checks."""

    name: str
    path: str
    source: Callable[[], str]


@dataclass(frozen=True, slots=True)
class _Site:
    """A check in a module: the node to change (its position in ast.walk), the change, and the name of the check."""

    node: int
    change: Change
    name: str


def removals(package: Path) -> Iterator[Removal]:
    """Return every check of the reader, module by module."""
    sources = {name: (package / "model" / f"{name}.py").read_text() for name in _modules(package / "model")}
    trees = {name: ast.parse(source) for name, source in sources.items() if name not in VALUES}
    refusing = _refusing(trees.values())
    checking = _checking(trees.values(), refusing)
    for name, tree in trees.items():
        for site in _Finder(name, tree, refusing, checking).sites():
            yield Removal(site.name, f"model/{name}.py", partial(_without, sources[name], site))
    yield from _schema_removals(sources["schema"])


def _without(source: str, site: _Site) -> str:
    """Return a source without the check at a site."""
    tree = ast.parse(source)
    site.change(list(ast.walk(tree))[site.node])
    return ast.unparse(tree)


def _modules(directory: Path) -> list[str]:
    """Return the reader's modules: those that its entry modules import, directly or indirectly."""
    found: list[str] = []
    waiting = list(READER)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.append(name)
        for node in ast.walk(ast.parse((directory / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("edgetool.model"):
                parts = (node.module or "").split(".")[2:] or [alias.name for alias in node.names]
                waiting.extend(part for part in parts if (directory / f"{part}.py").exists())
    return sorted(found)


def _functions(trees: Iterable[ast.AST]) -> Iterator[ast.FunctionDef]:
    for tree in trees:
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _refusing(trees: Iterable[ast.AST]) -> set[str]:
    """Return the functions that never return, because they reject a file."""
    return {
        function.name
        for function in _functions(trees)
        if function.returns is not None and ast.unparse(function.returns) == "NoReturn"
    }


def _checking(trees: Iterable[ast.AST], refusing: set[str]) -> set[str]:
    """Return the functions that reject a file or call one that does, and those that return such functions."""
    found: set[str] = set()
    functions = [function for function in _functions(trees) if function.name not in refusing]
    while True:
        more = {
            function.name
            for function in functions
            if function.name not in found
            and any(isinstance(node, ast.Raise) or _callee(node) in refusing | found for node in ast.walk(function))
        }
        if not more:
            return found
        found |= more


def _callee(node: ast.AST) -> str:
    """Return the name of the called function or method, without its object; "" for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


class _Finder:
    """Finds the checks in one module."""

    def __init__(self, module: str, tree: ast.Module, refusing: set[str], checking: set[str]) -> None:
        self.module = module
        self.refusing, self.checking = refusing, checking
        self.nodes = list(ast.walk(tree))
        self.places = {node: place for place, node in enumerate(self.nodes)}
        self.owners: dict[ast.AST, str] = {}
        self._name_owners(tree, "")
        self.tree = tree

    def _name_owners(self, node: ast.AST, owner: str) -> None:
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.FunctionDef | ast.ClassDef)
            self.owners[child] = f"{owner}.{child.name}".lstrip(".") if named else owner
            self._name_owners(child, self.owners[child])

    def sites(self) -> Iterator[_Site]:
        for node in self.nodes:
            if self.owners.get(node, "").rpartition(".")[2] in self.refusing:
                continue  # the wording of an error is not a check
            if isinstance(node, ast.If):
                yield from self._condition(node)
            for field in ("body", "orelse", "finalbody"):
                block = getattr(node, field, None)
                if isinstance(block, list) and not isinstance(node, ast.ExceptHandler):
                    yield from self._block(node, field, block)
        for statement in self.tree.body:
            yield from self._table(statement)

    def _site(self, node: ast.AST, change: Change, what: str) -> _Site:
        where = ".".join(part for part in (self.module, self.owners.get(node, "")) if part)
        return _Site(self.places[node], change, f"{where} without {what}")

    def _refuses(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Raise):
            return True
        return isinstance(statement, ast.Expr) and _callee(statement.value) in self.refusing

    def _condition(self, node: ast.If) -> Iterator[_Site]:
        """Yield a whole condition, and its parts."""
        if self._refuses(node.body[-1]):
            yield self._site(node, _never, f"if {ast.unparse(node.test)}")
            yield from self._parts(node)
        if node.orelse and self._refuses(node.orelse[-1]) and not isinstance(node.orelse[0], ast.If):
            yield self._site(node, _always, f"the other case of {ast.unparse(node.test)}")

    def _parts(self, node: ast.If) -> Iterator[_Site]:
        for part in ast.walk(node.test):
            if isinstance(part, ast.BoolOp) and isinstance(part.op, ast.Or):
                for position, value in enumerate(part.values):
                    what = f"{ast.unparse(value)} in {ast.unparse(node.test)}"
                    yield self._site(part, _popped("values", position), what)
            elif isinstance(part, ast.Compare) and len(part.ops) > 1:
                for position in (0, len(part.ops) - 1):
                    side = "left" if position == 0 else "right"
                    what = f"the {side} side of {ast.unparse(part)} in {ast.unparse(node.test)}"
                    yield self._site(part, _left_open(position), what)

    def _block(self, node: ast.AST, field: str, block: list[ast.stmt]) -> Iterator[_Site]:
        """Yield calls of checking functions, unconditional rejections, and exceptions that become rejections."""
        for position, statement in enumerate(block):
            is_call = isinstance(statement, ast.Expr) and _callee(statement.value) in self.checking
            if is_call or (self._refuses(statement) and not isinstance(node, ast.If)):
                yield self._site(node, _passed(field, position), ast.unparse(statement))
            elif isinstance(statement, ast.Try) and any(self._refuses(h.body[-1]) for h in statement.handlers):
                caught = ", ".join(ast.unparse(h.type) for h in statement.handlers if h.type)
                yield self._site(node, _unguarded(field, position), f"catching {caught}")

    def _table(self, statement: ast.stmt) -> Iterator[_Site]:
        """Yield limits, and the entries of tables of rules."""
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            return
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        name = ast.unparse(target)
        if LIMIT.fullmatch(name):
            yield self._site(statement, _unlimited, name)
        if COUNTS.fullmatch(name) and isinstance(statement.value, ast.Constant):
            for entry in str(statement.value.value).split(","):
                yield self._site(statement.value, _cut(entry), f"{name}: {entry.strip()}")
        for node in ast.walk(statement.value):
            if isinstance(node, ast.Dict):
                yield from self._keys(name, node, whole=RULES.fullmatch(name) is not None)
            elif isinstance(node, ast.Tuple | ast.List):
                for position, entry in enumerate(node.elts):
                    if self._is_rule(entry):
                        what = f"{ast.unparse(entry)} at line {entry.lineno - statement.lineno} of {name}"
                        yield self._site(node, _popped("elts", position), what)

    def _is_rule(self, node: ast.AST) -> bool:
        return _callee(node) in self.checking or getattr(node, "id", "") in self.checking

    def _keys(self, name: str, node: ast.Dict, *, whole: bool) -> Iterator[_Site]:
        """Yield the entries of a table of rules; an entry that several operators share is yielded for each of them."""
        if not whole and not any(self._is_rule(part) for entry in node.values for part in ast.walk(entry)):
            return
        for position, key in enumerate(node.keys):
            if not isinstance(key, ast.Constant):
                continue
            words = str(key.value).split()
            if len(words) == 1:
                yield self._site(node, _popped("values", position), f"{name}[{words[0]}]")
            for word in words if len(words) > 1 else ():
                yield self._site(key, _cut(word), f"{word} among {name}")


def _never(node: ast.AST) -> None:
    assert isinstance(node, ast.If)
    node.test = ast.Constant(False)


def _always(node: ast.AST) -> None:
    assert isinstance(node, ast.If)
    node.test = ast.Constant(True)


def _popped(field: str, position: int) -> Change:
    def change(node: ast.AST) -> None:
        if isinstance(node, ast.Dict):
            del node.keys[position]
        del getattr(node, field)[position]

    return change


def _cut(piece: str) -> Change:
    """Return a change that removes one part of a text."""

    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Constant)
        separator = "," if "," in str(node.value) else None
        kept = [word for word in str(node.value).split(separator) if word.strip() != piece.strip()]
        node.value = (separator or " ").join(kept)

    return change


def _left_open(position: int) -> Change:
    """Return a change that removes the first or the last of a chain of comparisons."""

    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        del node.ops[position]
        if position == 0:
            node.left = node.comparators.pop(0)
        else:
            del node.comparators[position]

    return change


def _passed(field: str, position: int) -> Change:
    def change(node: ast.AST) -> None:
        getattr(node, field)[position] = ast.Pass()

    return change


def _unguarded(field: str, position: int) -> Change:
    def change(node: ast.AST) -> None:
        block = getattr(node, field)
        block[position : position + 1] = block[position].body

    return change


def _unlimited(node: ast.AST) -> None:
    assert isinstance(node, ast.Assign | ast.AnnAssign)
    node.value = ast.Constant(NO_LIMIT)


def _schema_removals(source: str) -> Iterator[Removal]:
    """Yield removals in the schema: fields that are no longer indices, indices that may be -1, fields not required."""
    start = source.index("_TABLES = ")
    end = source.index("_TABLES_WITHOUT_FIELDS")
    for role in re.finditer(r"(\w+):\[?\w+\]?(@\w+|!)(\??)", source[:end]):
        field, into, optional = role.groups()
        if role.start() < start:
            continue  # the comment above the fields describes their syntax
        owner = re.findall(r"^(\w+) ", source[start : role.start()], re.MULTILINE)[-1]
        removed = source[: role.start(2)] + source[role.end() :]
        yield Removal(f"schema without {owner}.{field}{into}", "model/schema.py", partial(str, removed))
        if into != "!" and not optional:
            looser = source[: role.end()] + "?" + source[role.end() :]
            yield Removal(f"schema without {owner}.{field}{into} from 0", "model/schema.py", partial(str, looser))
