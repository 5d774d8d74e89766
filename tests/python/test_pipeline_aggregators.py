"""Custom aggregators: a rule of one's own, run on workers, one item at a time."""

import threading
import time

import pytest

from headrace.pipeline import PipelineBuilder, PipelineFailure
from headrace.pipeline.defs import Aggregator, Collate


class Runs(Aggregator):
    """Joins equal neighbours: (value, count)."""

    def __init__(self):
        self.value, self.count = None, 0

    def accumulate(self, item):
        if item < 0:
            raise ValueError(item)
        if self.count and item == self.value:
            self.count += 1
            return None
        done = self.flush()
        self.value, self.count = item, 1
        return done

    def flush(self):
        done = (self.value, self.count) if self.count else None
        self.count = 0
        return done


def runs(values):
    """The same by a loop."""
    out = []
    for v in values:
        if v < 0:
            continue
        if out and out[-1][0] == v:
            out[-1] = (v, out[-1][1] + 1)
        else:
            out.append((v, 1))
    return out


VALUES = [i * i % 7 // 3 for i in range(200)]


def build(source, aggregator, *ops, continuous=False, drop_last=False, **options):
    builder = PipelineBuilder().add_source(source, continuous=continuous)
    builder.aggregate(aggregator, drop_last=drop_last)
    for op in ops:
        builder.pipe(op)
    return builder.add_sink().build(num_threads=2, **options)


@pytest.mark.parametrize("n", [0, 1, 2, 17, 200])
def test_against_a_loop(n):
    assert list(build(VALUES[:n], Runs())) == runs(VALUES[:n])


@pytest.mark.parametrize("n", [0, 1, 2, 17, 200])
def test_drop_last_against_a_loop(n):
    assert list(build(VALUES[:n], Runs(), drop_last=True)) == runs(VALUES[:n])[:-1]


@pytest.mark.parametrize("drop_last", [False, True])
def test_epochs(drop_last):
    """Nothing of an epoch goes into the next one."""
    pipeline = build(VALUES[:50], Runs(), continuous=True, drop_last=drop_last)
    want = runs(VALUES[:50])
    for _ in range(5):
        assert list(pipeline) == (want[:-1] if drop_last else want)
    pipeline.stop()


def test_between_other_stages():
    pipeline = (
        PipelineBuilder()
        .add_source(range(300))
        .pipe(lambda x: x // 4, concurrency=3, output_order="input")
        .aggregate(Runs())
        .pipe(lambda run: run[0] * run[1], concurrency=2, output_order="input")
        .aggregate(5)
        .add_sink()
        .build(num_threads=3)
    )
    values = [4 * v for v in range(75)]
    assert list(pipeline) == [values[i : i + 5] for i in range(0, 75, 5)]


def test_each_build_gets_a_fresh_copy():
    class Mine(Collate):
        """Not recognised as the native one."""

    for aggregator in (Collate(10), Mine(10), Runs()):
        builder = PipelineBuilder().add_source(range(7)).aggregate(aggregator)
        builder.add_sink()
        first, second = builder.build(num_threads=1), builder.build(num_threads=1)
        got = list(first)
        assert list(second) == got
        assert list(builder.build(num_threads=1)) == got
        assert aggregator.flush() is None


def test_a_state_from_before_is_copied_too():
    """What the aggregator holds at build() is where each pipeline begins."""
    aggregator = Runs()
    aggregator.accumulate(5)
    builder = PipelineBuilder().add_source([5, 5, 6]).aggregate(aggregator).add_sink()
    for _ in range(2):
        assert list(builder.build(num_threads=1)) == [(5, 3), (6, 1)]


def test_what_cannot_be_copied_is_said_at_build():
    class Locked(Runs):
        def __init__(self):
            super().__init__()
            self.lock = threading.Lock()

    builder = PipelineBuilder().add_source([1]).aggregate(Locked()).add_sink()
    with pytest.raises(TypeError, match="lock") as caught:
        builder.build(num_threads=1)
    assert "__deepcopy__" in caught.value.__notes__[0]


@pytest.mark.parametrize("n", [1, 3, 32])
@pytest.mark.parametrize("drop_last", [False, True])
def test_collate_is_aggregate_n(n, drop_last):
    class Mine(Collate):
        """Not recognised as the native one."""

    values = list(range(100))
    want = [values[i : i + n] for i in range(0, 100, n)]
    if drop_last:
        want = [part for part in want if len(part) == n]
    for aggregator in (n, Collate(n), Mine(n)):
        assert list(build(values, aggregator, drop_last=drop_last)) == want


def test_collate_alone():
    collate = Collate(2)
    assert [collate.accumulate(x) for x in "abc"] == [None, ["a", "b"], None]
    assert collate.flush() == ["c"]
    assert collate.flush() is None
    with pytest.raises(ValueError, match="at least 1"):
        Collate(0)


def test_an_exception_in_accumulate_fails_that_item():
    values = [1, 1, -1, 1, -2, 2, -3]
    pipeline = build(values, Runs())
    assert list(pipeline) == [(1, 3), (2, 1)]
    assert [(f.index, f.exception.args) for f in pipeline.failures] == [
        (2, (-1,)),
        (4, (-2,)),
        (6, (-3,)),
    ]
    stage = pipeline.stats().stages[1]
    assert (stage.name, stage.items_in, stage.items_out, stage.failed) == (
        "aggregate(Runs)",
        7,
        2,
        3,
    )


def test_an_exception_in_flush():
    class Breaks(Runs):
        def flush(self):
            if self.value == 2:
                self.value = None
                raise RuntimeError("no flush")
            return super().flush()

    pipeline = build([1, 2, 2], Breaks())
    assert list(pipeline) == [(1, 1)]
    (failure,) = pipeline.failures
    assert failure.index == -1
    assert str(failure.exception) == "no flush"


def test_too_many_failures():
    pipeline = build([1, -1, -2, -3, 2], Runs(), max_failures=1)
    got = []
    with pytest.raises(PipelineFailure) as caught:
        got.extend(pipeline)
    assert [e.args for e in caught.value.exceptions] == [(-1,), (-2,)]
    assert got in ([], [(1, 1)])  # what was gathered may be lost with the stage


def test_results_are_numbered_by_the_first_item_since_the_last_one():
    def fail(x):
        raise ValueError(x)

    pipeline = build([7, 7, 8, 9, 9, 9], Runs(), fail)
    assert list(pipeline) == []
    # (7, 2) comes with item 2, (8, 1) with item 3, (9, 3) with the flush.
    assert [f.index for f in pipeline.failures] == [0, 3, 4]


def test_one_at_a_time_and_never_on_the_consumer():
    inside, seen = threading.Semaphore(1), set()

    class Checks(Aggregator):
        def accumulate(self, item):
            assert inside.acquire(blocking=False)
            seen.add(threading.get_native_id())
            time.sleep(0.0002)
            inside.release()
            return item

        def flush(self):
            return "end"

        def __deepcopy__(self, memo):
            return self

    pipeline = build(range(100), Checks())
    assert list(pipeline) == [*range(100), "end"]
    assert threading.get_native_id() not in seen


def test_a_slow_one_blocks_only_itself():
    """Stages before and behind go on meanwhile."""
    done = threading.Event()

    class Waits(Aggregator):
        def accumulate(self, item):
            if item == 1:
                done.wait(5)
            return item

        def flush(self):
            return None

    before = []
    pipeline = (
        PipelineBuilder()
        .add_source(range(8))
        .pipe(lambda x: before.append(x) or x)
        .aggregate(WithoutCopy(Waits()))
        .add_sink()
        .build(num_threads=2)
    )
    assert pipeline.get_item(timeout=5) == 0
    deadline = time.monotonic() + 5
    while len(before) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    done.set()
    assert list(pipeline) == list(range(1, 8))


class WithoutCopy(Aggregator):
    """Hands on to an aggregator that is shared on purpose."""

    def __init__(self, inner):
        self.inner = inner

    def accumulate(self, item):
        return self.inner.accumulate(item)

    def flush(self):
        return self.inner.flush()

    def __deepcopy__(self, memo):
        return WithoutCopy(self.inner)


@pytest.mark.parametrize("wrong", [None, 1.5, "4", True, Collate, [1]])
def test_other_inputs_are_refused(wrong):
    with pytest.raises(TypeError, match="number of items or an Aggregator"):
        PipelineBuilder().aggregate(wrong)


def test_columns_need_a_number():
    with pytest.raises(TypeError, match="columns=True"):
        PipelineBuilder().aggregate(Runs(), columns=True)


def test_residue(script):
    out = script(
        """
        import weakref
        from headrace.pipeline.defs import Aggregator

        alive = weakref.WeakSet()

        class Item:
            def __init__(self, i):
                self.i = i
                alive.add(self)

        class Keeps(Aggregator):
            def __init__(self):
                self.items = []
            def accumulate(self, item):
                self.items.append(item)
                return self.flush() if len(self.items) == 5 else None
            def flush(self):
                items, self.items = self.items, []
                return items

        for taken in range(6):
            before = threads()
            builder = PipelineBuilder().add_source(map(Item, range(1000)))
            builder.aggregate(Keeps()).add_sink()
            pipeline = builder.build(num_threads=2)
            for _ in range(taken):
                assert len(pipeline.get_item(timeout=5)) == 5
            pipeline.stop()
            del pipeline, builder
            gc.collect()
            wait_until(lambda: threads() == before)
            wait_until(lambda: not alive)
        print("ok")
        """
    )
    assert out == "ok\n"
