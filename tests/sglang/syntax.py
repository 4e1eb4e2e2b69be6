"""Small questions to a Python syntax tree, for the reader of SGLang's sources.

Values are never computed, only read where they are written out: ``None`` means that they aren't.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping

_ADD_ONE = ("append", "add", "insert")
_ADD_MANY = ("extend", "update")
_WRAPPERS = ("list", "tuple", "set", "frozenset", "sorted")


def name(node: ast.AST) -> str:
    """The last part of a (dotted) name, empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def strings(
    node: ast.AST, constants: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[str, ...] | None:
    """The strings written out in ``node``; Python's ``None`` among them reads as "none"."""
    known = constants or {}
    match node:
        case ast.Constant(value=str(text)):
            return (text,)
        case ast.Constant(value=None):
            return ("none",)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return _joined(parts, known)
        case ast.Starred(value=inner):
            return strings(inner, known)
        case ast.BinOp(left=left, op=ast.Add() | ast.BitOr(), right=right):
            return _joined([left, right], known)
        case ast.Call(func=ast.Name(id=called), args=[inner]) if called in _WRAPPERS:
            return strings(inner, known)
        case ast.Name(id=named):
            return known.get(named)
    return None


def _joined(
    nodes: Iterable[ast.AST], known: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...] | None:
    found: list[str] = []
    for node in nodes:
        part = strings(node, known)
        if part is None:
            return None
        found += part
    return tuple(found)


def constants(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """The lists of strings that a module assigns, with what it appends to them afterwards."""
    found: dict[str, tuple[str, ...]] = {}
    for node in tree.body:
        before: tuple[str, ...] = ()
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value):
                values = strings(value, found)
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value):
                values = strings(value, found)
            case ast.AugAssign(target=ast.Name(id=target), op=ast.Add() | ast.BitOr(), value=value):
                values, before = strings(value, found), found.get(target, ())
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=target), attr=method), args=[*_, value]
                )
            ) if target in found and method in _ADD_ONE + _ADD_MANY:
                values, before = strings(value, found), found[target]
            case _:
                continue
        if values is not None:
            found[target] = (*before, *values)
    return found


def functions(trees: Iterable[ast.Module], names: tuple[str, ...]) -> Iterator[ast.FunctionDef]:
    """The functions and methods called one of ``names``."""
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name in names:
                yield node


def compared(test: ast.AST, subjects: tuple[str, ...]) -> tuple[str, ...]:
    """What ``test`` compares one of ``subjects`` with: ``x == "a"`` or ``x in ["a", "b"]``."""
    for node in ast.walk(test):
        match node:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.In()], comparators=[right]):
                if name(left) in subjects:
                    return strings(right) or ()
    return ()


def is_and(test: ast.AST) -> bool:
    """Whether ``test`` asks for several things at once."""
    return isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)
