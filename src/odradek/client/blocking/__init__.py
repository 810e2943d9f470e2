"""The faces that block: producer, consumer and admin client for programs with threads.

`engine_thread` runs the engine in the background and lets any thread wait for it. This package and
`client.aio` are the only ones of the clients that know of threads and loops.
"""
