"""The admin client, without I/O: each call is a coroutine over waiters.

    calls          the loop every call runs in: ask, retry what is retriable, end in time
    topics records configs groups transactions replicas quorum
                   the calls, by subject
    observation    the calls that only Odradek's brokers answer: what waits, metrics
    admin          the calls about brokers, and all calls as one class
    results        the values that calls return

A call for one thing raises its error; `*_many` returns a result or an error for each.

Tests: unit/client/admin, transcripts, clients
"""
