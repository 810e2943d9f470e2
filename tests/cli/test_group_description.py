"""`odradek group describe`: the members of groups, and groups whose members cannot be listed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from cli.piping import Run
from odradek import Admin, Consumer
from odradek.client.admin import groups
from odradek.client.errors import GroupNotFound
from odradek.model.topics import TopicPartition
from odradek.protocol.api.describe_groups import DescribedGroup


@pytest.fixture
def two(run: Run, admin: Admin, bootstrap: str) -> Iterator[None]:
    """Two members of the group `g` on `t`, which has one partition."""

    def member(client_id: str) -> Consumer[bytes, bytes]:
        return Consumer(
            "t", group="g", brokers=bootstrap, client_id=client_id, enable_auto_commit=False
        )

    with member("one") as first, member("two") as second:
        found = None
        while found is None or found.state != "Stable" or len(found.members) < 2:
            first.poll(0.1)
            second.poll(0.1)
            found = next((admin.group(each.group_id) for each in admin.groups()), None)
        yield


@pytest.mark.usefixtures("two")
def test_a_member_without_partitions_has_a_row_and_no_lag(run: Run) -> None:
    shown = run("group", "describe", "g", "--json").stdout.splitlines()
    reading, idle = map(json.loads, shown)
    assert [reading[name] for name in ("topic", "partition", "lag")] == ["t", 0, 0]
    assert [idle[name] for name in ("topic", "partition", "committed", "end", "lag")] == [None] * 5
    assert {reading["client"], idle["client"]} == {"one", "two"}
    for row in (reading, idle):
        assert row["member"].startswith(row["client"])
        assert [row[name] for name in ("group", "host", "state", "assignor")] == [
            "g",
            "/127.0.0.1",
            "Stable",
            "range",
        ]
    piped = [line.split("\t") for line in run("group", "describe", "g").stdout.splitlines()]
    assert piped[1] == ["g", "", "", "", "", "", idle["member"], idle["client"], *piped[0][8:]]
    assert piped[0][8:] == ["/127.0.0.1", "Stable", "range"]

    assert run("group", "describe", "g", "-l").stdout == ""
    [row] = run("group", "lag", "g").stdout.splitlines()
    assert row.split("\t") == ["g", "t", "0", "", "0", "0"]


def test_a_group_of_another_protocol_is_shown_without_its_members(
    run: Run, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DescribeGroups does not return such a group (KIP-848), but ListGroups and OffsetFetch do."""

    def not_classic(described: DescribedGroup) -> None:
        raise GroupNotFound(f"Group {described.group_id} not found.")

    run("produce", "t", "value")
    admin.alter_group_offsets("others", {TopicPartition("t", 0): 0})
    monkeypatch.setattr(groups, "description_of", not_classic)
    shown = run("group", "describe", "others")
    assert shown.stdout == "others\tt\t0\t0\t1\t1\t\t\t\tEmpty\t\n"
    assert shown.stderr == "others: Empty, of type classic: its members cannot be listed\n"
    assert "nobody not found" in run("group", "describe", "nobody", code=4).stderr
