"""The metadata quorum as a pure state machine: KRaft's Raft, without clock, disk or network.

`core` steps; `leader` is what a leader knows of the others; `log_state` is what the quorum decides
by; `roles`, `messages` and `effects` are its words; `replicas` are the voters.

Tests: unit/raft, property/test_raft_model.py
"""
