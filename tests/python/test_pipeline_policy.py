"""What a stage does about failures: skip, raise, try again."""

import itertools
import threading
import time
from fractions import Fraction

import pytest

from headrace.errors import HeadraceError
from headrace.io import load_image
from headrace.pipeline import PipelineBuilder, Retry
from headrace.pipeline.defs import Aggregator


class Wrong(Exception):
    pass


def build(source, *ops, threads=3, sink=3, continuous=False, **options):
    builder = PipelineBuilder().add_source(source, continuous=continuous)
    for op in ops:
        builder.pipe(op, **options)
    return builder.add_sink(sink).build(num_threads=threads)


def take_all(pipeline):
    """Return what came, and the exception that ended it."""
    got = []
    try:
        for item in pipeline:
            got.append(item)
    except Exception as exc:
        return got, exc
    return got, None


def loop(values, op):
    """The same as a plain loop: what it gives, and what it raises."""
    got = []
    try:
        for value in values:
            result = op(value)
            if hasattr(result, "__next__"):
                got.extend(result)
            elif result is not None:
                got.append(result)
    except Exception as exc:
        return got, exc
    return got, None


# ---- on_error="raise" ----


def fail_at(*places):
    def op(x):
        if x in places:
            time.sleep(0.002 * (x % 3))
            raise Wrong(x)
        return None if x % 11 == 10 else 2 * x

    return op


def generate_until(place):
    def op(x):
        for k in range(x % 4):
            if x == place and k == x % 4 - 1:
                raise Wrong(x)
            yield 10 * x + k
        if x == place and x % 4 == 0:
            raise Wrong(x)

    return op


@pytest.mark.parametrize("concurrency", [1, 2, 7])
@pytest.mark.parametrize("place", [0, 1, 2, 30, 31, 62, 63, None])
@pytest.mark.parametrize("make", [fail_at, generate_until])
def test_s2_in_input_order_it_is_like_a_loop(make, place, concurrency):
    op = make(place)
    pipeline = build(
        range(64), op, concurrency=concurrency, output_order="input", on_error="raise"
    )
    got, exc = take_all(pipeline)
    want, wanted = loop(range(64), op)
    assert got == want
    assert (type(exc), getattr(exc, "args", None)) == (
        type(wanted),
        getattr(wanted, "args", None),
    )
    if place is not None:
        assert exc.__notes__ == [f"headrace: raised in stage 'op', item {place}"]
    assert list(pipeline) == []
    pipeline.stop()


def test_s2_the_first_in_order_is_raised_even_if_it_fails_last():
    def op(x):
        if x in (20, 21, 22, 23):
            time.sleep(0.05 * (24 - x))
            raise Wrong(x)
        return x

    for _ in range(5):
        pipeline = build(
            range(64), op, threads=6, concurrency=6, output_order="input",
            on_error="raise",
        )  # fmt: skip
        got, exc = take_all(pipeline)
        assert got == list(range(20))
        assert exc.args == (20,)


def test_s2_a_later_stage_fails_on_an_earlier_item():
    def first(x):
        if x == 8:
            raise Wrong("first", x)
        return x

    def second(x):
        time.sleep(0.005)
        if x == 3:
            raise Wrong("second", x)
        return x

    pipeline = build(
        range(64), first, second, concurrency=2, output_order="input", on_error="raise"
    )
    got, exc = take_all(pipeline)
    assert got == [0, 1, 2]
    assert exc.args == ("second", 3)


def test_a_stage_fails_before_the_source_does():
    def source():
        yield from range(6)
        raise OSError("gone")

    def op(x):
        time.sleep(0.01)
        if x == 4:
            raise Wrong(x)
        return x

    got, exc = take_all(build(source(), op, output_order="input", on_error="raise"))
    assert got == [0, 1, 2, 3]
    assert exc.args == (4,)


def test_s2_in_completion_order_no_more_is_begun():
    """What is under way may come; workers stop within an item or two."""
    begun, failed = [], []

    def op(x):
        begun.append(x)
        time.sleep(0.003)
        if x == 50:
            failed.append(len(begun))
            raise Wrong(x)
        return x

    pipeline = build(range(1000), op, concurrency=4, on_error="raise")
    got, exc = take_all(pipeline)
    assert exc.args == (50,)
    assert sorted([*got, 50]) == sorted(begun)
    assert len(begun) - failed[0] <= 8


def test_s2_the_original_object_arrives():
    error = Wrong("this one")

    def op(x):
        raise error

    _, exc = take_all(build([1], op, on_error="raise"))
    assert exc is error


