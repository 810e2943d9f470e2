"""For tests: a real broker in the process, scripted brokers, and a simulator of the whole broker.

    from odradek.testing import Broker

    with Broker() as broker:
        ...  # any Kafka client, at broker.bootstrap

The simulator (`python -m odradek.testing.sim --seed N`) runs the same broker over a simulated
clock, network, disk and workers. A seed decides the faults: crashes, lost writes, cut connections.

In reading order: `broker`; `world` and `sim`, the simulator and its command; `scheduler`, `prng`,
`process`, `network`, `transport`, `disk`, `volume`, `machine`, the simulated environment;
`nemesis`, `history`, `checker`, the faults and the verdict; `workload/`, scripted clients;
`engines/`, our own clients; `client_process`, `scripted` and `scripted_logs`, scripted brokers for
tests of clients.

Tests: unit/testing, sim
"""

from odradek.testing.broker import Broker

__all__ = ["Broker"]
