"""The asyncio API: producer, consumer and admin client to be awaited.

They have the names of the blocking clients and the same engine; `engine_loop` runs it within
asyncio's loop, without a thread. `client` is the common base class; `admin`, `consumer` and
`producer` (with `transactions`) are the clients, `process` is `odradek.aio.process`.

Tests: unit/client, clients
"""
