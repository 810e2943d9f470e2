"""The asyncio API: producer, consumer and admin client to be awaited.

They have the names of the blocking clients and the same engine; `engine_loop` runs it within
asyncio's loop, without a thread. `client` is the common base class; `admin`, `consumer` and
`producer` are the clients.

Tests: unit/client, clients
"""
