"""Headers by which the copies of a row can be told that a replay writes again.

    odradek.query.id     the streaming query, or the job of a batch write
    odradek.batch.id     the micro-batch; null in a batch write
    odradek.task         the partition of the Spark task
    odradek.sequence     the row's place among those of the task, from 0

They stand behind the headers of the row itself, as UTF-8 text. Two records with the same four are
the same row, provided that the plan is deterministic: a task that is run again gets the same rows
in the same order. They are made column by column, in Arrow.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from odradek.spark.task import Task

QUERY_ID = "odradek.query.id"
BATCH_ID = "odradek.batch.id"
TASK = "odradek.task"
SEQUENCE = "odradek.sequence"
NAMES = (QUERY_ID, BATCH_ID, TASK, SEQUENCE)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def with_replay_headers(rows: pa.RecordBatch, task: Task, first: int) -> pa.RecordBatch:
    """The rows with their headers and these; `first` is the sequence of the first row."""
    index = rows.schema.get_field_index("headers")
    own = pa.nulls(rows.num_rows, HEADERS) if index < 0 else rows.column(index)
    joined = joined_headers(own, task, first)
    field = pa.field("headers", joined.type)
    if index < 0:
        return rows.append_column(field, joined)
    return rows.set_column(index, field, joined)


def joined_headers(own: pa.ListArray, task: Task, first: int) -> pa.ListArray:
    """Lists of headers, each with the four of its row at its end."""
    rows, added = len(own), len(NAMES)
    keys, values = own.flatten().flatten()
    batch_id = None if task.batch_id is None else str(task.batch_id)
    constants = pa.array([task.query_id, batch_id, str(task.partition_id)], pa.string())
    sequences = pa.array(np.arange(first, first + rows)).cast(pa.string())
    all_keys = pa.concat_arrays([keys, pa.array(NAMES, keys.type)])
    all_values = pa.concat_arrays(
        [values, constants.cast(values.type), sequences.cast(values.type)]
    )

    # Where each list ends, and where in it the four stand.
    lengths = own.value_lengths().fill_null(0).to_numpy()
    ends = np.cumsum(lengths + added)
    places = ends[:, np.newaxis] + np.arange(-added, 0)
    is_own = np.ones(len(keys) + rows * added, dtype=bool)
    is_own[places] = False

    # What stands where, as indices into all keys and all values.
    key_at = np.empty(len(is_own), dtype=np.int64)
    key_at[is_own] = np.arange(len(keys))
    value_at = key_at.copy()
    key_at[places] = len(keys) + np.arange(added)
    value_at[places] = len(keys) + np.arange(added)
    value_at[places[:, -1]] += np.arange(rows)

    pairs = pa.StructArray.from_arrays(
        [all_keys.take(pa.array(key_at)), all_values.take(pa.array(value_at))], ["key", "value"]
    )
    offsets = np.concatenate([np.zeros(1, np.int32), ends.astype(np.int32)])
    return pa.ListArray.from_arrays(pa.array(offsets), pairs)
