"""Coordinators: state that clients share, kept as records of an internal topic.

    request -> operation -> (records, answers, timers)
                 |
              append to the partition -> replay: the only writer of what is kept -> timers
                 |
              the high watermark passes -> answers leave

`runtime` and `shard` do that for any coordinator; `group` is the one of consumer groups, whose
topic is `__consumer_offsets`. Deciding code: time, chance, the disk and the network are arguments.
"""
