"""Partitions that this broker leads: append, read, high watermark, and requests that wait for it.

Modules: `partition`, `replica_manager` (all partitions and the three purgatories), `flusher` (group
commit), `produce`, `fetch` and `delete_records` (the requests and their delayed operations),
`log_start_sync`.

Which event checks which delayed operations:

| event                                         | checks                                  |
|-----------------------------------------------|-----------------------------------------|
| append that raises the high watermark         | produce, fetch, delete records          |
| flush that raises the high watermark          | produce, fetch, delete records          |
| log start offset became durable               | delete records                          |
| partition removed, or its directory offline   | produce, fetch, delete records          |
| deadline                                      | that operation                          |

Tests: unit/replication, seeds/test_purgatory_document.py, unit/broker/test_produce_responses.py
"""
