"""What is in a Python file, by its syntax tree. Nothing is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
_DOCUMENTABLE = (*_DEFINITIONS, ast.Module)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What one file holds. `documentable`: the module, its classes and its functions."""

    lines: int
    functions: int
    classes: int
    documentable: int
    documented: int
    # Dotted name and lines of the longest function; "" and 0 where there is none.
    longest_function: str
    longest_lines: int


def count(source: bytes, filename: str) -> Counts:
    """Count what is in a file. Raises SyntaxError or ValueError if it does not parse."""
    nodes = list(_walk(ast.parse(source, filename)))
    documentable = [node for _, node in nodes if isinstance(node, _DOCUMENTABLE)]
    functions = [(_length(node), name) for name, node in nodes if isinstance(node, _FUNCTIONS)]
    longest_lines, longest_function = max(functions, key=lambda one: one[0], default=(0, ""))
    return Counts(
        lines=len(source.splitlines()),
        functions=len(functions),
        classes=sum(isinstance(node, ast.ClassDef) for _, node in nodes),
        documentable=len(documentable),
        documented=sum(ast.get_docstring(node) is not None for node in documentable),
        longest_function=longest_function,
        longest_lines=longest_lines,
    )


def _walk(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The module and its statements, with the name of the definition that each is or is in."""
    # A list of what is still to do, because a recursive walk could run out of stack.
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        name, node = stack.pop()
        if isinstance(node, _DEFINITIONS):
            name = f"{name}.{node.name}" if name else node.name
        yield name, node
        # Expressions, most of the tree by far, hold no definition.
        children = ast.iter_child_nodes(node)
        stack += [(name, child) for child in children if not isinstance(child, ast.expr)]


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1
