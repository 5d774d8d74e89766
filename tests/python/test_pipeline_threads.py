"""Many threads on one object. With a GIL they take turns; without one they do not."""

import sys
import sysconfig

import pytest

import headrace.io
import headrace.pipeline

needs_no_gil = pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL"
)


@needs_no_gil
def test_the_gil_is_off():
    """Neither headrace nor what the tests import with it turns it on again."""
    assert headrace.__version__
    assert not sys._is_gil_enabled()


@needs_no_gil
def test_importing_headrace_keeps_the_gil_off(script):
    script("""
        import headrace.io
        import headrace.pipeline
        import numpy
        pipeline = build([1, 2, 3], lambda x: x + 1)
        assert list(pipeline) == [2, 3, 4]
        assert not sys._is_gil_enabled()
    """)


def test_p8_eight_threads_take_items_of_one_pipeline(script):
    """Each item is taken once; figures and failures can be read meanwhile."""
    script("""
        sys.setswitchinterval(1e-5)

        before = threads()

        def op(x):
            if x % 10 == 3:
                raise ValueError(x)
            return x

        pipeline = build(range(4000), op, concurrency=4, threads=3)

        def work(i):
            if i % 2:
                mine = []
                while True:
                    try:
                        mine.append(pipeline.get_item())
                    except EOFError:
                        return mine
            mine = []
            for x in pipeline:
                mine.append(x)
                if len(mine) % 16 == 0:
                    stats = pipeline.stats()
                    assert stats.stages[1].items_out <= 3600
                    assert len(pipeline.failures) <= pipeline.failures.total <= 400
                    assert pipeline.bottleneck()
            return mine

        results = together(8, work)
        taken = sorted(x for mine in results for x in mine)
        assert taken == [x for x in range(4000) if x % 10 != 3]
        failed = sorted(f.exception.args[0] for f in pipeline.failures)
        assert failed == list(range(3, 4000, 10))
        pipeline.stop()
        wait_until(lambda: threads() == before)
    """)


def test_p8_one_iterator_for_eight_threads(script):
    script("""
        sys.setswitchinterval(1e-5)
        for _ in range(20):
            iterator = iter(build(range(200), lambda x: x, concurrency=2))
            results = together(8, lambda i: list(iterator))
            assert sorted(x for mine in results for x in mine) == list(range(200))
            assert list(iterator) == []
    """)


def test_p8_one_end_is_told_once(script):
    """The exception that ends a run reaches one of eight consumers."""
    script("""
        def source():
            yield from range(50)
            raise LookupError("the end")

        for _ in range(20):
            pipeline = build(source(), lambda x: x)
            results = together(8, lambda i: list(pipeline.get_iterator()))
            told = [r for r in results if isinstance(r, BaseException)]
            assert [type(r) for r in told] == [LookupError], results
    """)


def test_p8_start_and_stop_from_eight_threads(script):
    script("""
        before = threads()
        for _ in range(30):
            pipeline = build(range(1000), lambda x: x)
            results = together(8, lambda i: pipeline.start())
            assert results.count(None) == 1
            assert sum(isinstance(r, RuntimeError) for r in results) == 7
            assert together(8, lambda i: pipeline.stop()) == [None] * 8
            wait_until(lambda: threads() == before)
    """)


def test_p8_a_builder_builds_in_eight_threads(script):
    script("""
        before = threads()
        builder = PipelineBuilder().add_source(range(100)).pipe(lambda x: x + 1)
        builder.aggregate(10).add_sink()

        def work(i):
            for _ in range(10):
                lists = list(builder.build(num_threads=2))
                assert [x for part in lists for x in part] == list(range(1, 101))

        assert together(8, work) == [None] * 8
        gc.collect()
        wait_until(lambda: threads() == before)
    """)


def test_p8_a_plan_is_built_once(script):
    """Of threads that build one plan a single one gets the engine."""
    script("""
        from headrace import _ext
        from headrace.pipeline._async import start_loop
        from headrace.pipeline._failures import note_stage, too_many_failures

        def add_one(x):
            return x + 1

        def work(plan, i):
            try:
                plan.pipe_python(add_one, "function", "add", 1, 0, None, None, "object")
            except RuntimeError as error:
                assert str(error) == "the plan was built already"
            if i % 2:
                return plan.build(1, note_stage, too_many_failures, None, start_loop)

        for _ in range(100):
            plan = _ext.Plan()
            plan.source([0], "source", "object", False)
            for i in range(8):
                plan.pipe_python(add_one, "function", "add", 1, 0, None, None, "object")
            results = together(4, lambda i: work(plan, i))
            engines = [r for r in results if isinstance(r, _ext.Engine)]
            refused = [r for r in results if isinstance(r, RuntimeError)]
            assert len(engines) + len(refused) == 2
            assert len(engines) <= 1
    """)


