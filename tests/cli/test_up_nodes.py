"""`odradek up -n 3`: three processes under one parent."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from cli.processes import ODRADEK, Up, data_dir, run
from odradek import Admin
from odradek.errors import UnknownTopicOrPartition

PATIENCE_S = 60.0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """True if a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def replicas_of(admin: Admin, name: str) -> list[int]:
    """The number of replicas of each partition; none if the broker has not heard of the topic."""
    found = [topic for topic in admin.topics() if topic.name == name]
    return [len(each.replicas) for topic in found for each in topic.partitions]


def least_in_sync(admin: Admin, topic: str) -> str | None:
    """Its `min.insync.replicas`; None if the broker has not heard of the topic."""
    try:
        return admin.describe_config(topic=topic)["min.insync.replicas"].value
    except UnknownTopicOrPartition:
        return None


def three(tmp_path: Path) -> Up:
    return Up("-n", "3", "--port", "0", "--http", "none", "--data-dir", data_dir(tmp_path))


def test_three_nodes_are_told_of_in_one_line_and_stop_together(tmp_path: Path) -> None:
    with three(tmp_path) as up:
        nodes = up.ready["nodes"]
        assert [node["id"] for node in nodes] == [1, 2, 3]
        assert up.ready["bootstrap"] == ",".join(node["address"] for node in nodes)
        base = data_dir(tmp_path)
        assert [node["data_dir"] for node in nodes] == [base, f"{base}-2", f"{base}-3"]
        assert up.ready["pid"] == up.process.pid
        with Admin(brokers=up.bootstrap) as admin:
            until(lambda: {node.id for node in admin.cluster().nodes} == {1, 2, 3})
            assert {voter.node_id for voter in admin.quorum().voters} == {1, 2, 3}
            admin.create_topic("t", partitions=2)
            until(lambda: replicas_of(admin, "t") == [3, 3])
        assert up.stop(signal.SIGTERM) == 0
        assert not any(is_alive(node["pid"]) for node in nodes)


def test_a_node_that_dies_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    with three(tmp_path) as up:
        second = up.ready["nodes"][1]
        os.kill(second["pid"], signal.SIGKILL)
        assert up.process.stderr is not None
        told = ""
        while "What to do" not in told:
            told = up.process.stderr.readline()
            assert told, "it said nothing"
        assert f"node 2 (pid {second['pid']}, {second['data_dir']}) was killed by SIGKILL" in told
        assert "2 of 3 nodes run" in told
        others = ",".join(up.ready["nodes"][index]["address"] for index in (0, 2))
        admin = AdminClient({"bootstrap.servers": others})
        until(lambda: set(admin.list_topics(timeout=20).brokers) == {1, 3})
        assert up.stop() == 1


def test_the_end_of_the_parent_is_the_end_of_the_nodes(tmp_path: Path) -> None:
    with three(tmp_path) as up:
        up.process.kill()
        pids = [node["pid"] for node in up.ready["nodes"]]
        until(lambda: not any(map(is_alive, pids)))


def test_a_second_signal_ends_all_at_once(tmp_path: Path) -> None:
    with three(tmp_path) as up:
        pids = [node["pid"] for node in up.ready["nodes"]]
        os.kill(pids[2], signal.SIGSTOP)  # So the clean stop of all cannot end.
        os.kill(up.process.pid, signal.SIGINT)
        until(lambda: not any(map(is_alive, pids[:2])))
        assert up.stop() == 130
        until(lambda: not is_alive(pids[2]))


def test_a_cluster_starts_again_with_what_it_had(tmp_path: Path) -> None:
    with three(tmp_path) as up:
        first = up.ready
        with Admin(brokers=up.bootstrap) as admin:
            admin.create_topic("kept")
            cluster = admin.cluster().cluster_id
        assert up.stop() == 0
    with Up("-n", "3", "--http", "none", "--data-dir", data_dir(tmp_path)) as up:
        assert up.ready["bootstrap"] == first["bootstrap"]
        with Admin(brokers=up.bootstrap) as admin:
            assert admin.cluster().cluster_id == cluster
            assert [topic.name for topic in admin.topics()] == ["kept"]
        assert up.stop() == 0


def test_a_node_alone_with_records_becomes_the_first_of_three(tmp_path: Path) -> None:
    with Up("--port", "0", "--http", "none", "--data-dir", data_dir(tmp_path)) as up:
        done = subprocess.run(
            [*ODRADEK, "produce", "t", "-b", up.bootstrap],
            input="one\ntwo\n",
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0
        assert up.stop() == 0
    with three(tmp_path) as up:
        read = run("consume", "t", "-e", "-b", up.bootstrap)
        assert read.stdout == "one\ntwo\n"
        with Admin(brokers=up.bootstrap) as admin:
            until(lambda: {node.id for node in admin.cluster().nodes} == {1, 2, 3})
            until(lambda: {voter.node_id for voter in admin.quorum().voters} == {1, 2, 3})
            admin.create_topic("new")
            until(lambda: least_in_sync(admin, "new") == "2")
        assert up.stop() == 0


def test_a_port_in_use_is_told_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("up", "-n", "3", "--port", port, "--data-dir", data_dir(tmp_path))
    assert done.returncode == 1
    assert f"odradek: 127.0.0.1:{port} is in use by" in done.stderr
    assert "choose another port with --port" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_fails_in_the_nodes_leaves_nothing_behind(tmp_path: Path) -> None:
    done = run("up", "-n", "3", "--port", "0", "--http", "none", "--data-dir", data_dir(tmp_path),
               "--set", "num.partitions=none")  # fmt: skip
    assert done.returncode == 2
    # The first node that fails ends the others, and it may be any of them.
    assert re.search("node [123]: the settings given", done.stderr)
    assert "num.partitions" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "node.id=2"), "--set node.id is of one node"),
        (("--set", "listeners=PLAINTEXT://:1"), "--set listeners is of one node"),
    ],
)
def test_a_setting_of_one_node_is_refused_for_three(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = run("up", "-n", "3", "--data-dir", data_dir(tmp_path), *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_one_node_of_three_starts_alone_as_a_part_of_its_cluster(tmp_path: Path) -> None:
    with three(tmp_path) as up:
        addresses = [node["address"] for node in up.ready["nodes"]]
        third = up.ready["nodes"][2]
        os.kill(third["pid"], signal.SIGKILL)
        with Up("--http", "none", "--data-dir", third["data_dir"]) as again:
            assert again.bootstrap == third["address"]
            assert again.ready["cluster_address"] == third["cluster_address"]
            with Admin(brokers=addresses[0]) as admin:
                until(lambda: {node.id for node in admin.cluster().nodes} == {1, 2, 3})
            assert again.stop() == 0
        assert up.stop() == 1


def test_three_nodes_in_memory_write_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*ODRADEK, "up", "-n", "3", "--port", "0", "--memory", "--json", "--http", "none"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert [node["data_dir"] for node in ready["nodes"]] == [None] * 3
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.communicate()
    assert list(tmp_path.iterdir()) == []
