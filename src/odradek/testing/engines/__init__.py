"""Simulated applications of our own clients: the engines of `odradek.client` in a simulated run.

    plans                  what the applications are and do, by seed
    application            an application's thread: the `PollDriver` of its `PollLoop`
    producer_application   sends records, and checks their outcomes
    consumer_application   reads assigned partitions, and checks the records it receives
    group_member           reads as a member of a group, and checks ownership and commits
    engine_clients         all applications and groups of a run: started, crashed, replaced, stopped

In worlds with transactions there are others (`transaction_plans`, `transaction_engines`):

    engine_producer             a producer's engine, and how applications call it
    transactional_application   makes transactions, and notes what it is told of each
    process_application         runs `odradek.process`, and the rules for its inputs and outputs

They test both sides: real engines over the same `Env` as in production, a real broker, and all
faults between them. The scripted clients of `testing.workload` test the broker only.

Tests: sim/test_engines.py, sim/test_processing_worlds.py
"""
