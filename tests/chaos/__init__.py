"""A broker under faults, with real processes, real disks and public clients: `make chaos`.

    writers ─► proxy ─► broker process ─► disk that fails on demand
    group members ─┘

`faults` injects one fault after the other, `run` tells them when and measures how long each writer
got no acknowledgement, and checks with `odradek.testing.checker` that nothing acknowledged is lost,
moved or there twice. It is not part of `make test`, which has a short run of it.

Tests: clients/test_chaos.py
"""