def test_raised_ones_are_in_the_ledger_too():
    pipeline = build(range(9), fail_at(4), output_order="input", on_error="raise")
    _, exc = take_all(pipeline)
    (failure,) = pipeline.failures
    assert failure.exception is exc
    assert failure.index == 4


def test_the_ledger_adds_up_after_a_raise():
    for place in range(0, 40, 3):
        pipeline = build(
            range(40), fail_at(place, place + 1, place + 2), concurrency=5,
            output_order="input", on_error="raise",
        )  # fmt: skip
        take_all(pipeline)
        pipeline.stop()
        stage = pipeline.stats().stages[1]
        assert stage.items_in == (
            stage.items_out + stage.filtered + stage.failed + stage.released
        )


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit])
def test_s6_stop_iteration_is_no_end(kind):
    def op(x):
        raise kind("in an op")

    got, exc = take_all(build([1], op, on_error="raise"))
    assert got == []
    assert isinstance(exc, RuntimeError)
    assert isinstance(exc.__cause__, kind)


def test_native_operations_raise_too(tmp_path):
    missing = str(tmp_path / "missing.jpg")
    pipeline = build([missing], load_image, on_error="raise")
    _, exc = take_all(pipeline)
    assert isinstance(exc, FileNotFoundError)
    assert "missing.jpg" in exc.__notes__[0]


def test_a_raise_in_the_second_epoch():
    """The first is whole; the second ends with the exception, not with its mark."""
    calls = itertools.count()

    def op(x):
        if next(calls) == 15:
            raise Wrong(x)
        return x

    pipeline = build(
        range(10), op, continuous=True, output_order="input", on_error="raise"
    )
    assert list(pipeline) == list(range(10))
    got, exc = take_all(pipeline)
    assert got == [0, 1, 2, 3, 4]
    assert exc.args == (5,)
    assert list(pipeline) == []


def test_an_aggregator_raises():
    class Breaks(Aggregator):
        def accumulate(self, item):
            if item == 3:
                raise Wrong(item)
            return item

        def flush(self):
            return None

    builder = PipelineBuilder().add_source(range(9)).aggregate(Breaks()).add_sink()
    got, exc = take_all(builder.build(num_threads=2, on_error="raise"))
    assert got == [0, 1, 2]
    assert exc.args == (3,)


def test_columns_that_do_not_fit_raise():
    builder = PipelineBuilder().add_source([(1, 2), (3,)]).aggregate(2, columns=True)
    builder.add_sink()
    assert take_all(builder.build(num_threads=1)) == ([], None)
    _, exc = take_all(builder.build(num_threads=1, on_error="raise"))
    assert isinstance(exc, TypeError)
    assert "one shape" in str(exc)


def test_build_says_for_all_but_those_that_say_themselves():
    def stage(**options):
        builder = PipelineBuilder().add_source(range(5)).pipe(fail_at(2), **options)
        return builder.add_sink().build(num_threads=1, on_error="raise")

    assert take_all(stage())[1].args == (2,)
    assert take_all(stage(on_error="skip")) == ([0, 2, 6, 8], None)
    assert take_all(stage(max_failures=-1)) == ([0, 2, 6, 8], None)
    assert take_all(stage(max_failures=Fraction(1, 2))) == ([0, 2, 6, 8], None)


@pytest.mark.parametrize("wrong", ["ignore", None, True, "Raise"])
def test_other_policies_are_refused(wrong):
    builder = PipelineBuilder().add_source([]).add_sink()
    with pytest.raises(ValueError, match="on_error"):
        builder.build(num_threads=1, on_error=wrong)
    if wrong is not None:
        with pytest.raises(ValueError, match="on_error"):
            builder.pipe(str, on_error=wrong)


def test_a_limit_and_a_raise_contradict():
    with pytest.raises(ValueError, match="max_failures"):
        PipelineBuilder().pipe(str, on_error="raise", max_failures=3)


# ---- retry ----


class Flaky:
    """Fails the first `times` calls for each item that `which` names."""

    def __init__(self, times, which=lambda x: x % 5 == 2, error=OSError):
        self.times, self.which, self.error = times, which, error
        self.calls = {}
        self.lock = threading.Lock()

    def __call__(self, x):
        with self.lock:
            self.calls[x] = self.calls.get(x, 0) + 1
        if self.which(x) and self.calls[x] <= self.times:
            raise self.error(x)
        return 3 * x


FAST = {"backoff": 0.002, "backoff_max": 0.01}


