"""Read classes and their documentation from the sources of the package, as syntax trees.

A compiled class keeps neither its annotations nor the docstrings of its attributes, so both are
read from the source: fields with their types and the docstrings below them, attributes that
`__init__` sets, properties and methods.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from textwrap import dedent

from odradek.leaves import source_of

INTERNAL = frozenset({"request", "index", "add", "add_future", "is_at_the_place_of"})
"""Public by their names, but for the clients' own use."""


def is_public(name: str) -> bool:
    return not name.startswith("_") and name not in INTERNAL


def table_cell(text: str | None) -> str:
    """The text on one line, for a cell of a Markdown table."""
    return " ".join((text or "").split()).replace("|", "\\|")


def tree_of(module: str) -> ast.Module:
    """The syntax tree of a module of the package."""
    with open(source_of(module), encoding="utf-8") as source:
        return ast.parse(source.read())


def class_tree(module: str, name: str) -> ast.ClassDef:
    """The syntax tree of a class. Raises `LookupError`."""
    for node in tree_of(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node
    raise LookupError(f"{module} has no class {name}")


def class_docstring(module: str, name: str) -> str:
    """The docstring of a class, on one line."""
    return " ".join((ast.get_docstring(class_tree(module, name)) or "").split())


def type_alias(module: str, name: str) -> str:
    """The type for which a module defines a short name. Raises `LookupError`."""
    for node in tree_of(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.unparse(node.value)
    raise LookupError(f"{module} has no {name}")


Row = tuple[str, str, str | None]
"""The name of an attribute or method, its signature, and its documentation."""


def member_table(written: ast.ClassDef) -> Iterator[str]:
    """The public attributes and methods of a class as a Markdown table."""
    rows = [row for row in (*attributes_of(written), *methods_of(written)) if is_public(row[0])]
    if rows:
        yield "| | |"
        yield "|---|---|"
        for _, signature, text in rows:
            yield f"| `{table_cell(signature)}` | {table_cell(text)} |"
        yield ""


def attributes_of(written: ast.ClassDef) -> Iterator[Row]:
    """Fields, members of enumerations, attributes that `__init__` sets, and properties."""
    yield from fields_in(written.body, {})
    for function in functions_of(written):
        if function.name == "__init__":
            annotations = {each.arg: each.annotation for each in function.args.args}
            yield from fields_in(function.body, annotations)
        elif "property" in map(ast.unparse, function.decorator_list):
            returns = "" if function.returns is None else f": {ast.unparse(function.returns)}"
            yield function.name, f"{function.name}{returns}", ast.get_docstring(function)


def fields_in(body: list[ast.stmt], annotations: dict[str, ast.expr | None]) -> Iterator[Row]:
    """The fields that these statements declare or set.

    `annotations` are those of the arguments of `__init__`: an attribute that is set to an argument
    has its type.
    """
    for node, next_node in pairwise([*body, ast.Pass()]):
        target: ast.expr
        kind: ast.expr | None
        if isinstance(node, ast.AnnAssign):
            target, kind = node.target, node.annotation
        elif isinstance(node, ast.Assign):
            target, kind = node.targets[0], None
            if isinstance(node.value, ast.Name):
                kind = annotations.get(node.value.id)
        else:
            continue
        name = target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)
        shown = name if kind is None else f"{name}: {ast.unparse(kind)}".replace(": i64", ": int")
        if node.value is not None and is_literal(node.value):
            shown += f" = {ast.unparse(node.value)}"
        yield name, shown, docstring_of(next_node)


def is_literal(written: ast.expr) -> bool:
    """True for a number, a string, None, or a container of such."""
    try:
        ast.literal_eval(written)
    except ValueError:
        return False
    return True


def docstring_of(statement: ast.stmt) -> str | None:
    """The text of a statement that is only a string; None for any other statement."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return inspect.cleandoc(str(statement.value.value))
    return None


def functions_of(written: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    return (each for each in written.body if isinstance(each, ast.FunctionDef))


def methods_of(written: ast.ClassDef) -> Iterator[Row]:
    """Methods, without the types of their arguments."""
    for each in functions_of(written):
        if not each.decorator_list:
            returns = "" if each.returns is None else f" -> {ast.unparse(each.returns)}"
            shown = f"{each.name}({arguments_of(each)}){returns}".removesuffix(" -> None")
            yield each.name, shown, ast.get_docstring(each)


def arguments_of(function: ast.FunctionDef) -> str:
    """The arguments of a method, without `self` and without their types."""
    for argument in (*function.args.args, *function.args.kwonlyargs):
        argument.annotation = None
    return ast.unparse(function.args).removeprefix("self").removeprefix(", ")


def constructor(module: str, name: str) -> str:
    """The call that makes an instance of a class. Raises `LookupError`."""
    for each in functions_of(class_tree(module, name)):
        if each.name == "__init__":
            return f"{name}({arguments_of(each)})"
    raise LookupError(f"{module}.{name} has no __init__ of its own")


def example(module: str, attribute: str | None = None) -> Iterator[str]:
    """The indented paragraphs of the docstring of a module, or of an attribute in it, as code."""
    tree = tree_of(module)
    if attribute is None:
        return indented(ast.get_docstring(tree))
    return indented(attribute_docstring(tree, attribute))


def class_example(kind: type[object]) -> Iterator[str]:
    """The indented paragraphs of the docstring of a class, as code."""
    return indented(ast.get_docstring(class_tree(kind.__module__, kind.__name__)))


def indented(text: str | None) -> Iterator[str]:
    paragraphs = [part for part in (text or "").split("\n\n") if part.startswith("    ")]
    yield "```\n" + dedent("\n\n".join(paragraphs)) + "\n```\n"


def attribute_docstring(tree: ast.Module, name: str) -> str:
    """The docstring below an annotated attribute of any class of a module. Raises `LookupError`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each, next_node in pairwise(node.body):
                named = isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == name
                if named and (found := docstring_of(next_node)) is not None:
                    return found
    raise LookupError(name)
