"""Quorums of `odradek.raft` in simulated time: replicas on machines of their own, without brokers.

    quorum_wire      requests and responses as frames on simulated connections
    replica          one replica as a process: the raft client, its connections, its snapshots
    quorum_plan      what a seed decides: voters, proposals, changes of voters, faults
    quorum_world     a run: replicas, proposals, faults, and the verdict

The core, the client around it and the log are the real ones; the controller above them is a list of
values, and the connections carry objects.

Tests: sim/test_quorum_worlds.py
"""
