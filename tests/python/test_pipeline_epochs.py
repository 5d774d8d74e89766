"""Continuous sources: one epoch after the other, warm in between."""

import itertools
import threading
import time
from collections import Counter

import pytest

from headrace.pipeline import PipelineBuilder


def build(source, *stages, threads=2, sink=3):
    builder = PipelineBuilder().add_source(source, continuous=True)
    for add in stages:
        add(builder)
    return builder.add_sink(sink).build(num_threads=threads)


def pipe(op, **options):
    return lambda builder: builder.pipe(op, **options)


def aggregate(n, **options):
    return lambda builder: builder.aggregate(n, **options)


class Passes:
    """An iterable that gives other items in each pass: (pass, number)."""

    def __init__(self, *lengths):
        self.lengths = lengths
        self.begun = 0

    def __iter__(self):
        n = self.begun
        self.begun += 1
        return ((n, i) for i in range(self.lengths[n % len(self.lengths)]))


@pytest.mark.parametrize("sink", [1, 3, 64])
@pytest.mark.parametrize("n", [0, 1, 3, 15, 16, 17, 40, 100])
def test_each_iterator_covers_one_epoch(n, sink):
    pipeline = build(range(n), sink=sink)
    for _ in range(20):
        assert list(pipeline) == list(range(n))
    pipeline.stop()
    assert pipeline.stats().delivered == 20 * n


def model(lengths, epoch, batch, drop_last):
    """What one epoch gives, worked out by a loop."""
    values = [
        (epoch, i, k)
        for i in range(lengths[epoch % len(lengths)])
        if i % 5 != 2
        for k in range(i % 3)
    ]
    batches = [values[i : i + batch] for i in range(0, len(values), batch)]
    return [b for b in batches if len(b) == batch or not drop_last]


def fail_some(x):
    if x[1] % 5 == 2:
        raise ValueError(x)
    return x


def spread(x):
    for k in range(x[1] % 3):
        yield (*x, k)


@pytest.mark.parametrize("concurrency", [1, 2, 7])
@pytest.mark.parametrize("output_order", ["completion", "input"])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch", [1, 4, 50])
def test_epochs_against_a_loop(batch, drop_last, output_order, concurrency):
    lengths = (23, 0, 1, 60)
    options = {"concurrency": concurrency, "output_order": output_order}
    pipeline = build(
        Passes(*lengths),
        pipe(fail_some, **options),
        pipe(spread, **options),
        aggregate(batch, drop_last=drop_last),
    )
    for epoch in range(9):
        got = list(pipeline)
        want = model(lengths, epoch, batch, drop_last)
        assert [len(b) for b in got] == [len(b) for b in want]
        if output_order == "input" or concurrency == 1:
            assert got == want
        elif not drop_last:
            assert Counter(x for b in got for x in b) == Counter(
                x for b in want for x in b
            )
        assert all(x[0] == epoch for b in got for x in b)
    pipeline.stop()


def test_a_break_goes_on_in_the_same_epoch():
    pipeline = build(range(5))
    assert next(iter(pipeline)) == 0
    assert list(pipeline) == [1, 2, 3, 4]
    assert list(pipeline) == [0, 1, 2, 3, 4]
    pipeline.stop()


def test_get_item_raises_eof_once_per_epoch():
    pipeline = build([7, 8])
    for _ in range(3):
        assert pipeline.get_item() == 7
        assert pipeline.get_item() == 8
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=5)
    pipeline.stop()


def test_an_iterator_stays_at_its_end():
    pipeline = build(range(2))
    first = iter(pipeline)
    assert list(first) == [0, 1]
    assert list(first) == []
    early = iter(pipeline)
    assert [pipeline.get_item(), pipeline.get_item()] == [0, 1]
    with pytest.raises(EOFError):
        pipeline.get_item()
    assert list(early) == []  # its epoch is over, though it gave nothing
    assert list(pipeline) == [0, 1]
    pipeline.stop()


def test_empty_epochs_without_a_busy_loop():
    source = Passes(0)
    pipeline = build(source, pipe(str), sink=2)
    assert list(pipeline) == []
    time.sleep(0.2)
    begun = source.begun
    assert begun < 60  # as many as there are places for marks
    cpu = time.process_time()
    time.sleep(0.2)
    assert source.begun == begun
    assert time.process_time() - cpu < 0.05
    for _ in range(200):
        assert list(pipeline) == []
    assert source.begun >= 200
    pipeline.stop()


def exhausted_sources():
    shared = iter(range(3))

    class Hides:
        def __iter__(self):
            return shared

    return {
        "generator": (i for i in range(3)),
        "iterator": iter([0, 1, 2]),
        "map": map(int, "012"),
        "iterable that hides one": Hides(),
    }


@pytest.mark.parametrize("kind", exhausted_sources())
def test_an_exhausted_iterator_is_an_error(kind):
    pipeline = build(exhausted_sources()[kind])
    assert list(pipeline) == [0, 1, 2]
    with pytest.raises(ValueError, match="can be iterated again") as caught:
        list(pipeline)
    assert "source" in caught.value.__notes__[0]
    assert list(pipeline) == []
    with pytest.raises(EOFError):
        pipeline.get_item()


def test_an_empty_generator_is_an_error_too():
    pipeline = build(x for x in ())
    assert list(pipeline) == []
    with pytest.raises(ValueError, match="can be iterated again"):
        list(pipeline)


