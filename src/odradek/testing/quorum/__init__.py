"""Quorums of `odradek.raft` in simulated time: replicas on machines of their own, without brokers.

    quorum_wire      requests and responses as frames on simulated connections
    quorum_storage   a replica's election state, log and snapshot on a simulated disk
    replica          one replica as a process: the core, its disk, its connections, its timer
    quorum_plan      what a seed decides: voters, proposals, changes of voters, faults
    quorum_world     a run: replicas, proposals, faults, and the verdict

The core is the real one. The process around it is the simplest that keeps the core's promises, with
faults of disk, network, clock and power at each step.

Tests: sim/test_quorum_worlds.py
"""
