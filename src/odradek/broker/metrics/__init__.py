"""The broker's metrics: one table, read by whoever shows them.

- `table` has all rows, those of `odradek_metrics` and `partition_metrics`, in the order of the
  pages.
- `metric` says what a row is; `scrape` reads rows, some samples at a time, on the owner thread.
- `exposition` renders them as Prometheus text.

Counting is not here: the object that does the work adds to a plain field of its own, or to a
`model.histogram.Histogram`, and a row reads that field when somebody asks. So metrics cost an
addition each, and nothing while nobody looks.

Tests: unit/broker/metrics
"""
