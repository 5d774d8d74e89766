"""Items that fail, stages that fail too often, sources that fail."""

import logging
import threading
import traceback
import weakref
from fractions import Fraction

import pytest

from headrace.io import load_image
from headrace.pipeline import Failure, PipelineBuilder, PipelineFailure


def build(source, op=None, *, threads=2, sink=3, limit=-1, **options):
    builder = PipelineBuilder().add_source(source)
    if op is not None:
        builder.pipe(op, **options)
    return builder.add_sink(sink).build(num_threads=threads, max_failures=limit)


def consume(pipeline):
    """What plain iteration gives, and what it raises."""
    got = []
    try:
        for item in pipeline:
            got += [item]
    except BaseException as error:
        return got, error
    return got, None


def fail_from(n):
    def op(x):
        if x >= n:
            raise ValueError(f"bad {x}")
        return x

    return op


# ---- items ----


def test_s3_failed_items_are_skipped_and_listed():
    error = KeyError("original")

    def op(x):
        if x == 3:
            raise error
        return x

    pipeline = build(range(6), op, name="picky")
    assert sorted(pipeline) == [0, 1, 2, 4, 5]
    assert list(pipeline.failures) == [Failure("picky", 3, "", error)]
    assert pipeline.failures[0].exception is error
    assert pipeline.failures.total == 1
    assert pipeline.stats().failed == 1


def test_the_ledger_grows_and_slices():
    pipeline = build(range(30), fail_from(20))
    failures = pipeline.failures
    assert len(failures) == 0
    assert sorted(pipeline) == list(range(20))
    assert len(failures) == 10
    assert [f.index for f in failures[:2]] == [20, 21]
    assert failures[-1].index == 29
    assert failures is pipeline.failures


def test_the_traceback_names_the_line_and_holds_no_locals():
    seen = []

    class Large:
        pass

    def op(x):
        large = Large()
        seen.append(weakref.ref(large))
        raise ValueError(x)

    pipeline = build([1], op)
    assert list(pipeline) == []
    text = "".join(traceback.format_exception(pipeline.failures[0].exception))
    assert "raise ValueError(x)" in text
    assert seen[0]() is None


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit, StopAsyncIteration])
def test_s6_ends_of_iteration_do_not_end_the_stream(kind):
    def op(x):
        if x == 1:
            raise kind
        return x

    pipeline = build(range(4), op)
    assert list(pipeline) == [0, 2, 3]
    (failure,) = pipeline.failures
    assert type(failure.exception) is kind


def test_s6_a_generator_that_raises_keeps_what_it_gave():
    def op(x):
        yield x
        raise RuntimeError(x)

    pipeline = build(range(3), op)
    assert list(pipeline) == [0, 1, 2]
    assert [f.index for f in pipeline.failures] == [0, 1, 2]


def test_s6_a_generator_function_called_wrongly():
    def op():
        yield 1

    pipeline = build([0], op)
    assert list(pipeline) == []
    assert isinstance(pipeline.failures[0].exception, TypeError)


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


class UnmakeableError(Exception):
    def __init__(self, a, b):
        pass


def test_p1_unprintable_exceptions():
    error = UnprintableError(1)

    def op(x):
        if x == 0:
            raise error
        if x == 1:
            raise UnmakeableError
        raise ValueError("x" * 10_000_000 + "\udc80")

    pipeline = build(range(3), op)
    assert list(pipeline) == []
    first, second, third = (f.exception for f in pipeline.failures)
    assert first is error
    assert isinstance(second, TypeError)
    assert len(str(third)) == 10_000_001


def test_p1_exceptions_keep_their_causes():
    def op(x):
        try:
            raise KeyError(x)
        except KeyError as inner:
            raise ValueError(x) from inner

    pipeline = build([5], op)
    assert list(pipeline) == []
    assert isinstance(pipeline.failures[0].exception.__cause__, KeyError)


