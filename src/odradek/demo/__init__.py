"""The demo: a year of real flights through a broker and a Spark pipeline, with a verified result.

In reading order: `run` (the whole job), `broker_process`, `flights` (the data), `replay` (produces
them), `pipeline` (the Spark job) with its `rules`, `reference` and `proof` (the expected results,
and the comparison), `figures`, `terminal` and `page` (the output).

Tests: unit/demo, spark/test_demo.py
"""
