"""The broker: which requests are served (`apis`), how one is answered (`dispatch`, `handlers`), and
the wiring (`node`).

A handler is `handle(broker, context, request)`. It returns the response, or a `Waiting`: an
operation that will respond when the event it watches for happens or its deadline passes. Handlers
decide; they do no I/O of their own.
"""
