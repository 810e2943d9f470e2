"""The exactly-once sink: Spark's tasks write transactions, and one decision in Kafka ends them all.

    task     ledger ─► decided already: rows are read, nothing is written
                   └─► a transaction of `prefix.partition.attempt`, left open ─► TransactionReport
    driver   `commit`: shut out older drivers ─► ledger ─► THE DECISION ─► EndTxn for each ─► losers

Spark may cut a micro-batch that it replays differently (SPARK-28650), so neither can a task commit
alone, nor can its rows be told from those of another attempt. Kafka cannot keep a prepared
transaction for a driver that comes back (KIP-939 is not finished). So the list of transactions that
make up a micro-batch is written to a compacted topic, the ledger, by a transaction of the driver:
that is the commit point. Who comes later, this driver or the next one, ends what the list names,
and copies what a broker aborted meanwhile.

    ledger      decisions as records, and the entry of one prefix as a log of them tells it
    ledger_topic   the ledger's topic: made and checked before tasks begin
    steps       what the driver does, as effects and their results: without I/O, run by the tests
                through all that can be lost
    outcome     committed, aborted or gone: what the log says of a transaction
    reading     requests to brokers: batches, with aborted ones
    driver      carries out the steps
    protocol    `ExactlyOnce`, the commit protocol of tasks and driver
    errors      what stops the query, with the way out

Tests: unit/spark/test_exactly_once_model.py, sim/test_sink_worlds.py,
spark/test_exactly_once_sink.py, soak/spark_exactly_once.py
"""
