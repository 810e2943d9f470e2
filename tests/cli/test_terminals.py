"""Commands on a terminal: tables, colours, confirmations, and escaped control characters."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from cli.terminals import COLOUR, on_terminal
from odradek import Admin, Producer


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    """An admin client of a cluster with one topic, `orders`."""
    with Admin(brokers=bootstrap) as client:
        client.create_topic("orders", partitions=2)
        yield client
        for topic in client.topics():
            client.delete_topic(topic.name)


def rows(shown: str) -> list[list[str]]:
    """Return the lines of a table that are not empty."""
    plain = COLOUR.sub("", shown)
    return [line.split() for line in plain.splitlines() if line.strip(" ─")]


@pytest.mark.usefixtures("admin")
def test_a_list_is_a_table_with_a_header(bootstrap: str) -> None:
    code, shown = on_terminal(bootstrap, "topic", "ls")
    assert code == 0
    assert rows(shown) == [["topic", "partitions", "replication"], ["orders", "2", "1"]]
    assert COLOUR.search(shown)


@pytest.mark.usefixtures("admin")
def test_no_color_disables_colours(bootstrap: str) -> None:
    _, shown = on_terminal(bootstrap, "topic", "ls", NO_COLOR="1")
    assert not re.search(r"\x1b\[3[0-9]", shown)


@pytest.mark.usefixtures("admin")
def test_long_rows_are_not_folded_on_a_narrow_terminal(bootstrap: str) -> None:
    """So that they can be searched and copied."""
    _, shown = on_terminal(bootstrap, "topic", "describe", "orders", columns=30)
    assert [row[:3] for row in rows(shown)[-2:]] == [["orders", "0", "1"], ["orders", "1", "1"]]


@pytest.mark.usefixtures("admin")
def test_an_empty_list_is_a_sentence(bootstrap: str) -> None:
    assert on_terminal(bootstrap, "group", "ls") == (0, "There are no groups.\n")


def test_a_deletion_shows_its_plan_and_asks_for_confirmation(bootstrap: str, admin: Admin) -> None:
    code, shown = on_terminal(bootstrap, "topic", "rm", "orders", typed=b"n\n")
    assert code == 0
    assert ["orders", "2", "0"] in rows(shown)
    assert "Delete? [y/N]: " in shown
    assert [topic.name for topic in admin.topics()] == ["orders"]
    code, shown = on_terminal(bootstrap, "topic", "rm", "orders", typed=b"y\n")
    assert shown.endswith("orders: deleted\n")
    assert admin.topics() == []


def test_ctrl_c_at_a_question_does_nothing(bootstrap: str, admin: Admin) -> None:
    code, _ = on_terminal(bootstrap, "topic", "rm", "orders", typed=b"\x04")
    assert code == 130
    assert [topic.name for topic in admin.topics()] == ["orders"]


@pytest.mark.usefixtures("admin")
def test_records_on_a_terminal_have_no_control_characters(bootstrap: str) -> None:
    with Producer(brokers=bootstrap) as producer:
        producer.send("orders", b"\x1b]0;title\x07two\nlines\xff", key=b"k", partition=0)
    code, shown = on_terminal(bootstrap, "consume", "orders", "-e")
    assert code == 0
    # Between them there may be progress, if it took long.
    *_, line = (one for one in shown.split("\n") if "title" in one)
    assert "orders[0]@0  " in line
    assert line.endswith(r"Z  k  \x1b]0;title\x07two\nlines\xff")
    assert "read 1 record, " in shown
