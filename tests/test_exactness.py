"""Sums of money do not depend on the context of whoever calls.

Python's own operators round to the thread's context, unary minus and ``sum`` too. So an amount
that the package handles outside of its columns is added, negated and rounded by the context of
``fundlab.base.exact``, or by what no context touches (``copy_negate``, ``copy_abs``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from fundlab.tables.schema import TABLES

PACKAGE = Path(__file__).parents[1] / "fundlab"
HOMES = ("base/exact.py", "decimals/")
"""Where the exact context is made, and where the column type computes in integers."""
MODULES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if not path.relative_to(PACKAGE).as_posix().startswith(HOMES)
]
MONEY_COLUMNS = {
    column.name for table in TABLES.values() for column in table.columns if column.kind == "amount"
} | {"balance", "opening", "closing", "rebuilt", "reported", "difference", "receipts"}
ROUNDS = {"quantize", "normalize", "scaleb", "sqrt", "fma", "to_integral_value", "exp", "ln"}
OF_COLUMNS = {"to_dict", "to_pylist", "itertuples", "iterrows", "fetchall"}
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def is_money(annotation: ast.expr | None) -> bool:
    """Whether ``Decimal`` or ``Amount``, or one of them or something else, is what it says."""
    parts = [annotation]
    while parts:
        part = parts.pop()
        if isinstance(part, ast.BinOp):
            parts += [part.left, part.right]
        elif isinstance(part, ast.Name | ast.Attribute):
            name = part.id if isinstance(part, ast.Name) else part.attr
            if name in ("Decimal", "Amount"):
                return True
    return False


def sources(tree: ast.AST) -> Iterator[Path]:
    """The modules of the package that one imports names from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fundlab"):
            place = PACKAGE.parent.joinpath(*str(node.module).split("."))
            yield from (place.with_suffix(".py"), place / "__init__.py")


@cache
def typed(path: Path) -> list[tuple[str, bool, bool]]:
    """Of each attribute and function of a module: its name, whether it is money, which it is."""
    found = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ClassDef):
            found += [
                (entry.target.id, is_money(entry.annotation), False)
                for entry in node.body
                if isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name)
            ]
        elif isinstance(node, ast.FunctionDef):
            found.append((node.name, is_money(node.returns), True))
    return found


def members(path: Path) -> tuple[set[str], set[str]]:
    """Names of attributes and of functions that are or give money, in all classes and functions
    of their name that a module has or imports from; from nowhere else it can get them."""
    attributes: dict[str, list[bool]] = {}
    functions: dict[str, list[bool]] = {}
    for one in {path, *sources(tree(path))} & {*MODULES}:
        for name, money, is_function in typed(one):
            attributes.setdefault(name, []).append(money)
            if is_function:
                functions.setdefault(name, []).append(money)
    found, given = ({n for n, v in names.items() if all(v)} for names in (attributes, functions))
    return found, given


