"""The time line of micro-batches, made from the progress reports of Spark."""

from types import SimpleNamespace

from odradek.demo.page import micro_batches, rows_of, time_line


def report(number, at, **spent):
    """The used parts of the progress report of one trigger."""
    return SimpleNamespace(
        batchId=number,
        numInputRows=10 * number,
        timestamp=f"2026-01-01T00:00:{at:02}.500Z",
        durationMs={"triggerExecution": sum(spent.values()), **spent},
    )


RAN = report(1, 5, latestOffset=100, queryPlanning=200, addBatch=1500, walCommit=30)
NOTHING_NEW = report(2, 7, latestOffset=400)


def test_steps_are_grouped_by_kind_and_idle_triggers_are_left_out():
    [batch] = micro_batches("delays", [RAN, NOTHING_NEW])
    assert (batch.query, batch.number, batch.rows, batch.seconds) == ("delays", 1, 10, 1.83)
    assert batch.steps == {"offsets": 0.1, "planning": 0.2, "work": 1.5, "checkpoint": 0.03}


def test_each_query_has_a_row_and_each_micro_batch_a_bar():
    batches = micro_batches("delays", [RAN]) + micro_batches("<rejected>", [RAN])
    drawn = time_line(batches)
    assert drawn.count("<title>") == 2
    assert "&lt;rejected&gt; 1: 10 rows, 1.83 s" in drawn
    assert rows_of(batches)[0] == ("delays 1", "10", "1.83", "0.10", "0.20", "1.50", "0.03")
    assert time_line([]) == "<p>No micro-batch was run.</p>"