@pytest.mark.parametrize("concurrency", [1, 2, 7])
@pytest.mark.parametrize("output_order", ["completion", "input"])
@pytest.mark.parametrize("times", [0, 1, 3])
def test_retries_against_a_loop(times, output_order, concurrency):
    op = Flaky(times)
    pipeline = build(
        range(60), op, concurrency=concurrency, output_order=output_order,
        retry=Retry(2, **FAST),
    )  # fmt: skip
    got, exc = take_all(pipeline)
    lost = [x for x in range(60) if x % 5 == 2] if times > 2 else []
    want = [3 * x for x in range(60) if x not in lost]
    assert exc is None
    assert (got if output_order == "input" else sorted(got)) == want
    calls = {x: 1 + (min(times, 2) if x % 5 == 2 else 0) for x in range(60)}
    assert op.calls == calls
    assert sorted(f.index for f in pipeline.failures) == lost
    assert all(isinstance(f.exception, OSError) for f in pipeline.failures)
    stage = pipeline.stats().stages[1]
    assert stage.retried == sum(calls.values()) - 60
    assert (stage.items_in, stage.failed) == (60, len(lost))


def test_only_named_exceptions_are_tried_again():
    for error, on, calls in [
        (ValueError, OSError, 1),
        (ConnectionResetError, OSError, 3),
        (ValueError, (KeyError, ValueError), 3),
        (KeyError, (LookupError,), 3),
    ]:
        op = Flaky(9, lambda x: True, error)
        pipeline = build([7], op, retry=Retry(2, on=on, **FAST))
        assert list(pipeline) == []
        assert op.calls == {7: calls}
        (failure,) = pipeline.failures
        assert type(failure.exception) is error


def test_the_operation_gets_the_same_object_again():
    seen = []

    def op(x):
        seen.append(x)
        if len(seen) < 3:
            raise OSError
        return x

    item = object()
    assert list(build([item], op, retry=Retry(5, **FAST))) == [item]
    assert all(x is item for x in seen)
    assert len(seen) == 3


def test_retry_of_a_field():
    op = Flaky(2, lambda x: True)
    pipeline = (
        PipelineBuilder()
        .add_source([(i, f"label {i}") for i in range(20)])
        .pipe(op, key=0, concurrency=4, output_order="input", retry=Retry(2, **FAST))
        .add_sink()
        .build(num_threads=2)
    )
    assert list(pipeline) == [(3 * i, f"label {i}") for i in range(20)]


def test_a_number_is_a_retry():
    op = Flaky(1, lambda x: True)
    begin = time.monotonic()
    assert list(build([1], op, retry=2)) == [3]
    assert time.monotonic() - begin < 2
    assert list(build([1], Flaky(1, lambda x: True), retry=0)) == []


def test_waiting_items_keep_their_slots():
    """No more than `concurrency` items are in work or waiting, and others go on."""
    active, most = set(), [0]
    lock = threading.Lock()

    def op(x):
        with lock:
            active.add(x)
            most[0] = max(most[0], len(active))
        time.sleep(0.001)
        if x % 2 and x not in seen:
            seen.add(x)
            raise OSError(x)
        with lock:
            active.discard(x)
        return x

    seen = set()
    pipeline = build(range(40), op, concurrency=3, retry=Retry(1, **FAST))
    assert sorted(pipeline) == list(range(40))
    assert most[0] <= 3


def test_threads_are_free_while_an_item_waits():
    """The one thread runs the others; item 0 needs them."""
    done = []

    def op(x):
        if x == 0 and len(done) < 20:
            raise OSError("too early")
        done.append(x)
        return x

    retry = Retry(10**6, backoff=0.002, backoff_max=0.002)
    pipeline = build(range(21), op, threads=1, concurrency=2, retry=retry)
    assert list(pipeline) == [*range(1, 21), 0]


def test_back_off_is_bounded_and_spread():
    times = []

    def op(x):
        times.append(time.monotonic())
        raise OSError

    list(build([1], op, retry=Retry(6, backoff=0.02, backoff_max=0.04)))
    waits = [b - a for a, b in itertools.pairwise(times)]
    assert len(waits) == 6
    assert all(w < 0.04 + 0.1 for w in waits)
    assert len({round(w, 5) for w in waits}) > 1


def test_a_stop_does_not_wait_for_a_back_off():
    op = Flaky(100, lambda x: True)
    pipeline = build(
        range(10), op, concurrency=4, retry=Retry(9, backoff=60, backoff_max=60)
    )
    pipeline.start()
    end = time.monotonic() + 5
    while len(op.calls) < 4:
        assert time.monotonic() < end
        time.sleep(0.005)
    begin = time.monotonic()
    pipeline.stop()
    assert time.monotonic() - begin < 1
    stage = pipeline.stats().stages[1]
    assert stage.items_in == stage.failed + stage.released + stage.items_out
    assert stage.running == 0


