"""Simulated applications of our own clients: the engines of `odradek.client` in a simulated run.

    plans                  what the applications are and do, by seed
    application            an application's thread: the `PollDriver` of its `PollLoop`
    producer_application   sends records, and checks their outcomes
    consumer_application   reads assigned partitions, and checks the records it receives
    group_member           reads as a member of a group, and checks ownership and commits
    engine_clients         all applications and groups of a run: started, crashed, replaced, stopped

They test both sides: real engines over the same `Env` as in production, a real broker, and all
faults between them. The scripted clients of `testing.workload` test the broker only.

Tests: sim/test_engines.py
"""
