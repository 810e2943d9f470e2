"""Looking at a cluster and changing it, without I/O: each call is a coroutine over waiters.

    calls          the loop every call runs in: ask, try again what may be, end in time
    topics configs records groups group_offsets cluster
                   the calls, by what they are about
    admin          all of them as one class, which the faces bind

Values that calls give are in `results`. A call that was given one thing raises what went wrong with
it; `*_many` gives a result or an error for each.
"""