class Scope:
    """The names that hold money in a function, or at the top of a module."""

    def __init__(
        self, node: ast.AST, inside: list[ast.AST], outer: Scope | None,
        known: tuple[set[str], set[str]],
    ) -> None:  # fmt: skip
        self.attributes, self.functions = known
        self.names = set() if outer is None else set(outer.names)
        self.rows = set() if outer is None else set(outer.rows)
        if isinstance(node, Function):
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            self.names -= {one.arg for one in every}
            self.names |= {one.arg for one in every if is_money(one.annotation)}
        names = ast.AnnAssign | ast.Assign | ast.For | ast.comprehension
        found = [inner for inner in inside if isinstance(inner, names)]
        for _ in range(2):  # a name may be of another that is set further down
            for inner in found:
                self.learn(inner)

    def learn(self, node: ast.AST) -> None:
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if is_money(node.annotation):
                self.names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.For | ast.comprehension):
            of_rows = any(
                isinstance(one, ast.Attribute) and one.attr in OF_COLUMNS
                for one in ast.walk(node.iter)
            )
            if of_rows and isinstance(node.target, ast.Name):
                self.rows.add(node.target.id)
        for target, value in pairs:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                both = list(zip(target.elts, value.elts, strict=False))
            else:
                both = [(target, value)]
            for name, given in both:
                if isinstance(name, ast.Name) and self.holds(given):
                    self.names.add(name.id)

    def holds(self, node: ast.expr) -> bool:
        """Whether it is money, as far as the text shows."""
        match node:
            case ast.Name(id=name):
                return name in self.names
            case ast.Attribute(attr=name):
                return name in self.attributes
            case ast.Subscript(value=ast.Name(id=row), slice=ast.Constant(value=column)):
                return row in self.rows and column in MONEY_COLUMNS
            case ast.Call(func=ast.Name(id="Decimal" | "Amount")):
                return True
            case ast.Call(func=ast.Name(id="max" | "min" | "sum" | "abs"), args=[first, *_]):
                inner = first.elt if isinstance(first, ast.GeneratorExp | ast.ListComp) else first
                return self.holds(inner)
            case ast.Call(func=ast.Name(id=name)):
                return name in self.functions
            case ast.Call(func=ast.Attribute(value=ast.Name(id="EXACT"))):
                return True
            case ast.Call(func=ast.Attribute(attr=name)):
                return name in self.functions
            case ast.BinOp(left=left, right=right):
                return self.holds(left) or self.holds(right)
            case ast.UnaryOp(operand=operand):
                return self.holds(operand)
            case ast.BoolOp(values=values):
                return any(map(self.holds, values))
            case ast.IfExp(body=body, orelse=other):
                return self.holds(body) or self.holds(other)
        return False

    def rounds(self, node: ast.AST) -> bool:
        """Whether it computes with money in the context of the thread."""
        match node:
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return self.holds(operand)
            case ast.BinOp(left=left, right=right, op=operator):
                texts = (ast.JoinedStr, ast.BitOr)
                return not isinstance(operator, texts) and (self.holds(left) or self.holds(right))
            case ast.AugAssign(target=target, value=value):
                return self.holds(target) or self.holds(value)
            case ast.Call(func=ast.Name(id="sum" | "abs" | "round"), args=[first, *_]):
                inner = first.elt if isinstance(first, ast.GeneratorExp | ast.ListComp) else first
                return self.holds(inner)
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=args, keywords=given):
                if name not in ROUNDS or not self.holds(value):
                    return False
                return "EXACT" not in map(ast.unparse, [*args, *(one.value for one in given)])
        return False


def walk(node: ast.AST) -> list[ast.AST]:
    """Everything below it, but not what stands in functions within."""
    found: list[ast.AST] = []
    for child in below(node):
        found.append(child)
        if not isinstance(child, Function):
            found += walk(child)
    return found


@cache
def below(node: ast.AST) -> list[ast.AST]:
    return list(ast.iter_child_nodes(node))


def bare(
    node: ast.AST, known: tuple[set[str], set[str]], outer: Scope | None = None
) -> Iterator[str]:
    inside = walk(node)
    scope = Scope(node, inside, outer, known)
    for inner in inside:
        if scope.rounds(inner):
            yield f"line {inner.lineno}: {ast.unparse(inner)}"  # type: ignore[attr-defined]
        if isinstance(inner, Function):
            yield from bare(inner, known, scope)


@pytest.mark.thorough
def test_no_amount_is_computed_in_the_context_of_the_caller() -> None:
    found = [f"{path}: {line}" for path in MODULES for line in bare(tree(path), members(path))]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "def f(a: Decimal): return -a",
        "def f(a: Decimal | None): return (a or Decimal(0)) + 1",
        "def f(rows): return [-row['opening'] for row in rows.to_dict('records')]",
        "def f(entry): return abs(entry.debits)",
        "x = Decimal('1.5')\ny = x * 2",
        "def f(all: list): return sum(Decimal(one) for one in all)",
        "def f(a: Decimal):\n    b = max(a, Decimal(0))\n    return exact_sum([-b])",
        "def f(a: Decimal): return a.quantize(CENT)",
        "def f(a: Decimal):\n    b = EXACT.add(a, a)\n    b -= a",
    ],
)
def test_each_way_to_round_is_found(code: str) -> None:
    assert list(bare(ast.parse(code), ({"debits"}, set())))


def test_exact_ways_are_let_pass() -> None:
    code = """
def f(a: Decimal, frame, n: int):
    b = EXACT.add(a, a.copy_negate())
    frame["held"] = -frame["held"]
    return exact_sum([a, b]), a.quantize(CENT, context=EXACT), -n, sum([n]), f"{a}" + "x"
"""
    assert list(bare(ast.parse(code), (set(), {"exact_sum"}))) == []
