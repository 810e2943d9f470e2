"""The values of the Python API's page: what calls give and take, as their sources say it.

Compiled classes do not tell their fields, their docstrings or where those come from, so that the
sources are read, as syntax: fields with their types and the docstrings behind them, properties and
methods with theirs. See `api_reference`, whose page this is a part of.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from textwrap import dedent

import odradek
from odradek.leaves import source_of

VALUES = {
    "odradek.model.topics": ("TopicPartition",),
    "odradek.client.consumer.record": ("Record", "TimestampType"),
    "odradek.client.consumer.batch": ("Batch",),
    "odradek.client.consumer.offset_and_metadata": ("OffsetAndMetadata",),
    "odradek.client.consumer.calls": ("Watermarks", "OffsetAndTimestamp"),
    "odradek.client.arrow.reading": ("ArrowBatches",),
    "odradek.client.producer.delivery": ("FutureRecordMetadata", "Delivery"),
    "odradek.client.producer.deliveries": ("Deliveries", "DeliveredRange"),
    "odradek.client.admin.results": (
        "NewTopic",
        "Topic",
        "Partition",
        "ConfigEntry",
        "Source",
        "Group",
        "GroupDescription",
        "Member",
        "Lag",
        "SeekPlan",
        "Move",
        "LogDirectory",
        "Cluster",
    ),
    "odradek.client.cluster_image": ("Node",),
    "odradek.client.list_offsets": ("ListedOffset",),
}
"""By the modules they are written in."""
HIDDEN = frozenset({"request", "index", "add", "add_future"})
"""What the clients' own parts use."""
UNTOLD = frozenset({"Generic", "Protocol", "NamedTuple", "Enum", "IntEnum"})
"""Bases that say nothing to users."""


def is_public(name: str) -> bool:
    return not name.startswith("_") and name not in HIDDEN


def in_cell(text: str | None) -> str:
    """Text that is to stand in a table, on one line."""
    return " ".join((text or "").split()).replace("|", "\\|")


def tree_of(module: str) -> ast.Module:
    """A module as it is written."""
    with open(source_of(module), encoding="utf-8") as source:
        return ast.parse(source.read())


def declaration(module: str, name: str) -> ast.ClassDef:
    """A class as it is written."""
    for node in tree_of(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node
    raise LookupError(f"{module} has no class {name}")


def meaning(module: str, name: str) -> str:
    """What a name for a type stands for."""
    for node in tree_of(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.unparse(node.value)
    raise LookupError(f"{module} has no {name}")


def values() -> Iterator[str]:
    """All of them."""
    for module, names in VALUES.items():
        for name in names:
            yield from value(module, name)


def value(module: str, name: str) -> Iterator[str]:
    """A class of values: where it is from, its attributes and its methods."""
    written = declaration(module, name)
    where = "odradek" if name in odradek.__all__ else module
    bases = [ast.unparse(base) for base in written.bases]
    told = [f"A `{each}`." for each in bases if each.partition("[")[0] not in UNTOLD]
    about = " ".join((ast.get_docstring(written) or "").split())
    yield f"### {name}\n"
    yield " ".join([f"`from {where} import {name}`.", *told, about]) + "\n"
    yield from rows_of(written)


def rows_of(written: ast.ClassDef) -> Iterator[str]:
    """Attributes and methods, as a table."""
    rows = [row for row in (*attributes_of(written), *methods_of(written)) if is_public(row[0])]
    if rows:
        yield "| | |"
        yield "|---|---|"
        for _, shown, text in rows:
            yield f"| `{in_cell(shown)}` | {in_cell(text)} |"
        yield ""


Row = tuple[str, str, str | None]
"""A name, how it is shown, and what is said of it."""


def attributes_of(written: ast.ClassDef) -> Iterator[Row]:
    """Fields, members of enumerations, what `__init__` sets, and properties."""
    yield from fields_in(written.body, {})
    for function in functions_of(written):
        if function.name == "__init__":
            taken = {each.arg: each.annotation for each in function.args.args}
            yield from fields_in(function.body, taken)
        elif "property" in map(ast.unparse, function.decorator_list):
            gives = "" if function.returns is None else f": {ast.unparse(function.returns)}"
            yield function.name, f"{function.name}{gives}", ast.get_docstring(function)


def fields_in(body: list[ast.stmt], taken: dict[str, ast.expr | None]) -> Iterator[Row]:
    """What is declared or set, with its type as far as that is written (`taken`: of arguments)."""
    for node, behind in pairwise([*body, ast.Pass()]):
        target: ast.expr
        kind: ast.expr | None
        if isinstance(node, ast.AnnAssign):
            target, kind = node.target, node.annotation
        elif isinstance(node, ast.Assign):
            target, kind = node.targets[0], None
            if isinstance(node.value, ast.Name):
                kind = taken.get(node.value.id)
        else:
            continue
        name = target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)
        shown = name if kind is None else f"{name}: {ast.unparse(kind)}".replace(": i64", ": int")
        if node.value is not None and is_literal(node.value):
            shown += f" = {ast.unparse(node.value)}"
        yield name, shown, docstring_of(behind)


def is_literal(written: ast.expr) -> bool:
    """Whether it is a number, a text or the like."""
    try:
        ast.literal_eval(written)
    except ValueError:
        return False
    return True


def docstring_of(statement: ast.stmt) -> str | None:
    """What is said behind a field."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return inspect.cleandoc(str(statement.value.value))
    return None


def functions_of(written: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    return (each for each in written.body if isinstance(each, ast.FunctionDef))


def methods_of(written: ast.ClassDef) -> Iterator[Row]:
    """Methods, without the types of their arguments."""
    for each in functions_of(written):
        if not each.decorator_list:
            gives = "" if each.returns is None else f" -> {ast.unparse(each.returns)}"
            shown = f"{each.name}({arguments_of(each)}){gives}".removesuffix(" -> None")
            yield each.name, shown, ast.get_docstring(each)


def arguments_of(function: ast.FunctionDef) -> str:
    """The arguments without their types."""
    for argument in (*function.args.args, *function.args.kwonlyargs):
        argument.annotation = None
    return ast.unparse(function.args).removeprefix("self").removeprefix(", ")


def constructor(module: str, name: str) -> str:
    """How an instance is made."""
    for each in functions_of(declaration(module, name)):
        if each.name == "__init__":
            return f"{name}({arguments_of(each)})"
    raise LookupError(f"{module}.{name} has no constructor of its own")


def example(module: str, name: str | None = None) -> Iterator[str]:
    """What is set apart in the docstring of a module, or of an attribute in it."""
    tree = tree_of(module)
    text = ast.get_docstring(tree) if name is None else attribute_doc(tree, name)
    apart = [part for part in (text or "").split("\n\n") if part.startswith("    ")]
    yield "```\n" + dedent("\n\n".join(apart)) + "\n```\n"


def attribute_doc(tree: ast.Module, name: str) -> str:
    """The docstring behind an annotated attribute of any class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each, behind in pairwise(node.body):
                named = isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == name
                if named and (found := docstring_of(behind)) is not None:
                    return found
    raise LookupError(name)
