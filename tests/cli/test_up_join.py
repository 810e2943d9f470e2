"""`odradek up --join`: nodes that join a cluster by the address of any of its brokers."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from cli.processes import Up, run
from cli.test_up_nodes import until
from odradek import Admin

QUIET = ("--port", "0", "--http", "none")


def first(tmp_path: Path) -> Up:
    return Up("--cluster", *QUIET, "--data-dir", str(tmp_path / "1"))


def joining(tmp_path: Path, name: str, at: Up, *more: str) -> Up:
    return Up("--join", at.bootstrap, *QUIET, "--data-dir", str(tmp_path / name), *more)


def refused(tmp_path: Path, name: str, address: str, *more: str) -> str:
    """Return what a start says that must fail."""
    directory = ("--data-dir", str(tmp_path / name))
    done = run("up", "--join", address, *QUIET, *directory, *more)
    assert done.returncode == 1, done.stdout
    return done.stderr


def voters(admin: Admin) -> set[int]:
    return {each.node_id for each in admin.quorum().voters}


def test_the_third_node_makes_three_voters_of_one_and_each_keeps_its_place(tmp_path: Path) -> None:
    with first(tmp_path) as one, Admin(brokers=one.bootstrap) as admin:
        done = run("topic", "create", "before", "-b", one.bootstrap)
        assert done.returncode == 0
        with joining(tmp_path, "2", one) as two:
            until(lambda: {node.id for node in admin.cluster().nodes} == {1, 2})
            assert voters(admin) == {1}
            with joining(tmp_path, "3", two) as three:  # Any broker will do.
                until(lambda: voters(admin) == {1, 2, 3})
                assert three.stop() == 0
            (fenced,) = {n.id for n in admin.cluster(include_fenced=True).nodes} - {1, 2}
            assert fenced == 3
            # A member needs no answer, and no option.
            with Up("--http", "none", "--data-dir", str(tmp_path / "3")) as three:
                until(lambda: {node.id for node in admin.cluster().nodes} == {1, 2, 3})
                assert three.stop() == 0
            with joining(tmp_path, "3", one) as three:
                until(lambda: {node.id for node in admin.cluster().nodes} == {1, 2, 3})
                assert voters(admin) == {1, 2, 3}
                assert three.stop() == 0
            two.stop()


def test_a_node_of_a_cluster_keeps_its_host(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "1"))
    with Up("--cluster", "--host", "localhost", *QUIET, *data) as one:
        address = one.bootstrap
        assert address.startswith("localhost:")
        assert one.stop() == 0
    with Up("--http", "none", *data) as one:
        assert one.bootstrap == address


def test_two_that_join_at_once_get_different_ids(tmp_path: Path) -> None:
    with first(tmp_path) as one, contextlib.ExitStack() as stack:
        ups = [joining(tmp_path, name, one) for name in ("2", "3")]
        threads = [threading.Thread(target=stack.enter_context, args=(each,)) for each in ups]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        with Admin(brokers=one.bootstrap) as admin:
            until(lambda: voters(admin) == {1, 2, 3})


def test_a_node_that_serves_no_others_is_joined_after_a_restart_with_cluster(
    tmp_path: Path,
) -> None:
    with Up(*QUIET, "--data-dir", str(tmp_path / "1")) as alone:
        told = refused(tmp_path, "2", alone.bootstrap)
        assert "serves no other nodes" in told
        assert "start it again with --cluster" in told
        assert not (tmp_path / "2").exists()
        assert alone.stop() == 0
    with first(tmp_path) as one, joining(tmp_path, "2", one), Admin(brokers=one.bootstrap) as admin:
        until(lambda: {node.id for node in admin.cluster().nodes} == {1, 2})


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    with first(tmp_path) as one:
        with Up(*QUIET, "--data-dir", str(tmp_path / "other")) as other:
            assert other.stop() == 0
        told = refused(tmp_path, "other", one.bootstrap)
        assert "belongs to cluster" in told
        assert "give a new --data-dir" in told
        assert (tmp_path / "other" / "meta.properties").exists()


def test_the_id_of_a_node_that_runs_is_refused(tmp_path: Path) -> None:
    with first(tmp_path) as one:
        told = refused(tmp_path, "2", one.bootstrap, "--set", "node.id=1")
        assert "node 1 of that cluster runs. What to do: leave out --set node.id" in told


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:99999"])
def test_a_text_that_is_no_address_is_refused(tmp_path: Path, address: str) -> None:
    assert "host:port" in refused(tmp_path, "2", address)


def test_join_is_of_one_node(tmp_path: Path) -> None:
    done = run("up", "-n", "3", "--join", "127.0.0.1:1", "--data-dir", str(tmp_path / "d"))
    assert done.returncode == 2
    assert "--join starts one node, and -n a cluster" in done.stderr


def test_a_node_whose_disk_was_wiped_takes_the_place_of_its_voter(tmp_path: Path) -> None:
    base = str(tmp_path / "d")
    with Up("-n", "3", *QUIET, "--data-dir", base) as cluster:
        second = cluster.ready["nodes"][1]
        os.kill(second["pid"], signal.SIGKILL)
        port = second["address"].rpartition(":")[2]
        at = cluster.ready["nodes"][0]["address"]
        with Admin(brokers=cluster.bootstrap) as admin:

            def voting() -> dict[int, object]:
                return {each.node_id: each.directory_id for each in admin.quorum().voters}

            before = voting()
            shutil.rmtree(second["data_dir"])
            place = ("--port", port, "--http", "none", "--data-dir", second["data_dir"])
            with Up("--join", at, *place, "--set", "node.id=2"):
                # It has waited for the end of the killed process's session.
                until(lambda: set(voting()) == {1, 2, 3} and voting()[2] != before[2])
