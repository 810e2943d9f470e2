"""Plans of `odradek up -n`: ids, directories, ports, voters."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from odradek.cli.cluster_place import (
    BadSettingsOfNodes,
    KeptPlace,
    MadeDirectories,
    cluster_port,
    host_of,
    is_reachable,
    kept_place,
    node_settings,
    open_to_nodes,
)
from odradek.cli.nodes_plan import NodesPlan, plan_nodes
from odradek.config.broker import BrokerConfig
from odradek.config.http import HttpSettings
from odradek.log.directory_identity import META_FILE, MetaProperties, WrongDirectory
from odradek.network.listener import AddressInUseError

FIRST = 16_800
"""It and its CLUSTER port are between those that `odradek up -n --port 0` chooses and those that
`odradek.testing` reserves: tests of one run do not use them elsewhere."""


def plan(
    data_dir: Path | None,
    count: int = 3,
    port: int | None = FIRST,
    host: str = "127.0.0.1",
    **settings: str,
) -> NodesPlan:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return plan_nodes(
        count, host=host, port=port, data_dir=data_dir, given=given, http=HttpSettings()
    )


def identify(directory: Path, node_id: int, cluster: str = "c1") -> Path:
    """Give a directory an identity, as a node that ran there."""
    directory.mkdir()
    identity = MetaProperties(cluster, node_id, UUID(int=node_id + 1))
    (directory / META_FILE).write_bytes(identity.encode())
    return directory


def test_the_nodes_of_a_new_cluster_are_formatted_as_three_voters(tmp_path: Path) -> None:
    made = plan(tmp_path / "d")
    assert not made.is_grown
    assert [node.node_id for node in made.nodes] == [1, 2, 3]
    assert [node.data_dir for node in made.nodes] == [
        tmp_path / name for name in ("d", "d-2", "d-3")
    ]
    ports = [node.place.port for node in made.nodes]
    assert ports[0] == FIRST
    assert ports == sorted(set(ports))
    (voters,) = {node.voters for node in made.nodes}
    assert voters is not None
    assert voters.ids == {1, 2, 3}
    for node in made.nodes:
        assert node.identity is not None
        voter = voters.get(node.node_id)
        assert voter is not None
        assert voter.key.directory_id == node.identity.directory_id
        assert voter.endpoints[0].port == node.place.cluster_port == node.place.port + 10_000
        config = BrokerConfig.load(node.settings)
        assert config.node_id == node.node_id
        assert config.default_replication_factor == 3
        assert config.min_insync_replicas == 2
        assert node.http is not None
    assert len({node.http for node in made.nodes}) == 3


@pytest.mark.parametrize(("count", "voting"), [(2, {1}), (5, {1, 2, 3})])
def test_one_or_three_nodes_vote(tmp_path: Path, count: int, voting: set[int]) -> None:
    made = plan(tmp_path / "d", count)
    assert made.nodes[0].voters is not None
    assert made.nodes[0].voters.ids == voting


def test_settings_given_win_over_the_defaults_of_a_cluster(tmp_path: Path) -> None:
    made = plan(tmp_path / "d", default_replication_factor="1")
    assert BrokerConfig.load(made.nodes[0].settings).default_replication_factor == 1


def test_an_existing_directory_is_the_first_node_and_others_join_it(tmp_path: Path) -> None:
    first = identify(tmp_path / "d", 1)
    made = plan(first)
    assert made.is_grown
    assert [node.node_id for node in made.nodes] == [1, 2, 3]
    assert [node.identity for node in made.nodes] == [None] * 3
    assert [node.place.bootstrap for node in made.nodes] == [
        (),
        *[(f"127.0.0.1:{FIRST + 10_000}",)] * 2,
    ]
    assert [node.settings.get("cluster.id") for node in made.nodes] == [None, "c1", "c1"]


def test_ids_that_directories_have_are_kept_and_new_ones_are_the_lowest_free(
    tmp_path: Path,
) -> None:
    identify(tmp_path / "d", 2)
    identify(tmp_path / "d-3", 1)
    assert [node.node_id for node in plan(tmp_path / "d").nodes] == [2, 3, 1]


def test_kept_ports_stay_unless_another_first_port_is_asked_for(tmp_path: Path) -> None:
    for name, node_id, port in (("d", 1, FIRST), ("d-2", 2, FIRST + 50), ("d-3", 3, FIRST + 7)):
        identify(tmp_path / name, node_id)
        KeptPlace(port, cluster_port(port)).write(tmp_path / name)
    for asked in (None, FIRST, 0):
        same = [node.place.port for node in plan(tmp_path / "d", port=asked).nodes]
        assert same == [FIRST, FIRST + 50, FIRST + 7]
    moved = plan(tmp_path / "d", port=FIRST + 100)
    assert moved.nodes[0].place.port == FIRST + 100
    at = [f"{node.node_id}@127.0.0.1:{node.place.cluster_port}" for node in moved.nodes]
    for node in moved.nodes:
        assert node.settings["controller.quorum.moved.voters"] == ",".join(at)


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    identify(tmp_path / "d", 1)
    identify(tmp_path / "d-2", 2, cluster="c2")
    with pytest.raises(WrongDirectory, match=r"d-2 belongs to cluster c2, and .*d to cluster c1"):
        plan(tmp_path / "d")


def test_a_copied_directory_is_refused(tmp_path: Path) -> None:
    identify(tmp_path / "d", 1)
    identify(tmp_path / "d-2", 1)
    with pytest.raises(WrongDirectory, match="one is a copy"):
        plan(tmp_path / "d")


def test_a_setting_of_one_node_is_refused_for_several(tmp_path: Path) -> None:
    with pytest.raises(BadSettingsOfNodes, match=r"--set node\.id is of one node"):
        plan(tmp_path / "d", node_id="7")


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which another process listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_the_port_that_was_asked_for_must_be_free(tmp_path: Path, taken: int) -> None:
    with pytest.raises(AddressInUseError):
        plan(tmp_path / "d", port=taken)


def test_ports_after_the_first_one_are_the_next_that_are_free() -> None:
    with socket.create_server(("127.0.0.1", cluster_port(FIRST + 201))):
        made = plan(None, port=FIRST + 200)
    ports = [node.place.port for node in made.nodes]
    assert ports[0] == FIRST + 200
    assert FIRST + 201 not in ports


def test_all_ports_may_be_any() -> None:
    made = plan(None, port=0)
    used = [each for node in made.nodes for each in (node.place.port, node.place.cluster_port)]
    assert len(set(used)) == 6
    assert all(node.data_dir is None for node in made.nodes)


def test_a_place_is_kept_in_a_file(tmp_path: Path) -> None:
    assert kept_place(tmp_path) is None
    place = KeptPlace(9093, 19093, ("10.0.0.1:19092", "10.0.0.2:19092"), "controller", "0.0.0.0")
    place.write(tmp_path / "new")
    assert kept_place(tmp_path / "new") == place


def test_a_host_is_the_given_one_or_the_kept_one_or_loopback(tmp_path: Path) -> None:
    assert host_of(None, None) == host_of(None, tmp_path) == "127.0.0.1"
    KeptPlace(9093, 19093, host="0.0.0.0").write(tmp_path)
    assert host_of(None, tmp_path) == "0.0.0.0"
    assert host_of("localhost", tmp_path) == "localhost"


def test_each_node_keeps_the_host_of_all(tmp_path: Path) -> None:
    made = plan(tmp_path / "data", host="localhost")
    assert {node.place.host for node in made.nodes} == {"localhost"}


def test_a_controller_alone_has_the_listener_for_nodes_only() -> None:
    place = KeptPlace(9093, 19093, roles="controller")
    settings = node_settings(1, "127.0.0.1", place, {"process.roles": "controller"})
    assert settings["listeners"] == "CLUSTER://127.0.0.1:19093"
    assert BrokerConfig.load(settings).main_listener().port == 19093


def test_the_cluster_port_is_a_port() -> None:
    assert cluster_port(9092) == 19_092
    assert cluster_port(60_000) == 50_000


def test_a_failed_start_leaves_what_was_there(tmp_path: Path) -> None:
    used, empty, new = tmp_path / "used", tmp_path / "empty", tmp_path / "new"
    identify(used, 1)
    empty.mkdir()
    made = MadeDirectories([used, empty, new])
    for each in (used, empty, new):
        KeptPlace(1, 2).write(each)
    (empty / "logs").mkdir()
    made.remove()
    assert (used / META_FILE).exists()
    assert list(empty.iterdir()) == []
    assert not new.exists()


def test_a_listener_for_nodes_that_other_machines_reach_is_named_with_its_risk() -> None:
    assert [is_reachable(host) for host in ("127.0.0.1", "::1", "localhost")] == [False] * 3
    assert is_reachable("0.0.0.0") and is_reachable("broker.example.com")
    told = open_to_nodes([("192.0.2.1", 19092), ("2001:db8::1", 19093)])
    assert "192.0.2.1:19092, [2001:db8::1]:19093" in told
    assert "without authentication: let only nodes of this cluster reach it" in told
