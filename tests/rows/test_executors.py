"""One sum over blocks, the same bits for any number of workers, and BLAS held to one thread meanwhile."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from threadpoolctl import OpenBLASController, threadpool_info, threadpool_limits

from rflaf.errors import InvalidParameterError
from rflaf.rows.executors import SingleThreadedBLAS, ThreadExecutor, resolve_n_jobs

each_count = pytest.mark.parametrize("n_workers", [1, 2, 3, 5])


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads():
    """A limit that one thread differs from, on any machine."""
    with threadpool_limits(2, user_api="blas"):
        assert blas_threads() == {2}
        yield
        assert blas_threads() == {2}


@pytest.fixture
def two_blas_threads_of_nobody():
    """The same, set by no thread that newer releases of threadpoolctl would give the sole right to change it."""
    release = getattr(OpenBLASController, "clear_controlling_thread", lambda force: None)
    limiter = threadpool_limits(2, user_api="blas")
    release(force=True)
    yield
    release(force=True)
    limiter.restore_original_limits()
    release(force=True)


def dawdle(item: int) -> None:
    """Sleep so that items finish in another order than they start."""
    time.sleep(np.random.default_rng(item).uniform(0, 2e-3))


# Sums and results


@each_count
def test_the_sum_is_the_sequential_one_bit_for_bit(n_workers):
    rng = np.random.default_rng(0)
    parts = (rng.standard_normal((40, 50)) * 10.0 ** rng.integers(-6, 7, (40, 1))).astype(np.float32)
    forward, backward = parts[0].copy(), parts[-1].copy()
    for part in parts[1:]:
        forward += part
    for part in parts[-2::-1]:
        backward += part
    assert np.any(forward != backward)  # the order matters for these numbers

    def one(item, scratch):
        dawdle(item)
        return parts[item].copy()

    with ThreadExecutor(n_workers) as executor:
        for _ in range(2):
            np.testing.assert_array_equal(executor.reduce(range(40), one), forward)


@pytest.mark.parametrize("together", ["map", "side_by_side"])
def test_no_worker_waits_while_the_first_item_takes_long(together):
    last_is_done = threading.Event()

    def one(item):
        if item == 9:
            last_is_done.set()
        return last_is_done.wait(10) if item == 0 else item

    with ThreadExecutor(2) as executor:
        items = [partial(one, item) for item in range(10)]
        done = executor.map(range(10), one) if together == "map" else executor.side_by_side(items)
    assert done == [True, *range(1, 10)]


@each_count
def test_results_come_in_the_order_of_the_items(n_workers):
    def one(item):
        dawdle(item)
        return item

    with ThreadExecutor(n_workers) as executor:
        assert executor.map(range(30), one) == list(range(30))
        assert executor.map([], one) == []


@each_count
@pytest.mark.parametrize("n_items", [1, 2, 3])
def test_a_few_items_are_enough(n_workers, n_items):
    with ThreadExecutor(n_workers) as executor:
        total = executor.reduce(range(n_items), lambda item, scratch: np.array([item, 1]))
    np.testing.assert_array_equal(total, [sum(range(n_items)), n_items])


def test_items_run_in_several_threads_at_once():
    meeting = threading.Barrier(3, timeout=20)
    with ThreadExecutor(3) as executor:
        names = executor.map(range(3), lambda item: (meeting.wait(), threading.current_thread().name)[1])
    assert len(set(names)) == 3


@pytest.mark.parametrize("enter", [True, False])
def test_one_worker_is_the_calling_thread(enter):
    executor = ThreadExecutor(1)
    if enter:
        with executor:
            found = executor.map(range(3), lambda item: threading.get_ident())
    else:
        found = executor.map(range(3), lambda item: threading.get_ident())
    assert set(found) == {threading.get_ident()}


@each_count
def test_no_two_running_items_share_scratch(n_workers):
    def one(item, scratch):
        mine = scratch.array("mine", (16,), float)
        mine[:] = item
        dawdle(item)
        assert np.all(mine == item)
        return np.array([mine.sum()])

    with ThreadExecutor(n_workers) as executor:
        assert executor.reduce(range(40), one) == 16 * sum(range(40))


def test_scratch_is_used_again_by_the_next_item_of_a_worker():
    addresses = []

    def one(item, scratch):
        addresses.append(scratch.array("mine", (16,), float).__array_interface__["data"][0])
        return np.zeros(1)

    with ThreadExecutor(2) as executor:
        executor.reduce(range(30), one)
        executor.reduce(range(30), one)
    assert len(set(addresses)) <= 2


def test_items_are_not_mapped_far_ahead_of_the_sum():
    """While the first item hangs only a few more may be held in memory, however many there are."""
    started, free = [], threading.Event()

    def one(item, scratch):
        started.append(item)
        if item == 0:
            time.sleep(0.1)
            ahead.extend(started)
            free.set()
        return np.zeros(1)

    ahead: list[int] = []
    with ThreadExecutor(2) as executor:
        executor.reduce(range(100), one)
    assert free.is_set()
    assert len(started) == 100
    assert len(ahead) <= 2 + 2


# Errors


@each_count
def test_an_error_in_a_worker_arrives_and_the_executor_works_on(n_workers):
    def one(item, scratch):
        dawdle(item)
        if item >= 4:
            raise RuntimeError(f"block {item} is broken")
        return np.array([item])

    with ThreadExecutor(n_workers) as executor:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="block 4 is broken"):
                executor.reduce(range(20), one)
            with pytest.raises(RuntimeError, match="block 4 is broken"):
                executor.map(range(20), lambda item: one(item, None))
            np.testing.assert_array_equal(executor.reduce(range(4), one), [6])


def test_after_an_error_the_items_that_wait_are_dropped():
    started = []

    def one(item):
        started.append(item)
        if item == 0:
            raise RuntimeError
        time.sleep(1e-3)

    with ThreadExecutor(2) as executor, pytest.raises(RuntimeError):
        executor.map(range(1000), one)
    assert len(started) < 20


# BLAS threads


@each_count
@pytest.mark.usefixtures("two_blas_threads")
def test_inside_blas_has_one_thread_and_afterwards_what_it_had(n_workers):
    with ThreadExecutor(n_workers) as executor:
        assert blas_threads() == {1}
        assert executor.map(range(4), lambda item: blas_threads()) == [{1}] * 4
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_threads_return_after_an_error():
    def run_and_fail():
        with ThreadExecutor(2) as executor:
            executor.map(range(4), lambda item: 1 / item)

    with pytest.raises(ZeroDivisionError):
        run_and_fail()
    assert blas_threads() == {2}


def enter_and_leave_in_two_threads(first_to_leave: int) -> list[set[int]]:
    """BLAS threads seen after the first entry, the second, the first exit and the second."""
    executors, seen = [ThreadExecutor(2), ThreadExecutor(1)], []
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        threads = [one, other]
        for thread, executor in zip(threads, executors, strict=True):
            thread.submit(executor.__enter__).result()
            seen.append(blas_threads())
        for i in (first_to_leave, 1 - first_to_leave):
            threads[i].submit(executors[i].__exit__, None, None, None).result()
            seen.append(blas_threads())
    return seen


@pytest.mark.usefixtures("two_blas_threads_of_nobody")
@pytest.mark.parametrize("first_to_leave", [0, 1])
def test_blas_threads_return_when_the_last_of_two_executors_leaves(first_to_leave):
    assert enter_and_leave_in_two_threads(first_to_leave) == [{1}, {1}, {1}, {2}]


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("first_to_leave", [0, 1])
def test_executors_of_other_threads_hold_blas_under_a_limit_of_this_thread(first_to_leave):
    assert enter_and_leave_in_two_threads(first_to_leave) == [{1}, {1}, {1}, {2}]


@pytest.mark.usefixtures("two_blas_threads_of_nobody")
def test_executors_of_other_threads_hold_blas_after_one_of_this_thread():
    with ThreadExecutor(1):
        pass
    assert enter_and_leave_in_two_threads(0) == [{1}, {1}, {1}, {2}]


@pytest.mark.usefixtures("two_blas_threads_of_nobody")
def test_a_closed_executor_leaves_the_limit_to_others():
    with ThreadExecutor(1):
        pass

    def limit_to_three():
        with threadpool_limits(3, user_api="blas"):
            return blas_threads()

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(limit_to_three).result() == {3}


def test_only_blas_is_held():
    """The threads of OpenMP, which scikit-learn loads, are the caller's to set, also while an executor is open."""

    def openmp_threads():
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "openmp"}

    with threadpool_limits(2, user_api="openmp"):
        with ThreadExecutor(1):
            assert openmp_threads() <= {2}
            limiter = threadpool_limits(3, user_api="openmp")
        assert openmp_threads() <= {3}
        limiter.restore_original_limits()