def test_p8_pipelines_die_in_eight_threads(script):
    """Made, read for a while, and dropped: by the last reference or in a ring."""
    script("""
        before = threads()

        class Ring:
            pass

        def work(i):
            for n in range(20):
                ring = Ring()
                ring.op = lambda x, ring=ring: (x, ring)[0]
                ring.pipeline = build(range(1000), ring.op, concurrency=2)
                for x, _ in zip(ring.pipeline, range(n)):
                    pass
                if i % 2:
                    del ring.pipeline
                if n % 5 == 0:
                    gc.collect()

        assert together(8, work) == [None] * 8
        gc.collect()
        wait_until(lambda: threads() == before)
    """)


def test_p8_a_list_changes_while_the_source_iterates(script):
    """No crash, and nothing that was not in the list."""
    script("""
        sys.setswitchinterval(1e-5)
        items = list(range(2000))
        stop = threading.Event()

        def change(i):
            while not stop.is_set():
                items.append(-1)
                items.pop()
                items.insert(0, -2)
                items.pop(0)

        changers = [threading.Thread(target=change, args=(i,)) for i in range(2)]
        for changer in changers:
            changer.start()
        try:
            for _ in range(5):
                pipeline = build(items, lambda x: x, concurrency=2)
                got = list(pipeline)
                assert set(got) <= {-1, -2, *range(2000)}
                assert len(got) == pipeline.stats().stages[0].items_out
        finally:
            stop.set()
            for changer in changers:
                changer.join()
    """)


def test_p8_a_dict_changes_while_it_is_read(script):
    """As the source it raises what a loop over it raises; as an item it is a record
    of what it held at some moment."""
    script("""
        sys.setswitchinterval(1e-5)
        record = {"a": 1, "b": 2}
        numbers = dict.fromkeys(range(1000))
        stop = threading.Event()

        def change():
            n = 0
            while not stop.is_set():
                n += 1
                record["a"] = n
                record["c"] = n
                del record["c"]
                numbers[-1] = n
                del numbers[-1]

        changer = threading.Thread(target=change)
        changer.start()
        try:
            def records():
                for _ in range(3000):
                    yield record

            got = 0
            for seen in (
                PipelineBuilder()
                .add_source(records())
                .pipe(lambda b: b + 1, key="b", concurrency=2)
                .add_sink()
                .build(num_threads=2)
            ):
                got += 1
                assert seen["b"] == 3
                assert set(seen) in ({"a", "b"}, {"a", "b", "c"})
            assert got == 3000

            for _ in range(20):
                try:
                    got = list(build(numbers, lambda x: x))
                except RuntimeError as error:
                    assert "changed size during iteration" in str(error)
                else:
                    assert set(got) <= {-1, *range(1000)}
        finally:
            stop.set()
            changer.join()
    """)


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="CPython 3.13 sets the traceback of a shared exception without a lock",
)
def test_p8_one_exception_object_raised_by_all(script):
    """It is raised in several workers at once, and listed for each item."""
    script("""
        sys.setswitchinterval(1e-5)
        error = ValueError("the one")

        def op(x):
            raise error

        pipeline = build(range(2000), op, concurrency=4, threads=4)
        assert list(pipeline) == []
        assert pipeline.failures.total == 2000
        assert all(f.exception is error for f in pipeline.failures)
    """)


def test_p8_a_callable_shared_by_workers(script):
    """An op and its state are the user's own; the engine adds no race to them."""
    script("""
        sys.setswitchinterval(1e-5)
        lock = threading.Lock()

        class Count:
            calls = 0

            def __call__(self, x):
                with lock:
                    self.calls += 1
                return x

        op = Count()
        got = list(build(range(5000), op, concurrency=4, threads=4))
        assert sorted(got) == list(range(5000))
        assert op.calls == 5000
    """)


def test_p8_one_buffer_in_eight_threads(script):
    script("""
        import numpy as np
        from headrace.io import convert_frames
        from headrace import _ext

        def work(i, buffer):
            for n in range(200):
                assert buffer.shape == (2, 8, 8)
                assert np.asarray(buffer).sum() == 640
                assert np.from_dlpack(buffer).sum() == 640
                assert memoryview(buffer).nbytes == 128
                assert convert_frames([buffer, buffer]).shape == (2, 2, 8, 8)

        before = _ext.pool_stats()["live_count"]
        buffer = convert_frames([np.full((8, 8), 5, np.uint8)] * 2)
        assert together(8, lambda i: work(i, buffer)) == [None] * 8
        del buffer
        gc.collect()
        assert _ext.pool_stats()["live_count"] == before
    """)
