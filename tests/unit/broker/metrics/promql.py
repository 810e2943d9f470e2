"""Which metrics and labels a PromQL query names: as much of its grammar as boards use."""

from __future__ import annotations

import re
from typing import NamedTuple

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
SELECTOR = re.compile(r"([A-Za-z_:][\w:]*)\s*(\{[^{}]*\})?\s*(?:\[[^\]]*\])?")
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
WORDS = frozenset({"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring"})
LABEL_VALUES = re.compile(r"label_values\((.*),\s*(\w+)\)$")


class Query(NamedTuple):
    """The selectors of a query, each with its labels, and the labels it groups by."""

    selectors: list[tuple[str, set[str]]]
    grouping: set[str]


def parse(query: str) -> Query:
    """Find what a query names; `label_values(selector, label)` is Grafana's own function."""
    asked = LABEL_VALUES.match(query)
    if asked is not None:
        inner = parse(asked[1])
        return Query(inner.selectors, {asked[2]})
    text = STRING.sub('""', query)
    grouping = {
        name.strip() for found in GROUPING.finditer(text) for name in found[1].split(",") if name
    }
    text = GROUPING.sub(" ", text)
    selectors = []
    for found in SELECTOR.finditer(text):
        name, matchers = found[1], found[2] or ""
        is_call = text[found.end() :].lstrip().startswith("(")
        is_number = found.start() and text[found.start() - 1].isdigit()
        if not (is_call or is_number or name in WORDS):
            selectors.append((name, set(LABEL.findall(matchers))))
    return Query(selectors, grouping)