def test_an_iterator_that_begins_anew():
    class Rewinds:
        def __iter__(self):
            self.left = iter("abc")
            return self

        def __next__(self):
            return next(self.left)

    pipeline = build(Rewinds())
    assert [list(pipeline) for _ in range(4)] == [["a", "b", "c"]] * 4
    pipeline.stop()


def test_a_source_that_fails_in_a_later_pass():
    class Breaks:
        passes = 0

        def __iter__(self):
            self.passes += 1
            yield from (1, 2)
            if self.passes == 3:
                raise OSError("gone")
            yield 3

    pipeline = build(Breaks(), aggregate(2))
    assert list(pipeline) == [[1, 2], [3]]
    assert list(pipeline) == [[1, 2], [3]]
    got = []
    with pytest.raises(OSError, match="gone"):
        got.extend(pipeline)
    assert got == [[1, 2]]
    assert list(pipeline) == []


def test_what_comes_before_a_failing_pass_is_delivered():
    class Breaks:
        passes = 0

        def __iter__(self):
            self.passes += 1
            if self.passes == 2:
                raise OSError("gone")
            return iter((1, 2))

    pipeline = build(Breaks())
    assert list(pipeline) == [1, 2]
    with pytest.raises(OSError, match="gone"):
        next(iter(pipeline))


def test_the_next_epoch_is_prepared_while_one_is_consumed():
    done = []

    def work(x):
        time.sleep(0.01)
        done.append(x)
        return x

    source = Passes(4)
    pipeline = build(source, pipe(work), sink=8)
    iterator = iter(pipeline)
    assert next(iterator) == (0, 0)
    deadline = time.monotonic() + 5
    while (1, 0) not in done:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert list(iterator) == [(0, 1), (0, 2), (0, 3)]
    pipeline.stop()


def test_a_slow_begin_of_a_pass_does_not_hold_up_the_consumer():
    """The items of the epoch before are ready: taking them does not wait."""
    began = threading.Event()

    class Shuffles:
        passes = 0

        def __iter__(self):
            self.passes += 1
            if self.passes == 2:
                began.set()
                time.sleep(0.5)
            return iter(range(12))

    pipeline = build(Shuffles(), sink=12)
    iterator = iter(pipeline)
    assert next(iterator) == 0
    assert began.wait(5)
    begin = time.monotonic()
    assert list(iterator) == list(range(1, 12))
    assert time.monotonic() - begin < 0.3
    pipeline.stop()


def test_two_threads_share_each_epoch():
    epochs, n = 30, 50
    pipeline = build(range(n), pipe(lambda x: x, concurrency=2))
    got = [[] for _ in range(epochs)]
    barrier = threading.Barrier(2)

    def consume():
        for epoch in range(epochs):
            barrier.wait(10)
            iterator = iter(pipeline)
            barrier.wait(10)
            got[epoch].extend(iterator)

    threads = [threading.Thread(target=consume) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert [sorted(g) for g in got] == [list(range(n))] * epochs
    pipeline.stop()


def test_the_other_consumers_hear_of_the_end_at_once():
    """The next epoch has nothing yet that could wake them."""
    gate = threading.Event()

    class Waits:
        passes = 0

        def __iter__(self):
            self.passes += 1
            if self.passes == 2:
                gate.wait(10)
            yield self.passes
            if self.passes == 1:
                time.sleep(0.1)

    pipeline = build(Waits())
    assert pipeline.get_item() == 1
    ended = []

    def consume(iterator):
        assert list(iterator) == []
        ended.append(time.monotonic())

    threads = [threading.Thread(target=consume, args=(iter(pipeline),)) for _ in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert len(ended) == 3
    assert max(ended) - min(ended) < 0.15
    gate.set()
    assert list(pipeline) == [2]
    pipeline.stop()


def test_large_items_do_not_shut_the_source_for_ever():
    """Marks in the read-ahead are no items for a batch."""
    big = bytes(30 << 20)
    pipeline = build([big] * 5, aggregate(4))
    for _ in range(6):
        assert [len(b) for b in pipeline] == [4, 1]
    pipeline.stop()


def test_failures_are_numbered_through():
    pipeline = build(range(4), pipe(lambda x: 1 / (x - 2)))
    for _ in range(3):
        assert len(list(pipeline)) == 3
    pipeline.stop()
    assert [f.index for f in pipeline.failures][:3] == [2, 6, 10]


def test_residue_of_a_stop_in_any_epoch(script):
    out = script(
        """
        for taken in range(0, 60, 3):
            before = threads()
            builder = PipelineBuilder().add_source(range(7), continuous=True)
            builder.pipe(lambda x: x, concurrency=3).aggregate(3)
            pipeline = builder.add_sink(2).build(num_threads=2)
            for _ in range(taken):
                try:
                    pipeline.get_item(timeout=5)
                except EOFError:
                    pass
            pipeline.stop()
            del pipeline
            gc.collect()
            wait_until(lambda: threads() == before)
        builder = PipelineBuilder().add_source(range(7), continuous=True)
        alive = builder.add_sink(2).build(num_threads=2)
        assert list(alive) == list(range(7))
        print("ok")
        """
    )
    assert out == "ok\n"


def test_many_passes_are_endless():
    pipeline = build(Passes(1, 2))
    for epoch in itertools.islice(itertools.count(), 300):
        assert list(pipeline) == [(epoch, i) for i in range(1 + epoch % 2)]
    pipeline.stop()
