"""For tests: a real broker or cluster in the process, scripted brokers, and a simulator of them.

    from odradek.testing import Broker, Cluster

    with Broker() as broker:
        ...  # any Kafka client, at broker.bootstrap

    with Cluster(3) as cluster:
        cluster.kill(cluster.leader_of("orders"))

The simulator (`python -m odradek.testing.sim --seed N`) runs the same broker over a simulated
clock, network, disk and workers. A seed decides the faults: crashes, lost writes, cut connections.

In reading order: `broker`, `cluster`, `ports`; `world` and `sim`, the simulator and its command;
`scheduler`, `prng`, `process`, `network`, `ways`, `transport`, `disk`, `volume`, `machine`, the
simulated environment;
`nemesis`, `link_faults`, `cluster_faults`, `history`, `checker`, `probes`, `rules`, `transactions`,
the faults and the verdict; `sites`, `totals`, `shrink` and `reproduction`, what runs reached, what
they add up to, what a failure needs and how to run it again; `workload/`, scripted clients;
`engines/`, our own clients; `quorum/`, quorums without brokers; `client_process`, `scripted` and
`scripted_logs`, scripted brokers for tests of clients.

Tests: unit/testing, sim
"""

from odradek.testing.broker import Broker
from odradek.testing.cluster import Cluster

__all__ = ["Broker", "Cluster"]
