"""The blocking API: producer, consumer and admin client for threads.

`engine_thread` owns the engine on a background thread, `wake_signal` is how other threads wait for
it, `client` is the common base class. `admin`, `consumer` and `producer` (with `transactions`) are
the clients, `confluent_api` the producer's methods for users of confluent-kafka, `process` is
`odradek.process` and `read` is `odradek.read`.

Tests: unit/client, unit/client/producer, clients
"""
