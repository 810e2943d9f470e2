"""BufferPool under any sequence of operations: no byte is lost, and no caller waits in vain."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from librt.threading import Lock

from odradek.client.errors import ClientClosed, KafkaError, MaxBlockTimeout
from odradek.client.producer.buffer_pool import Buffer, BufferPool, MemoryWaiter

TOTAL = 64
POOLABLE = 8


class PoolMachine(RuleBasedStateMachine):
    """The allocated buffers, the sealed bytes, and the waiting callers."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BufferPool(TOTAL, POOLABLE, Lock())
        self.held: list[Buffer] = []
        self.sealed: list[int] = []
        self.waiting: list[MemoryWaiter] = []

    @rule(size=st.one_of(st.just(POOLABLE), st.integers(1, TOTAL)))
    def allocate(self, size):
        before = self.pool.unallocated_bytes
        try:
            buffer = self.pool.allocate(size)
        except ClientClosed:
            assert self.pool.closed is not None
            return
        if buffer is None:
            assert self.pool.waiters or before < size
        else:
            assert len(buffer.writer) == 0
            buffer.writer.write(b"\xaa" * 3)
            self.held.append(buffer)

    @rule(size=st.integers(1, TOTAL))
    def wait(self, size):
        self.waiting.append(self.pool.wait(size))
        self.collect()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def seal(self, data):
        buffer = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.sealed.append(self.pool.keep(buffer, data.draw(st.integers(0, 2 * buffer.size))))
        self.collect()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def put_back(self, data):
        self.pool.put_back(self.held.pop(data.draw(st.integers(0, len(self.held) - 1))))
        self.pool.serve()
        self.collect()

    @precondition(lambda self: self.sealed)
    @rule(data=st.data())
    def finish(self, data):
        self.pool.deallocate(self.sealed.pop(data.draw(st.integers(0, len(self.sealed) - 1))))
        self.collect()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), by_itself=st.booleans())
    def give_up(self, data, by_itself):
        memory = data.draw(st.sampled_from(self.waiting))
        if by_itself:  # The waiter fails without a call of the pool.
            memory.waiter.fail(MaxBlockTimeout("late"))
            self.pool.serve()
        else:
            self.pool.give_up(memory, MaxBlockTimeout("late"))
        self.collect()

    @rule()
    def close(self):
        self.pool.close()
        self.collect()
        assert not self.waiting

    def collect(self) -> None:
        """Take the buffers of callers that waited; they must be the first ones, in order."""
        done = [memory for memory in self.waiting if memory.waiter.done]
        got = [memory for memory in done if memory.waiter.error is None]
        still = [memory for memory in self.waiting if not memory.waiter.done]
        assert self.waiting.index(got[-1]) < self.waiting.index(still[0]) if got and still else True
        for memory in got:
            buffer = memory.waiter.result()
            assert buffer.size == memory.size and len(buffer.writer) == 0
            self.held.append(buffer)
        for memory in done:
            assert memory.waiter.error is None or isinstance(memory.waiter.error, KafkaError)
        self.waiting = still

    @invariant()
    def every_byte_is_somewhere(self):
        in_use = sum(buffer.size for buffer in self.held) + sum(self.sealed)
        assert self.pool.charged_bytes == in_use <= TOTAL
        assert self.pool.available >= 0

    @invariant()
    def nobody_waits_for_what_is_there(self):
        open_waiters = [memory for memory in self.pool.waiters if not memory.waiter.done]
        assert open_waiters == self.waiting
        if self.pool.waiters:
            assert self.pool.unallocated_bytes < self.pool.waiters[0].size


TestBufferPool = PoolMachine.TestCase
TestBufferPool.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
