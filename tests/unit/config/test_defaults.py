"""The default of a client's setting stands in the table of settings and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from odradek.config.client import client_kinds

SOURCES = Path(__file__).parents[3] / "src" / "odradek"
LEAST = 1000
"""Numbers below are the defaults of many things."""


def defaults_in(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names and default values of the parameters and of the fields of classes in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            positional = [*node.args.posonlyargs, *node.args.args]
            with_default = positional[len(positional) - len(node.args.defaults) :]
            yield from ((a.arg, d) for a, d in zip(with_default, node.args.defaults, strict=True))
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
                if default is not None:
                    yield argument.arg, default
        elif isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and field.value is not None:
                    yield ast.unparse(field.target), field.value


def constant(value: ast.expr) -> int | str | None:
    """The value of a constant, or of numbers such as `64 * 1024`; None for other expressions."""
    plain = ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop
    if not all(isinstance(node, plain) for node in ast.walk(value)):
        return None
    result = eval(compile(ast.Expression(value), "", "eval"))
    return result if isinstance(result, int | str) else None


def test_a_constant_expression_has_its_value() -> None:
    assert constant(ast.parse("64 * 1024", mode="eval").body) == 65_536
    assert constant(ast.parse("KIB * 1024", mode="eval").body) is None


def test_no_module_repeats_the_default_of_a_setting() -> None:
    settings = [setting for kind in client_kinds() for setting in kind.declared.values()]
    numbers = {s.default for s in settings if isinstance(s.default, int) and s.default >= LEAST}
    named = {(s.attribute, s.default) for s in settings if s.default is not None}
    repeated = [
        f"{path.relative_to(SOURCES)}: {name} = {ast.unparse(value)}"
        for package in ("client", "spark", "cli")
        for path in sorted((SOURCES / package).rglob("*.py"))
        for name, value in defaults_in(ast.parse(path.read_text()))
        if (default := constant(value)) in numbers or (name, default) in named
    ]
    assert repeated == [], "take these from ClientConfig, ProducerConfig, ConsumerConfig"
