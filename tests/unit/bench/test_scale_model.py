"""The model of a cluster's costs: it adds up, explains what was measured, says what ends first."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "bench" / "scale_model.py"
spec = importlib.util.spec_from_file_location("scale_model", SOURCE)
assert spec is not None and spec.loader is not None
model = importlib.util.module_from_spec(spec)
sys.modules["scale_model"] = model
spec.loader.exec_module(model)

KNOWN = model.UnitPrices(
    read_gb_s=0.5,
    member_heartbeat_us=60,
    connection_kib=4,
    member_kib=5,
    partition_image_bytes=1024,
    partition_snapshot_bytes=128,
    partition_load_us=10,
    look_us=1,
    record_us=30,
    record_bytes=50,
    follow_record_us=20,
)
ALONE = model.Measurement(
    nodes=1,
    factor=1,
    partitions=1000,
    cpu_us=40,
    cpu_s_per_gb=0.8,
    idle_cpu=(0.01, 0.01),
    pss_mib=(30, 36),
    restart_cpu_s=(0.5, 1.5),
)
THREE = model.Measurement(
    nodes=3,
    factor=3,
    partitions=1000,
    cpu_us=100,
    cpu_s_per_gb=2.0,
    idle_cpu=(0.05, 0.07),
    pss_mib=(90, 111),
    restart_cpu_s=(0.6, 1.6),
)
COSTS = model.fitted(KNOWN, ALONE, THREE)


@pytest.mark.parametrize("measured", [ALONE, THREE])
def test_the_model_explains_the_cpu_that_it_was_fitted_to(measured):
    checks = model.check(COSTS, measured)
    cpu = [each for each in checks if each.name.startswith(("CPU", "idle"))]
    assert len(cpu) == 3
    assert model.largest_error(cpu) < 0.01


def test_the_memory_of_a_replica_is_what_a_cluster_grew_by_without_its_images():
    # 21 MiB for 3,000 replicas, of which each of three nodes has an image of 1,000 KiB.
    assert pytest.approx(6.168, abs=0.001) == COSTS.replica_kib


def test_a_further_replica_costs_what_two_of_them_cost_halved():
    assert (COSTS.request_us, COSTS.follow_request_us) == (40, 30)
    assert COSTS.follow_gb_s == pytest.approx(0.6)
    two = model.Load(nodes=5, factor=2, requests_per_s=1000, readers=0)
    idle = model.predict(COSTS, replace(two, requests_per_s=0))
    assert model.predict(COSTS, two).cores - idle.cores == pytest.approx(0.070)


def test_traffic_is_paid_by_the_byte_whatever_the_nodes_and_shared_by_them():
    def traffic(nodes, gb_per_s):
        load = model.Load(nodes=nodes, gb_per_s=gb_per_s, partitions=100)
        return (
            model.predict(COSTS, load).cores
            - model.predict(COSTS, replace(load, gb_per_s=0.0)).cores
        )

    assert traffic(10, 2.0) == pytest.approx(2 * traffic(10, 1.0))
    assert traffic(100, 1.0) == pytest.approx(traffic(10, 1.0))


def test_an_idle_cluster_pays_for_each_pair_of_nodes_that_follow_each_other():
    ten = model.Load(nodes=10, partitions=10_000)
    assert ten.pairs == 90
    assert model.Load(nodes=10, partitions=2, factor=2).pairs == 2
    idle = model.predict(COSTS, ten).cores
    assert COSTS.pair_cpu == pytest.approx(0.02 / 4)
    assert COSTS.member_cpu == pytest.approx((0.07 - 6 * 0.005) / 3)
    assert idle == pytest.approx(10 * COSTS.member_cpu + 90 * 0.005)


def test_a_failover_changes_every_partition_of_which_the_broker_has_a_replica():
    found = model.predict(COSTS, model.Load(nodes=100, partitions=100_000))
    assert found.failover_records == 3000
    assert found.failover_bytes == 150_000
    assert found.controller_failover_s == pytest.approx(0.1 + 0.09)
    assert found.follow_failover_s == pytest.approx(0.06)


def test_a_start_opens_the_replicas_of_the_node_and_reads_all_of_the_image():
    found = model.predict(COSTS, model.Load(nodes=30, partitions=100_000))
    assert found.start_s == pytest.approx(0.5 + 10_000 * 0.001 + 100_000 * 10e-6)


def test_a_factor_above_the_nodes_has_as_many_replicas_as_nodes():
    assert model.Load(nodes=1, factor=3, partitions=10).replicas_per_node == 10
    assert model.Load(nodes=2, factor=3).followers == 1


@pytest.mark.parametrize(
    ("load", "first"),
    [
        (model.Load(nodes=10, partitions=10_000, gb_per_s=20), "owner thread"),
        (model.Load(nodes=10, partitions=200_000), "recovery"),
        (model.Load(nodes=100, partitions=10_000, connections=10**9), "memory"),
    ],
)
def test_the_limit_that_is_used_most_ends_first(load, first):
    found = model.limits(model.predict(COSTS, load), model.Bounds())
    assert found[0].name == first
    assert [each.used for each in found] == sorted((each.used for each in found), reverse=True)


def test_a_slow_network_ends_before_the_owner_thread():
    found = model.predict(COSTS, model.Load(nodes=10, partitions=100, gb_per_s=1))
    bounds = model.Bounds(network_gb_per_s=0.125)
    assert model.limits(found, bounds)[0].name == "network"
