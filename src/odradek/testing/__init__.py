"""For tests: a real broker in the process, and a simulated world for a broker of one's own.

    from odradek.testing import Broker

    with Broker() as broker:
        ...  # any Kafka client, at broker.bootstrap

The simulator (`world`, `python -m odradek.testing.sim --seed N`) runs the same broker over a clock,
a network, a disk and workers that do what a seed says: crashes, lost writes, cut connections.
"""

from odradek.testing.broker import Broker

__all__ = ["Broker"]