def test_each_kind_is_logged_once(caplog):
    def op(x):
        if x % 2:
            raise KeyError(x)
        raise ValueError(x)

    with caplog.at_level(logging.INFO, logger="headrace.pipeline"):
        pipeline = build(range(8), op, name="picky")
        assert list(pipeline) == []
        pipeline.stop()
    records = [r for r in caplog.records if r.name == "headrace.pipeline"]
    assert [r.levelname for r in records] == ["WARNING", "WARNING"]
    texts = sorted(r.getMessage() for r in records)
    assert "picky" in texts[0]
    assert any("KeyError" in t for t in texts)
    assert any("ValueError" in t for t in texts)


def test_normal_use_is_silent(caplog):
    with caplog.at_level(logging.DEBUG):
        pipeline = build(range(50), lambda x: x)
        assert len(list(pipeline)) == 50
        pipeline.stop()
    assert caplog.records == []


# ---- limits ----


def test_limit_is_exceeded():
    pipeline = build(
        range(100), fail_from(5), max_failures=2, name="picky", output_order="input"
    )
    got, error = consume(pipeline)
    assert got == [0, 1, 2, 3, 4]
    assert isinstance(error, PipelineFailure)
    assert "'picky'" in str(error)
    assert [str(e) for e in error.exceptions] == ["bad 5", "bad 6", "bad 7"]
    assert error.exceptions[0].__notes__ == [
        "headrace: raised in stage 'picky', item 5"
    ]
    assert isinstance(error.subgroup(ValueError), PipelineFailure)
    # It is told once.
    assert list(pipeline) == []
    pipeline.stop()
    pipeline.stop()


def test_limit_that_is_reached_only():
    pipeline = build(range(8), fail_from(5), max_failures=3)
    assert consume(pipeline) == ([0, 1, 2, 3, 4], None)


def test_limit_of_the_build_is_for_each_stage():
    def second(x):
        if x < 2:
            raise ValueError(x)
        return x

    builder = PipelineBuilder().add_source(range(10))
    builder.pipe(fail_from(8)).pipe(second).add_sink()
    got, error = consume(builder.build(num_threads=2, max_failures=2))
    assert got == [2, 3, 4, 5, 6, 7]
    assert error is None
    got, error = consume(builder.build(num_threads=2, max_failures=1))
    assert isinstance(error, PipelineFailure)


def test_limit_of_a_stage_replaces_that_of_the_build():
    pipeline = build(range(8), fail_from(0), max_failures=-1, limit=0)
    assert consume(pipeline) == ([], None)
    assert len(pipeline.failures) == 8


def test_limit_of_zero_ends_with_the_first():
    pipeline = build(range(1000), fail_from(0), limit=0)
    got, error = consume(pipeline)
    assert got == []
    assert [str(e) for e in error.exceptions] == ["bad 0"]


def test_fractions_count_from_the_100th_call():
    def often(x):
        if x % 2:
            raise ValueError(x)
        return x

    few = build(range(99), often, max_failures=Fraction(1, 4))
    assert consume(few) == (list(range(0, 99, 2)), None)
    got, error = consume(build(range(1000), often, max_failures=Fraction(1, 4)))
    assert isinstance(error, PipelineFailure)
    assert len(got) == 50
    assert consume(build(range(1000), often, max_failures=Fraction(1, 2)))[1] is None


# ---- sources ----


def failing_source(n, error):
    yield from range(n)
    raise error


@pytest.mark.parametrize("stage", [None, lambda x: x])
@pytest.mark.parametrize("n", [0, 1, 5, 100])
def test_s1_a_failing_source_gives_what_came_before(n, stage):
    error = OSError(5, "gone")
    pipeline = build(failing_source(n, error), stage)
    got, raised = consume(pipeline)
    assert got == list(range(n))
    assert raised is error
    assert raised.__notes__ == [f"headrace: raised in stage 'source', item {n}"]
    assert "failing_source" in "".join(traceback.format_exception(raised))
    assert list(pipeline) == []
    with pytest.raises(EOFError):
        pipeline.get_item()
    pipeline.stop()


