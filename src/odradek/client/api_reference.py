"""The reference page of the Python API, in Markdown, rendered from the classes themselves.

    python -m odradek.client.api_reference > docs/reference/python-api.md

Signatures are those of the code, sentences the first of each docstring; a test holds the page in
the repository to what this renders.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from itertools import pairwise
from textwrap import dedent
from typing import Any

from odradek.client import errors
from odradek.client.admin.configs import Resource
from odradek.client.aio.admin import Admin as AwaitedAdmin
from odradek.client.aio.consumer import Consumer as AwaitedConsumer
from odradek.client.aio.producer import Producer as AwaitedProducer
from odradek.client.blocking.admin import Admin
from odradek.client.blocking.consumer import Consumer
from odradek.client.blocking.producer import Producer
from odradek.client.blocking.table import read
from odradek.client.consumer import dead_letters
from odradek.client.consumer.batch import Batch
from odradek.client.consumer.record import Record
from odradek.client.producer.deliveries import DeliveredRange, Deliveries
from odradek.client.producer.delivery import Delivery, FutureRecordMetadata
from odradek.leaves import source_of

COMMAND = "python -m odradek.client.api_reference > docs/reference/python-api.md"
CLIENTS: tuple[tuple[type[Any], type[Any]], ...] = (
    (Producer, AwaitedProducer),
    (Consumer, AwaitedConsumer),
    (Admin, AwaitedAdmin),
)
VALUES: tuple[type[Any], ...] = (
    Record,
    Batch,
    FutureRecordMetadata,
    Delivery,
    Deliveries,
    DeliveredRange,
)
INTRODUCTION = f"""\
# The Python API

<!-- Rendered: {COMMAND} -->

