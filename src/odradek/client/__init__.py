"""The clients: producer, consumer and admin client, with one engine for the blocking and the
awaited API.

Everything below `blocking` and `aio` is free of I/O: it gets clock, randomness, network and workers
as a `model.env.Env`, runs through callbacks on one owner thread, and never blocks. What takes time
is a value (`waiter.Waiter`): the blocking API blocks on it, the asyncio API awaits it.

    engine real_environment waiter      what every client instance has metadata/ net/
    what it knows of the cluster; its connections producer/ consumer/ admin/          the three
    clients, without I/O blocking/ aio/ api_methods          their APIs for threads and for asyncio
    serializers deserializers serde     objects to bytes, and back arrow/
    Arrow data in and out arguments errors list_offsets       checks of arguments; all errors; one
    request shared by clients sampled_stat                        averages and maxima for metrics

Tests: unit/client, transcripts, clients, sim
"""
