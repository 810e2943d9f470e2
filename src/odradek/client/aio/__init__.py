"""The faces that are awaited: producer, consumer and admin client for asyncio.

They have the names of the blocking ones and the same engine; `engine_loop` runs it within asyncio's
loop, without a thread.
"""
