"""One broker, or three, under faults, with real processes, disks and public clients: `make chaos`.

    writers ─► proxies ─► broker processes ─► disks that fail on demand
    group members ─┘         proxies between them

`cluster` has the brokers and the proxies, `faults` injects one fault after the other, `run` tells
them when, measures how long nothing was acknowledged, and checks: with `odradek.testing.checker`
that nothing acknowledged is lost, moved or there twice; that the group read everything, and that no
committed offset is lost or goes back (`committed`); that in the end all replicas are in sync and
equal byte by byte. It is not part of `make test`, which has short runs of it.

Tests: clients/test_chaos.py
"""
