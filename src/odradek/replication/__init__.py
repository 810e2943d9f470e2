"""Replicas of partitions: roles, append, read, high watermark, and requests that wait for it.

Modules: `partition`, `leadership` (what a leader knows of its followers, the ISR),
`alter_partition_manager` (asks the controller for another ISR), `replica_manager` (all partitions
and the four purgatories), `flusher` (group commit), `log_start_sync`; `produce`, `fetch`,
`list_offsets` and `delete_records` (the requests and their delayed operations); `follower_fetch`
(serving followers); `replica_fetcher`, `replica_fetcher_manager` (being one);
`quota` (the throttle of both).

Which event checks which delayed operations:

| event                                         | checks                                  |
|-----------------------------------------------|-----------------------------------------|
| append that raises the high watermark         | produce, fetch, delete, list offsets    |
| flush that raises the high watermark          | produce, fetch, delete, list offsets    |
| follower's durable end, or a committed ISR,   | produce, fetch, delete, list offsets    |
| that raises the high watermark                |                                         |
| log start offset became durable, or the low   | delete records                          |
| watermark rose                                |                                         |
| append, or anything that a follower must hear | its parked fetch, at the end of event   |
| leadership lost                               | produce, fetch, delete, list offsets    |
| partition removed, or its directory offline   | produce, fetch, delete, list offsets    |
| deadline                                      | that operation                          |

Tests: unit/replication, seeds/test_purgatory_document.py, unit/broker/test_produce_responses.py
"""
