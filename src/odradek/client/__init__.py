"""Producer, consumer and admin client: one engine, with a blocking and an asyncio API.

Everything below `blocking` and `aio` is free of I/O: it gets clock, randomness, network and workers
as a `model.env.Env`, runs through callbacks on one owner thread, and never blocks. A pending
outcome is a value (`waiter.Waiter`): the blocking API blocks on it, the asyncio API awaits it.
Connections to nodes are those of `network_client`, which brokers use too.

    engine real_environment waiter      the parts that every client has
    metadata/                           the known cluster image
    producer/ consumer/ admin/          the three clients, without I/O
    blocking/ aio/ api_methods          their APIs for threads and for asyncio
    serializers deserializers serde     objects to bytes, and back
    interceptors interceptor_hook       their base classes; one method of one, and its failures
    arrow/ arrow_types                  Arrow data in and out
    metrics/                            what `metrics()` returns
    transaction                         versions of transactions, and open ones without a producer
    processing process_loop             from topic to topic in transactions: decisions, the loop
    arguments errors                    checks of arguments; all errors
    list_offsets find_coordinator       requests of several clients

Tests: unit/client, transcripts, clients, sim
"""
