"""Steps of the exactly-once sink with one broken part each."""

from __future__ import annotations

from odradek.spark.exactly_once import steps
from odradek.spark.exactly_once.ledger import Decision
from odradek.spark.exactly_once.steps import (
    DescribePrefix,
    EndTransactions,
    FenceLosers,
    ReadLedger,
    ShutOutOlderDrivers,
    WriteDecision,
)


def without(effects, running, result=None):
    """Steps that pass over some effects, as if they had been carried out."""
    answer = None
    while True:
        try:
            effect = running.send(answer)
        except StopIteration:
            return
        answer = result if isinstance(effect, effects) else (yield effect)


def ends_before_the_decision(batch, reported, topic_ids, drained):
    yield EndTransactions(tuple(reported), commit=True)
    yield from steps.commit_steps(batch, reported, topic_ids, drained)


def reads_the_ledger_before_it_shuts_out(batch, reported, topic_ids, drained):
    found = yield ReadLedger()
    yield ShutOutOlderDrivers()
    if steps.batch_state(batch, found) is steps.BatchState.UNDECIDED:
        found = Decision(batch.batch_id, tuple(reported), topic_ids)
        yield WriteDecision(found)
    yield from steps.finish_decided(batch, found)


def decides_again(batch, reported, topic_ids, drained):
    yield ShutOutOlderDrivers()
    decision = Decision(batch.batch_id, tuple(reported), topic_ids)
    yield WriteDecision(decision)
    yield from steps.finish_decided(batch, decision)


def takes_fenced_for_committed(batch, reported, topic_ids, drained):
    running = steps.commit_steps(batch, reported, topic_ids, drained)
    answer = None
    while True:
        try:
            effect = running.send(answer)
        except StopIteration:
            return
        answer = yield effect
        if isinstance(effect, EndTransactions):
            answer = [True] * len(answer)


def believes_an_empty_ledger(*given):
    yield from without(DescribePrefix, steps.commit_steps(*given), False)


def shuts_out_without_asking(batch, reported):
    yield from without(DescribePrefix, steps.abort_steps(batch, reported), False)


def leaves_losers(*given):
    yield from without(FenceLosers, steps.commit_steps(*given))


def aborts_without_asking(batch, reported):
    yield EndTransactions(tuple(reported), commit=False)
    yield FenceLosers()


def aborts_all_after_asking(batch, reported):
    yield ReadLedger()
    yield EndTransactions(tuple(reported), commit=False)
