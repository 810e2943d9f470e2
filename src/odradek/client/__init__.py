"""The clients' side of the protocol: producer, consumer and admin client, one engine under the
faces that block and those that are awaited.

Everything below the faces is free of I/O: it gets clock, chance, network and workers as a
`model.env.Env`, runs through callbacks on one owner thread, and never blocks. Waiting is a value
(`waiter.Waiter`); a face blocks on it or awaits it.
"""
