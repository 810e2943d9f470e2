"""Simulated applications of our own clients: the engines of `odradek.client` as nodes of a run.

    plans           what they are and do, by seed
    application     an application's thread at its engine: the `PollDriver` of its `PollLoop`
    sending         sends records with the producer's engine, and judges what it was told of them
    consuming       what those have in common that read with the consumer's
    assigned        reads partitions it assigned itself
    member          reads as a member of a group
    group           one group: its members, and what becomes of them
    group_books     what members saw, put together, and judged as they go
    seen            what all consumers were handed, to be compared with the broker's logs
    engine_clients  all of a run: started, ended, replaced

What the scripted clients of `testing.workload` are to the broker, these are for both sides: real
engines over the same seam as in service, a real broker, and all that can go wrong between them.
"""
