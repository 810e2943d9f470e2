"""Bytes in, bytes out: the only package that knows sockets.

    selector     the reactor: one thread, its sleep, its callbacks
    poller       epoll, or what the system has instead
    transport    a connected socket
    listener     accepting, also when descriptors run out
    workers      blocking work, back as an event
    clock        the real clock
    port_holder  who has the port that is taken

    framing      a stream of bytes cut into frames
    output       what waits to be sent
    connection   one client: order, back-pressure, deadlines
    exchange     one request and its answer, as the broker sees them
    deadlines    closing who is idle, or does not read
    server       all of them: admission, registry
    limits       their bounds and counters

The second half runs unchanged over simulated transports.
"""
