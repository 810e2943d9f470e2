"""`odradek group`: lag of groups, and changing their offsets."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.piping import Run, lines
from odradek import Admin, Consumer, Producer
from odradek.cli.main import main
from odradek.model.topics import TopicPartition

pytestmark = pytest.mark.usefixtures("admin")
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"


def help_text(*arguments: str) -> str:
    """Return the help of a command as one line."""
    return " ".join(CliRunner().invoke(main, [*arguments, "--help"]).stdout.split())


def test_a_group_can_be_moved_listed_and_deleted(run: Run, admin: Admin) -> None:
    run("topic", "create", "orders", "-p", "2")
    run("group", "seek", "billing", "--to", "start", "-t", "orders", "--dry-run")
    assert lines(run("group", "ls")) == []
    run("group", "seek", "billing", "--to", "start", "-t", "orders", "-y")
    assert lines(run("group", "ls")) == [["billing", "Empty", "classic", ""]]
    expected = [["billing", "orders", str(p), "0", "0", "0"] for p in range(2)]
    assert lines(run("group", "lag", "billing")) == expected
    assert admin.group_offsets("billing").keys() == {
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
    }
    assert lines(run("group", "ls", "-s", "empty", "-s", "Stable")) == lines(run("group", "ls"))
    assert lines(run("group", "ls", "-s", "stable")) == []
    assert "preparingrebalance" in run("group", "ls", "-s", "asleep", code=2).stderr.lower()
    run("g", "rm", "billing", "-y")
    assert lines(run("groups", "list")) == []


@pytest.mark.parametrize(
    ("where", "offset", "asked", "said"),
    [
        ("99", 3, 99, "orders-0 ends at 3: moved there, not to 99"),
        ("0", 1, 0, "orders-0 starts at 1: moved there, not to 0"),
        ("-4", 1, -1, "orders-0 starts at 1: moved there, not to -1"),
        ("+4", 3, 5, "orders-0 ends at 3: moved there, not to 5"),
        ("2", 2, None, ""),
        ("end", 3, None, ""),
        ("@0", 1, None, ""),
    ],
)
def test_a_position_beyond_the_log_is_clamped_and_reported(
    run: Run, admin: Admin, bootstrap: str, where: str, offset: int, asked: int | None, said: str
) -> None:
    run("topic", "create", "orders")
    with Producer(brokers=bootstrap) as producer:
        for _ in range(3):
            producer.send("orders", b"x")
    admin.delete_records({TopicPartition("orders", 0): 1})
    seek = ("group", "seek", "g", "--to", where, "-t", "orders")
    plan = {"topic": "orders", "partition": 0, "committed": None, "new": offset}
    (planned,) = run(*seek, "--dry-run", "--json").stdout.splitlines()
    assert json.loads(planned) == {**plan, "instead_of": asked}
    assert lines(run(*seek, "--dry-run"))[0][3:] == [str(offset), str(asked) if said else ""]
    done = run(*seek, "-y")
    assert done.stderr.splitlines() == [*([said] if said else []), "g: moved in 1 partition"]
    kept = {"topic": "orders", "partition": 0, "offset": offset, "instead_of": asked}
    shown = json.loads(run(*seek, "-y", "--json").stdout)
    clamped = {"clamped": [kept]} if said else {}
    assert shown == {"group": "g", "partitions": 1, **clamped}
    assert admin.group_offsets("g")[TopicPartition("orders", 0)].offset == offset


def test_a_group_can_be_moved_to_the_offsets_of_another(run: Run, admin: Admin) -> None:
    run("topic", "create", "orders", "refunds", "-p", "2")
    admin.alter_group_offsets("first", {TopicPartition("orders", 0): 0})
    admin.alter_group_offsets("first", {TopicPartition("refunds", 1): 0})
    run("group", "seek", "second", "--to-group", "first", "-t", "refunds", "-y")
    assert lines(run("group", "lag", "second")) == [["second", "refunds", "1", "0", "0", "0"]]
    run("group", "seek", "second", "--to-group", "first", "-y")
    assert admin.group_offsets("second").keys() == admin.group_offsets("first").keys()
    assert "first or" not in run("group", "seek", "second", "-y", code=2).stderr


def test_the_other_group_must_exist_and_have_committed_the_topics(run: Run, admin: Admin) -> None:
    run("topic", "create", "orders", "refunds")
    admin.alter_group_offsets("first", {TopicPartition("orders", 0): 0})
    follow = ("group", "seek", "second", "-y", "--to-group")
    missing = run(*follow, "third", code=4).stderr
    assert "group third: GROUP_ID_NOT_FOUND" in missing
    assert "odradek group ls" in missing
    assert "nowhere" in run(*follow, "first", "-t", "orders", "-t", "nowhere", code=4).stderr
    nothing = run(*follow, "first", "-t", "orders", "-t", "refunds", code=1).stderr
    assert nothing == "odradek: first has committed nothing in refunds\n"
    own = run("group", "seek", "second", "--to", "start", "-y", code=4).stderr
    assert "group second: GROUP_ID_NOT_FOUND" in own
    assert admin.group_offsets("second") == {}


def test_with_lag_only_partitions_without_lag_are_hidden(
    run: Run, admin: Admin, bootstrap: str
) -> None:
    run("topic", "create", "orders", "-p", "2")
    admin.alter_group_offsets("g", dict.fromkeys(admin.partitions_of(["orders"]), 0))
    with Producer(brokers=bootstrap) as producer:
        producer.send("orders", b"v", partition=1)
    behind = ["g", "orders", "1", "0", "1", "1"]
    assert lines(run("group", "lag", "g", "-l")) == [behind]
    assert [row[:6] for row in lines(run("group", "describe", "g", "-l"))] == [behind]


def test_a_group_with_members_is_neither_moved_nor_deleted(run: Run, bootstrap: str) -> None:
    run("topic", "create", "orders")
    run("group", "seek", "g", "--to", "start", "-t", "orders", "-y")
    with Consumer("orders", group="g", brokers=bootstrap) as member:
        while not member.assignment():
            member.poll(0.1)
        for arguments, answer in itertools.product(
            (("seek", "g", "--to", "end"), ("seek", "g", "--to-group", "g"), ("rm", "g")),
            ("-y", "--dry-run"),
        ):
            refused = run("group", *arguments, answer, code=5)
            said = refused.stderr
            assert refused.stdout == ""
            assert "stop the members" in said
            assert "odradek group describe" in said
        [row] = lines(run("group", "describe", "g"))
        assert row[:6] == ["g", "orders", "0", "0", "0", "0"]
        assert row[6].startswith("odradek-")
        assert run("group", "describe", "g").stderr == "g: Stable, 1 member, range\n"


def test_a_group_with_members_and_no_commits_is_not_moved(run: Run, bootstrap: str) -> None:
    run("topic", "create", "orders")
    with Consumer("orders", group="g", brokers=bootstrap, enable_auto_commit=False) as member:
        while not member.assignment():
            member.poll(0.1)
        for where in ((), ("-t", "orders"), ("-t", "orders", "--dry-run")):
            said = run("group", "seek", "g", "--to", "start", *where, "-y", code=5).stderr
            assert "group g has 1 member" in said
        said = run("group", "seek", "other", "--to-group", "g", "-y", code=1).stderr
        assert said == "odradek: g has committed nothing\n"
    assert "[default: where it has committed]" in help_text("group", "seek")


@pytest.mark.parametrize(
    ("command", "more"),
    [("lag", ()), ("describe", ()), ("seek", ("--to", "start", "--dry-run"))],
)
def test_the_columns_of_piped_output_are_in_the_help_and_the_reference(
    run: Run, admin: Admin, command: str, more: tuple[str, ...]
) -> None:
    run("topic", "create", "orders")
    admin.alter_group_offsets("g", {TopicPartition("orders", 0): 0})
    columns = ", ".join(json.loads(run("group", command, "g", *more, "--json").stdout))
    assert columns in help_text("group", command)
    assert f"`{command}` {columns}" in " ".join(REFERENCE.read_text().split())


def test_partitions_without_commits_are_not_reported_as_missing(run: Run, admin: Admin) -> None:
    run("topic", "create", "orders", "-p", "2")
    admin.alter_group_offsets("g", {TopicPartition("orders", 0): 0})
    for arguments in (("g", "--to", "end"), ("new", "--to-group", "g")):
        said = run("group", "seek", *arguments, "-p", "1", "-y", code=1).stderr
        assert said == "odradek: g has committed nothing in partition 1\n"
        assert "no partition 2" in run("group", "seek", *arguments, "-p", "2", "-y", code=4).stderr
