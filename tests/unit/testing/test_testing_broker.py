"""The broker for tests: its differences from the one of `odradek up`."""

from __future__ import annotations

import pytest

from odradek.testing import Broker

DELAY = "group.initial.rebalance.delay.ms"


@pytest.mark.parametrize(("given", "delay_ms"), [({}, 0), ({DELAY: 3000}, 3000), ({DELAY: "7"}, 7)])
def test_the_initial_rebalance_delay_is_0_unless_set(
    given: dict[str, object], delay_ms: int
) -> None:
    with Broker(settings={"num.partitions": 2, **given}) as broker:
        config = broker.node.config
        assert (config.group_initial_rebalance_delay_ms, config.num_partitions) == (delay_ms, 2)
