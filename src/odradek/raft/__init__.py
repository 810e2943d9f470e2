"""The metadata quorum as a pure state machine: KRaft's Raft, without clock, disk or network.

Pure: `core` steps; `leader` is what a leader knows of the others; `log_state` is what the quorum
decides by; `roles`, `messages` and `effects` are its words; `replicas` are the voters; `value`
declares such values. Around it: `raft_client` runs the core over a real log, which `raft_log`
opens; `quorum_state` and `snapshot_files` are the other files, `raft_records` the batches of the
log; `wire` has Kafka's messages, and `raft_network` sends them.

Tests: unit/raft, property/test_raft_model.py
"""