def test_s1_what_an_aggregate_holds_is_delivered():
    builder = PipelineBuilder().add_source(failing_source(5, ValueError("gone")))
    pipeline = builder.aggregate(3).add_sink().build(num_threads=1)
    got, raised = consume(pipeline)
    assert got == [[0, 1, 2], [3, 4]]
    assert isinstance(raised, ValueError)


def test_s1_iter_of_the_source_fails():
    class Source:
        def __iter__(self):
            raise ZeroDivisionError

    got, raised = consume(build(Source()))
    assert got == []
    assert isinstance(raised, ZeroDivisionError)


def test_s1_stop_iteration_of_iter_is_no_end():
    class Source:
        def __iter__(self):
            raise StopIteration

    got, raised = consume(build(Source()))
    assert got == []
    assert isinstance(raised, RuntimeError)
    assert isinstance(raised.__cause__, StopIteration)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_ends_a_loop_ends_the_run(kind):
    def op(x):
        if x == 2:
            raise kind("enough")
        return x

    pipeline = build(range(10_000), op, output_order="input")
    got, raised = consume(pipeline)
    assert type(raised) is kind
    assert got == [0, 1][: len(got)]
    pipeline.stop()


@pytest.mark.parametrize("source", [[], iter(()), range(0)])
def test_s4_empty_sources(source):
    assert list(build(source, lambda x: x)) == []


def test_s4_all_fail():
    pipeline = build(range(500), fail_from(0))
    assert list(pipeline) == []
    assert pipeline.failures.total == 500


def test_s7_one_thread_at_a_time_advances_the_source():
    class Source:
        def __init__(self):
            self.inside = threading.Lock()
            self.n = 0

        def __iter__(self):
            return self

        def __next__(self):
            assert self.inside.acquire(blocking=False)
            try:
                self.n += 1
                if self.n > 2000:
                    raise StopIteration
                return self.n
            finally:
                self.inside.release()

    pipeline = build(Source(), lambda x: x, concurrency=3, threads=3)
    assert sorted(pipeline) == list(range(1, 2001))


def test_s7_a_source_that_asks_its_own_pipeline():
    pipelines = []

    def source():
        yield 1
        pipelines[0].get_item(timeout=0.3)
        yield 2

    pipeline = build(source())
    pipelines.append(pipeline)
    got, raised = consume(pipeline)
    assert got == [1]
    assert isinstance(raised, RuntimeError)
    assert "its own pipeline" in str(raised)
    pipelines.clear()
    pipeline.stop()


# ---- what would hide a failure ----


def test_a_stage_name_is_cut_between_characters():
    name = "é" * 100
    pipeline = build(range(1), fail_from(0), name=name)
    assert list(pipeline) == []
    assert pipeline.failures[0].stage == "é" * 31  # 62 of 63 bytes
    assert pipeline.stats().stages[1].name == "é" * 31


def test_an_exception_that_takes_no_note_is_a_cause_all_the_same():
    class NoNoteError(Exception):
        def add_note(self, note):
            raise LookupError(note)

    def op(_):
        raise NoNoteError

    got, error = consume(build(range(3), op, max_failures=0))
    assert got == []
    assert isinstance(error, PipelineFailure)
    assert isinstance(error.exceptions[0], NoNoteError)


def test_what_ends_the_run_is_listed_as_itself():
    interrupt = KeyboardInterrupt()

    def op(_):
        raise interrupt

    pipeline = build(range(3), op)
    assert consume(pipeline) == ([], interrupt)
    assert pipeline.failures[0].exception is interrupt


def test_misfits_are_told_in_full():
    pipeline = build([3], load_image)
    assert list(pipeline) == []
    assert str(pipeline.failures[0].exception) == (
        "load_image: expected a path or bytes, got int (expected a path, encoded bytes "
        "or an array of them, found int)"
    )
