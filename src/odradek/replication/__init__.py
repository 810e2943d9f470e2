"""Partitions led here: append, read, high watermark, and the requests that wait for it.

`Partition` is one of them; `ReplicaManager` is all of them, with the three purgatories where
requests wait (`DelayedProduce`, `DelayedFetch`, `DelayedDeleteRecords`) and the `Flusher` that puts
bytes on disk in groups.

Who wakes what:

| event                                   | checks                                  |
|-----------------------------------------|-----------------------------------------|
| append that raises the high watermark   | produce, fetch, delete records          |
| flush that raises the high watermark    | produce, fetch, delete records          |
| log start offset moved                  | delete records                          |
| partition gone or its directory offline | produce, fetch                          |
| deadline                                | that operation                          |
"""
