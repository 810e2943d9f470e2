"""Sockets and the reactor: the only package that does network I/O.

    reactor         the loop: one thread, its sleep, its callbacks; the system clock
    poller          epoll, or the equivalent of the system
    transport       a connected socket
    connector       connecting to a name, address by address
    listener        accepting connections, also when descriptors run out
    workers         blocking work on threads, its result as an event
    asyncio_driver  a reactor inside an asyncio loop

    framing         splits a stream of bytes into frames
    output          the queue of bytes and file ranges to send
    connection      one client: order of responses, back-pressure, limits, deadlines
    server          all connections: admission, registry, shutdown
    violation_log   log lines about invalid input, few even if there is much of it

    http_connection one HTTP client: a request at a time, bodies in slices, limits, deadlines
    http_server     all HTTP clients: admission, token, routes, turns
    http_thread     HTTP while the owner thread is busy with its start

    loop_load       turns of a loop, how late its timers are, its share of sleep
    process_usage   processor time, memory and descriptors of the process
    allocator       how much freed memory the process keeps

The second and third part run unchanged over simulated transports, but for the thread.

Tests: unit/network, sim/test_world.py, clients/bad_input
"""
