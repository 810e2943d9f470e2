"""What `odradek top` does with a sample that fails."""

from __future__ import annotations

import pytest

from odradek.cli.top import Watched
from odradek.cli.top_figures import Sample
from odradek.client.errors import Disconnected


def test_the_first_error_ends_it_and_a_later_one_is_shown_beside_old_figures() -> None:
    watched = Watched(interval_s=1.0, started_s=0.0)
    with pytest.raises(Disconnected):
        watched.take(Disconnected("gone"), 0.0, paused=False)
    watched.take(Sample(1.0, 1), 1.0, paused=False)
    assert watched.problem(1.5) == ""
    watched.take(Disconnected("gone"), 3.0, paused=False)
    assert watched.problem(3.0).startswith("no answer for 2 s, these figures are old: gone")
    watched.take(Sample(4.0, 1), 4.0, paused=False)
    assert watched.problem(4.0) == ""


def test_a_late_answer_is_said_without_an_error() -> None:
    watched = Watched(interval_s=1.0, started_s=0.0)
    watched.take(Sample(1.0, 1), 1.0, paused=False)
    assert watched.problem(10.0) == "no answer for 9 s, these figures are old"


def test_figures_stay_while_paused() -> None:
    watched = Watched(interval_s=1.0, started_s=0.0)
    watched.take(Sample(1.0, 1), 1.0, paused=False)
    shown = watched.found
    watched.take(Sample(2.0, 1), 2.0, paused=True)
    assert watched.found is shown and watched.last is not None and watched.last.taken_s == 2.0


def test_a_bug_is_raised_and_not_shown_as_a_silent_broker() -> None:
    watched = Watched(interval_s=1.0, started_s=0.0)
    watched.take(Sample(1.0, 1), 1.0, paused=False)
    with pytest.raises(ZeroDivisionError):
        watched.take(ZeroDivisionError("a bug"), 2.0, paused=False)


def test_a_silent_broker_is_named_beside_the_figures_of_the_others() -> None:
    watched = Watched(interval_s=1.0, started_s=0.0)
    watched.take(Sample(1.0, 3, silent=(2,)), 1.0, paused=False)
    assert watched.problem(1.5).startswith("broker 2 does not answer")
    watched.take(Sample(2.0, 3, silent=(2, 3)), 2.0, paused=False)
    assert watched.problem(2.0).startswith("brokers 2, 3 do not answer")
