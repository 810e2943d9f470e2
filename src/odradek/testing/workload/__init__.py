"""Simulated clients: small, single-threaded, event-driven, and speaking the real wire protocol.

    wire       one connection: frames, correlation, deadlines, reconnecting
    topics     creates topics and learns their ids
    producer   sends batches, plain or idempotent, and retries as Kafka's producer does
    reader     fetches assigned partitions from the beginning
    schedule   what a seed's clients are and do (swarm)

They are not the clients of `odradek.client`: those block and own sockets. These do on purpose
what careful clients avoid (short deadlines, retries over a new connection while the old one still
delivers) and write down everything they see in a `testing.history.History`.
"""