def test_a_raise_ends_what_waits_behind_it():
    """In input order what comes after is not wanted any more: nobody waits for it."""

    def op(x):
        if x == 1:
            time.sleep(0.05)
            raise Wrong(x)
        if x > 1:
            raise OSError(x)
        return x

    begin = time.monotonic()
    pipeline = build(
        range(10), op, concurrency=4, output_order="input", on_error="raise",
        retry=Retry(9, backoff=60, backoff_max=60),
    )  # fmt: skip
    got, exc = take_all(pipeline)
    assert (got, exc.args) == ([0], (1,))
    assert time.monotonic() - begin < 5


def test_retries_and_then_a_raise():
    op = Flaky(9, lambda x: x == 3)
    pipeline = build(
        range(9), op, output_order="input", on_error="raise", retry=Retry(2, **FAST)
    )
    got, exc = take_all(pipeline)
    assert got == [0, 3, 6]
    assert isinstance(exc, OSError)
    assert op.calls[3] == 3


def test_native_operations_are_tried_again(tmp_path):
    path = tmp_path / "late.txt"
    builder = PipelineBuilder().add_source([str(path)])
    builder.pipe(load_image, retry=Retry(3, on=OSError, **FAST)).add_sink()
    pipeline = builder.build(num_threads=1)
    assert list(pipeline) == []
    assert pipeline.stats().stages[1].retried == 3
    path.write_bytes(b"no picture")
    for on, retried in [(OSError, 0), (HeadraceError, 2), (Exception, 2)]:
        builder = PipelineBuilder().add_source([str(path)])
        builder.pipe(load_image, retry=Retry(2, on=on, **FAST)).add_sink()
        pipeline = builder.build(num_threads=1)
        assert list(pipeline) == []
        assert pipeline.stats().stages[1].retried == retried


def test_retries_in_epochs():
    op = Flaky(1, lambda x: x % 3 == 0)
    pipeline = build(
        range(20), op, continuous=True, concurrency=3, output_order="input",
        retry=Retry(1, **FAST),
    )  # fmt: skip
    for _ in range(4):
        assert list(pipeline) == [3 * x for x in range(20)]
    pipeline.stop()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"times": -1}, ValueError),
        ({"times": 1.5}, TypeError),
        ({"times": True}, TypeError),
        ({"times": 1, "backoff": -1}, ValueError),
        ({"times": 1, "backoff_max": float("nan")}, ValueError),
        ({"times": 1, "on": (OSError, 3)}, TypeError),
        ({"times": 1, "on": int}, TypeError),
    ],
)
def test_wrong_retries(arguments, error):
    with pytest.raises(error):
        Retry(**arguments)


def test_retries_that_do_not_fit():
    def generator(x):
        yield x

    builder = PipelineBuilder()
    with pytest.raises(ValueError, match="generator"):
        builder.pipe(generator, retry=1)
    with pytest.raises(ValueError, match="native"):
        builder.pipe(load_image, retry=Retry(1, on=KeyError))
    with pytest.raises(TypeError, match="retry"):
        builder.pipe(str, retry="3")


def test_residue_of_stops_amid_retries(script):
    out = script(
        """
        import weakref
        from headrace.pipeline import Retry

        alive = weakref.WeakSet()

        class Item:
            def __init__(self, i):
                self.i = i
                alive.add(self)

        def op(x):
            if x.i % 2:
                raise OSError(x.i)
            return x

        for taken in range(8):
            before = threads()
            pipeline = build(map(Item, range(1000)), op, concurrency=4,
                             retry=Retry(50, backoff=0.001, backoff_max=1.0))
            for _ in range(taken % 3):
                pipeline.get_item(timeout=5)
            time.sleep(0.003 * taken)
            pipeline.stop()
            del pipeline
            gc.collect()
            wait_until(lambda: threads() == before)
            wait_until(lambda: not alive)
        print("ok")
        """
    )
    assert out == "ok\n"


def test_exit_amid_a_back_off(script):
    begin = time.monotonic()
    script(
        """
        from headrace.pipeline import Retry
        def op(x):
            raise OSError(x)
        alive = build(range(9), op, retry=Retry(9, backoff=60, backoff_max=60))
        alive.start()
        wait_until(lambda: alive.stats().stages[1].retried == 1)
        """
    )
    assert time.monotonic() - begin < 10
