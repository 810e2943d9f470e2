"""Scripted clients: small, single-threaded, event-driven, over the real wire protocol.

    schedule   the plan of a seed: clients, faults, network, disk
    cluster_schedule   the same of a cluster of brokers
    wire       one connection: frames, correlation, deadlines, reconnecting
    topics     creates topics and learns their ids; deletes topics and creates them again
    producer   sends batches, plain or idempotent, and retries as Kafka's producer does
    reader     fetches assigned partitions from the beginning
    trimmer    deletes records from the front of logs
    committer  commits offsets for a group, and fetches them again
    cluster_client   a client's connections to all brokers, and the leaders it knows of
    transactional_producer, committed_reader, transaction_clients   transactions, and who reads them
    group_offsets, offset_watcher   the committed offsets of a group, while transactions change them
    transaction_levels   the level of `transaction.version`, which changes
    operator   reassigns partitions, elects leaders, changes the voters
    further_clients   those that a test brings along
    clients    all scripted clients of a run: started, crashed, replaced, stopped

These are not the clients of `odradek.client`. They do on purpose what careful clients avoid (short
deadlines, retries over a new connection while the old one still delivers) and record all answers in
a `testing.history.History`.

Tests: sim/test_world.py, sim/test_canaries.py
"""
