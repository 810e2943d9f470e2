"""The examples of clusters: valid files, and commands that `odradek up` understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from odradek.cli.cluster_place import KeptPlace, cluster_port, host_of, node_settings
from odradek.cli.up import parse_settings, up
from odradek.config.broker import BrokerConfig

EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"
VARIABLES = {"$HOSTNAME": "odradek-1", "%H": "node1.example", "$place": "--cluster"}
PLACES = ("--cluster", "--join node1.example:9092,node2.example:9092")


def documents() -> list[dict[str, Any]]:
    found = [list(yaml.safe_load_all(path.read_text())) for path in EXAMPLES.glob("*.yaml")]
    return [each for file in found for each in file]


def commands() -> Iterator[list[str]]:
    """The arguments of each `odradek up` in the examples."""
    for document in documents():
        for service in document.get("services", {}).values():
            yield shlex.split(service["command"])[1:]
        if document.get("kind") == "StatefulSet":
            (container,) = document["spec"]["template"]["spec"]["containers"]
            script = container["command"][-1]
            yield arguments(script.partition("exec odradek up")[2])
            for place in re.findall(r'place="([^"]*)"', script):
                yield arguments(place)
    unit = (EXAMPLES / "odradek-node.service").read_text().replace("\\\n", " ")
    for place in PLACES:
        line = re.search(r"^ExecStart=\S+ up (.*)$", unit, re.MULTILINE)
        assert line is not None
        yield arguments(line[1].replace("$ODRADEK_UP", place))


def arguments(text: str) -> list[str]:
    text = text.replace("\\\n", " ")
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    return shlex.split(text)


@pytest.mark.parametrize("given", list(commands()), ids=" ".join)
def test_the_command_of_an_example_starts_a_node_that_others_can_reach(given: list[str]) -> None:
    context = up.make_context("up", list(given))
    assert context.params["cluster"] or context.params["join"]
    settings = parse_settings(context.params["settings"])
    place = KeptPlace(9092, cluster_port(9092))
    config = BrokerConfig.load(
        node_settings(1, host_of(context.params["host"], None), place, settings)
    )
    advertised = config.advertised_cluster_listener()
    assert advertised is not None
    assert not advertised.is_wildcard
    assert advertised.port == 19_092


def test_every_kind_of_example_is_there() -> None:
    assert len(list(commands())) == 8
    kinds = {each.get("kind", "compose") for each in documents()}
    assert kinds == {"compose", "Service", "PodDisruptionBudget", "StatefulSet"}


def test_the_nodes_of_a_stateful_set_find_each_other_before_they_are_ready() -> None:
    by_kind = {each.get("kind"): each for each in documents()}
    assert by_kind["Service"]["spec"]["publishNotReadyAddresses"]
    assert by_kind["StatefulSet"]["spec"]["podManagementPolicy"] == "Parallel"