`from odradek import Producer, Consumer, Admin` for programs with threads; `odradek.aio` has the
same names, with the same methods to be awaited, and `async with` and `async for` in the place of
`with` and `for`. Settings are given as keywords or as a mapping, by
[any of their names](client-settings.md).
"""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    for blocking, awaited in CLIENTS:
        yield f"## {blocking.__name__}\n"
        yield from example(blocking.__module__)
        yield f"`{call(blocking.__name__, blocking)}`\n"
        yield paragraphs(blocking) + "\n"
        yield from methods_of(blocking)
        other = [name for name in public(awaited) if differs(name, blocking, awaited)]
        if other:
            yield "In `odradek.aio`, otherwise than above:\n"
            yield from table(awaited, other)
        lacking = [f"`{name}`" for name in public(blocking) if not hasattr(awaited, name)]
        if lacking:
            yield f"Not in `odradek.aio`: {', '.join(lacking)}.\n"
    yield "## Keys and values\n"
    yield "What a producer makes of them, as `key=` and `value=`:\n"
    yield from example("odradek.client.serializers")
    yield "And a consumer:\n"
    yield from example("odradek.client.deserializers")
    yield "Where that cannot be done, `on_decode_error` says what becomes of the record:\n"
    yield from example("odradek.client.consumer.arguments", "on_decode_error")
    about = [part for part in (dead_letters.__doc__ or "").split("\n\n") if part[:1] != " "]
    yield "\n\n".join(about[1:-1]) + "\n"
    yield "## read\n"
    yield f"`odradek.{call('read', read)}`\n"
    yield paragraphs(read) + "\n"
    yield "## What they give and take\n"
    for kind in VALUES:
        yield from value(declaration(kind))
    yield "## Errors\n"
    yield (
        "In `odradek.errors`. All but `ConfigError` are kinds of `KafkaError`, and have `code` (of "
        "the protocol, or None), `name`, `retriable`, `fatal` (this client cannot go on) and "
        "`requires_abort` (nor can the open transaction).\n"
    )
    yield "| error | |"
    yield "|---|---|"
    for name in errors.__all__:
        kind = getattr(errors, name)
        if isinstance(kind, type):
            yield f"| `{name}` | {sentence(kind.__doc__)} |"
    yield ""


def declaration(kind: type[Any]) -> ast.ClassDef:
    """A class as it is written: those that are compiled do not say it themselves."""
    for node in tree_of(kind.__module__).body:
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            return node
    raise LookupError(f"{kind.__module__} has no class {kind.__name__}")


def tree_of(module: str) -> ast.Module:
    """A module as it is written."""
    with open(source_of(module), encoding="utf-8") as source:
        return ast.parse(source.read())


def value(written: ast.ClassDef) -> Iterator[str]:
    """A class of values: its attributes and methods."""
    yield f"### {written.name}\n"
    yield " ".join((ast.get_docstring(written) or "").split()) + "\n"
    attributes = [each for each in attributes_of(written) if is_public(each)]
    yield f"Attributes: {', '.join(f'`{each}`' for each in attributes)}\n" if attributes else ""
    methods = [each for each in functions_of(written) if not each.decorator_list]
    rows = [each for each in methods if is_public(each.name)]
    if rows:
        yield "| | |"
        yield "|---|---|"
    for each in rows:
        for argument in (*each.args.args, *each.args.kwonlyargs):
            argument.annotation = None
        taken = ast.unparse(each.args).removeprefix("self").removeprefix(", ")
        gives = "" if each.returns is None else f" -> {ast.unparse(each.returns)}"
        shown = f"{each.name}({taken}){gives}".removesuffix(" -> None")
        yield f"| `{in_cell(shown)}` | {sentence(ast.get_docstring(each))} |"
    yield ""


def functions_of(written: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    return (each for each in written.body if isinstance(each, ast.FunctionDef))


def attributes_of(written: ast.ClassDef) -> Iterator[str]:
    """Fields, what `__init__` sets, and properties."""
    for each in written.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id
    for function in functions_of(written):
        if function.name == "__init__":
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                    yield node.attr
        elif function.decorator_list:
            yield function.name


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
                if named and isinstance(behind, ast.Expr):
                    return inspect.cleandoc(str(ast.literal_eval(behind.value)))
    raise LookupError(name)


def methods_of(kind: type[Any]) -> Iterator[str]:
    """The methods and attributes of a class."""
    yield from table(kind, public(kind))


def table(kind: type[Any], names: Any) -> Iterator[str]:
    """Some of them."""
    yield "| | |"
    yield "|---|---|"
    for name in names:
        found = getattr(kind, name)
        shown = call(name, found) if callable(found) else name
        yield f"| `{in_cell(shown)}` | {sentence(found.__doc__)} |"
    yield ""


def public(kind: type[Any]) -> list[str]:
    """The names that are for users, in the order in which they are written down."""
    ordered: dict[str, None] = {}
    for base in kind.__mro__:
        if base.__module__.startswith("odradek."):
            ordered.update(dict.fromkeys(vars(base)))
    return [name for name in ordered if is_public(name)]


def is_public(name: str) -> bool:
    return not name.startswith("_") and name not in HIDDEN


HIDDEN = frozenset({"request", "index", "add", "add_future"})
"""Of values: what the clients' own parts use."""


def differs(name: str, blocking: type[Any], awaited: type[Any]) -> bool:
    """Whether a method is not the same in both faces, but for being awaited."""
    if not hasattr(blocking, name):
        return True
    first, second = (inspect.signature(getattr(face, name)) for face in (blocking, awaited))
    if first.parameters != second.parameters:
        return True
    given = [str(each.return_annotation).removeprefix("Async") for each in (first, second)]
    return given[0] != given[1]


def call(name: str, function: Any) -> str:
    """A call without annotations, and what it gives."""
    signature = inspect.signature(function)
    plain = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    shown = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    if "**of" in shown:
        shown = shown.replace("**of", " | ".join(f"{each}=…" for each in Resource.__annotations__))
    gives = signature.return_annotation
    if isinstance(function, type) or gives in (inspect.Signature.empty, "None", None):
        return f"{name}{shown}"
    return f"{name}{shown} -> {gives}"


def sentence(text: str | None) -> str:
    """The first of a docstring, on one line."""
    first, stop, _ = " ".join((text or "").split()).partition(". ")
    return in_cell(first + stop.strip())


def paragraphs(thing: Any) -> str:
    """A docstring on one line."""
    return " ".join((thing.__doc__ or "").split())


def in_cell(text: str) -> str:
    """Text that is to stand in a table."""
    return text.replace("|", "\\|")


def main() -> None:
    sys.stdout.write(page())


if __name__ == "__main__":
    main()