@pytest.mark.usefixtures("two_blas_threads")
def test_an_executor_can_be_opened_again_and_inside_another():
    executor = ThreadExecutor(2)
    for _ in range(2):
        with executor, ThreadExecutor(2) as inner:
            assert inner.map(range(3), lambda item: item) == [0, 1, 2]
            assert blas_threads() == {1}
        assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_many_threads_may_hold_blas_in_any_order():
    def hold(seed):
        seen = set()
        for item in range(10):
            with SingleThreadedBLAS():
                seen |= blas_threads()
                dawdle(10 * seed + item)
        return seen

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(hold, range(4))) == [{1}] * 4
    assert blas_threads() == {2}


# Inside joblib


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.usefixtures("two_blas_threads")
def test_executors_work_inside_joblib(backend):
    parts = np.random.default_rng(0).standard_normal((12, 5)).astype(np.float32)

    def sum_in_blocks(n_workers):
        with ThreadExecutor(n_workers) as executor:
            return executor.reduce(parts, lambda part, scratch: part.copy())

    with Parallel(n_jobs=2, backend=backend) as parallel:
        found = parallel(delayed(sum_in_blocks)(2) for _ in range(3))
    if backend == "loky":
        get_reusable_executor().shutdown(wait=True)
    np.testing.assert_array_equal(found, [sum_in_blocks(1)] * 3)


# The number of workers


@pytest.mark.parametrize("limit", [1, 2])
def test_by_default_the_number_of_workers_is_the_limit_of_blas(limit):
    with threadpool_limits(limit, user_api="blas"):
        assert resolve_n_jobs(None) == limit


@pytest.mark.parametrize("n_jobs", [1, 2, 7, 1000])
def test_a_positive_number_of_workers_is_taken_as_it_is(n_jobs):
    assert resolve_n_jobs(n_jobs) == n_jobs


def test_negative_numbers_count_back_from_the_processors():
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert resolve_n_jobs(-1) == processors
    assert resolve_n_jobs(-2) == max(1, processors - 1)
    assert resolve_n_jobs(-10_000) == 1


def test_zero_workers_are_refused():
    with pytest.raises(InvalidParameterError, match=r"n_jobs must not be zero; got 0\. Use 1, or -1 for every"):
        resolve_n_jobs(0)
