"""The pool's memory: charging, reuse of buffers, and the order of waiters."""

from __future__ import annotations

import pytest
from librt.threading import Lock

from odradek.client.errors import ClientClosed, MaxBlockTimeout
from odradek.client.producer.buffer_pool import Buffer, BufferPool


def pool_of(total: int = 100, poolable: int = 10) -> BufferPool:
    return BufferPool(total, poolable, Lock())


def take(pool: BufferPool, size: int = 10) -> Buffer:
    buffer = pool.allocate(size)
    assert buffer is not None
    return buffer


def test_allocated_bytes_are_charged_until_they_are_returned():
    pool = pool_of()
    buffer = take(pool)
    assert pool.charged_bytes == 10
    assert pool.keep(buffer, 4) == 4
    assert pool.charged_bytes == 4
    pool.deallocate(4)
    assert pool.charged_bytes == 0


def test_a_buffer_of_the_pool_size_is_reused_empty():
    pool = pool_of()
    buffer = take(pool)
    buffer.writer.write(b"records")
    pool.keep(buffer, 7)
    assert take(pool) is buffer
    assert len(buffer.writer) == 0


def test_a_buffer_of_another_size_is_not_reused():
    pool = pool_of()
    buffer = take(pool, 25)
    pool.put_back(buffer)
    assert pool.free == []
    assert pool.unallocated_bytes == 100
    assert take(pool, 25) is not buffer


def test_free_buffers_are_given_up_for_a_large_one():
    pool = pool_of()
    for buffer in [take(pool) for _ in range(10)]:
        pool.put_back(buffer)
    assert len(pool.free) == 10
    assert take(pool, 95).size == 95
    assert pool.unallocated_bytes == 5


def test_a_sealed_batch_is_charged_at_most_its_buffer():
    pool = pool_of()
    assert pool.keep(take(pool), 12) == 10, "compression can make it longer"


def test_allocation_beyond_the_total_is_refused():
    pool = pool_of(total=25)
    assert [pool.allocate(10) is None for _ in range(3)] == [False, False, True]
    with pytest.raises(ValueError, match="26 bytes do not fit"):
        pool.allocate(26)


def test_the_free_list_never_exceeds_the_total():
    pool = pool_of(total=20)
    first, second = take(pool), take(pool)
    pool.keep(first, 8)
    assert pool.free == []
    assert pool.allocate(10) is None, "8 and 10 bytes are in use"
    pool.keep(second, 0)
    assert pool.allocate(10) is second


def test_waiters_are_served_in_order_whatever_their_sizes():
    pool = pool_of(total=30)
    buffers = [take(pool) for _ in range(3)]
    large, small = pool.wait(20), pool.wait(1)
    pool.put_back(buffers[0])
    pool.serve()
    assert pool.allocate(1) is None, "nobody passes those who wait"
    assert not large.waiter.done and not small.waiter.done
    pool.put_back(buffers[1])
    pool.serve()
    assert large.waiter.result().size == 20
    assert not small.waiter.done
    pool.deallocate(10)
    assert small.waiter.result().size == 1


def test_a_waiter_is_served_at_once_if_there_is_room():
    assert pool_of().wait(10).waiter.done


def test_a_waiter_that_gives_up_lets_the_next_be_served():
    pool = pool_of(total=30)
    take(pool), take(pool)
    large, small = pool.wait(20), pool.wait(10)
    pool.give_up(large, MaxBlockTimeout("enough"))
    with pytest.raises(MaxBlockTimeout):
        large.waiter.result()
    assert small.waiter.result().size == 10


def test_memory_for_a_waiter_that_is_done_goes_to_the_next():
    pool = pool_of(total=10)
    buffer = take(pool)
    gone, next_one = pool.wait(10), pool.wait(10)
    gone.waiter.fail(MaxBlockTimeout("somebody else's reason"))
    pool.put_back(buffer)
    pool.serve()
    assert next_one.waiter.result().size == 10


def test_a_waiter_may_allocate_from_within_its_callback():
    pool = pool_of(total=20)
    buffers = [take(pool), take(pool)]
    waiter = pool.wait(10).waiter
    more = []
    waiter.add_callback(lambda _: more.append(pool.wait(10)))
    pool.put_back(buffers[0])
    pool.serve()
    assert waiter.done and not more[0].waiter.done
    pool.put_back(buffers[1])
    pool.serve()
    assert more[0].waiter.done


def test_closing_fails_all_waiters_and_later_allocations():
    pool = pool_of(total=10)
    buffer = take(pool)
    waiting = pool.wait(10)
    pool.close()
    for ask in (waiting.waiter.result, lambda: pool.allocate(1), pool.wait(1).waiter.result):
        with pytest.raises(ClientClosed):
            ask()
    pool.keep(buffer, 3)
    pool.deallocate(3)
    assert pool.charged_bytes == 0
