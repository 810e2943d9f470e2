"""The broker's metrics: one table, read by whoever shows them.

- `table` has all rows: Odradek's own (`odradek_metrics`, `partition_metrics`), those of the process
  (`process_metrics`) and of the HTTP server (`http_metrics`), and Kafka's names (`kafka_names`).
- `metric` says what a row is, `scrape` what the rows read, `reading` reads them a little at a time.
- `exposition` renders them as Prometheus text, `description` as a response of DescribeMetrics.

Counting is not here: the object that does the work adds to a plain field of its own, or to a
`model.histogram.Histogram`, and a row reads that field when somebody asks. So metrics cost an
addition each, and nothing while nobody looks.

Tests: unit/broker/metrics
"""
