"""Simulated applications of our own clients: the engines of `odradek.client` as nodes of a run.

    plans        what they are and do, by seed
    application  an application's thread at its engine: the `Driver` of its `Reading`
    sending      sends records with the producer's engine
    assigned     reads assigned partitions with the consumer's
    member       reads as a member of a group
    group_books  what the members of a group saw, put together, and judged as they go
    engine_clients  all of a run: started, ended, replaced
    deliveries   judges what the producers' applications were told

What the simulated clients of `testing.workload` are to the broker, these are for both sides: real
engines over the same seam as in service, a real broker, and all that can go wrong between them.
What they read is compared with what others find in the broker's logs at the end.
"""
