"""The proof of the demo fails if anything differs, and names the difference."""

import dataclasses

import pytest

from odradek.demo import proof
from odradek.demo.reference import Delays, Result, Window

WINDOW = Window(1_357_034_400_000, "EWR", "UA")
OTHER = Window(1_357_034_400_000, "JFK", "AA")
DELAYS = Delays("United Air Lines Inc.", 2, 0, -2, 23, 12)
EXPECTED = Result(rows=3, accepted=2, rejected={"no arrival time": 1}, windows={WINDOW: DELAYS})


@pytest.fixture
def found(monkeypatch):
    """The data that is read back; tests change it."""
    state = {
        "flights_in_topic": 3,
        "rejected_in_topic": {"no arrival time": 1},
        "delays_in_topic": {WINDOW: DELAYS},
        "delays_in_parquet": {WINDOW: DELAYS},
    }
    for name in state:
        monkeypatch.setattr(proof, name, lambda _, name=name: state[name])
    return state


def prove(late_rows=0, expected=EXPECTED):
    return proof.prove(None, None, expected, late_rows)  # type: ignore[arg-type]


def test_the_proof_holds_if_every_result_equals_the_expected_one(found):
    assert prove().holds


@pytest.mark.parametrize(
    ("name", "value", "failing"),
    [
        ("flights_in_topic", 4, 2),
        ("rejected_in_topic", {"no departure time": 1}, 1),
        ("rejected_in_topic", {}, 2),
        ("delays_in_topic", {WINDOW: DELAYS._replace(late=1)}, 1),
        ("delays_in_topic", {WINDOW: DELAYS, OTHER: DELAYS}, 2),
        ("delays_in_parquet", {}, 1),
    ],
)
def test_any_difference_fails_the_proof(found, name, value, failing):
    found[name] = value
    proven = prove()
    assert not proven.holds
    assert sum(not check.holds for check in proven.checks) == failing


def test_a_dropped_late_flight_fails_the_proof(found):
    assert not prove(late_rows=1).holds


def test_the_first_difference_is_shown(found):
    found["delays_in_topic"] = {WINDOW: DELAYS._replace(worst_arrival_delay=13)}
    [failed] = [check for check in prove().checks if not check.holds]
    assert "1 lines differ" in failed.difference
    assert "worst_arrival_delay=13" in failed.difference


def test_a_missing_row_of_the_file_fails_the_proof(found):
    assert not prove(expected=dataclasses.replace(EXPECTED, rows=2)).holds
