"""Bytes in, bytes out: the only package that knows sockets.

    selector     the reactor: one thread, its sleep, its callbacks
    poller       epoll, or what the system has instead
    transport    a connected socket
    listener     accepting, also when descriptors run out
    workers      blocking work, back as an event
    clock        the real clock

    framing      a stream of bytes cut into frames
    output       what waits to be sent
    connection   one client: order, back-pressure, deadlines
    server       all of them: admission, counters

The second half runs unchanged over simulated transports.
"""
