"""Scenarios P1 to P7 and P9: what Python code can do to a pipeline. P8: see
test_pipeline_threads.py, which runs without a GIL too."""

import asyncio
import gc
import itertools
import os
import sys
import threading
import time
import weakref

from scenario_kit import (
    Counted,
    await_threads,
    build,
    consume,
    ledger,
    logged,
    scenario,
    together,
    wait_until,
)

from headrace import _ext
from headrace.pipeline import PipelineBuilder, PipelineFailure

KEPT = []
"""Lives as long as the interpreter."""


def inc(x):
    return x + 1


async def async_inc(x):
    return x + 1


def fails_at_one(x):
    if x == 1:
        raise ValueError("one")
    return x


# ---- P1: exceptions that are hard to handle ----


class Unpicklable(Exception):
    def __init__(self, lock, other):
        super().__init__(lock)

    def __reduce__(self):
        raise TypeError("not to be pickled")


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class Unmakeable(Exception):
    def __init__(self):
        raise LookupError("made wrongly")


class Nameless(Exception):
    def add_note(self, note):
        raise LookupError(note)

    def with_traceback(self, traceback):
        raise LookupError("no traceback either")


def raise_unmakeable():
    raise Unmakeable


def hard_exceptions():
    circular = ValueError("circular")
    circular.__cause__ = other = KeyError("other")
    other.__context__ = circular
    return [
        Unpicklable(threading.Lock(), 2),
        Unprintable(1),
        Nameless("none"),
        ValueError("x" * 10_000_000 + "\udc80\0"),
        circular,
        ExceptionGroup("several", [OSError(5, "five"), Unprintable()]),
    ]


@scenario(cases=("kind", ["function", "coroutine", "generator", "source"]))
def test_P1_the_same_object_arrives(kind):
    for error in hard_exceptions():

        def op(x, error=error):
            raise error

        async def coroutine(x, error=error):
            raise error

        def generator(x, error=error):
            yield x
            raise error

        if kind == "source":
            got, raised = consume(build(generator(0), inc))
            assert got == [1]
        else:
            each = {"function": op, "coroutine": coroutine, "generator": generator}
            skipping = build(range(2), each[kind])
            assert len(list(skipping)) == (2 if kind == "generator" else 0)
            assert [f.exception is error for f in skipping.failures] == [True, True]
            _, raised = consume(build([1], each[kind], on_error="raise"))
        assert raised is error
    _, raised = consume(build([1], lambda x: raise_unmakeable(), on_error="raise"))
    assert type(raised) is LookupError
    limited = build(range(9), lambda x: raise_unmakeable(), max_failures=2)
    _, raised = consume(limited)
    assert isinstance(raised, PipelineFailure)
    assert len(raised.exceptions) == 3


# ---- P2: nothing is kept alive ----


class Op:
    def __call__(self, x):
        if x == 3:
            raise ValueError(x)
        return x


USES = {
    "not started": lambda p: None,
    "one item": lambda p: next(iter(p)),
    "all": list,
    "failures": lambda p: (list(p), p.failures[0], p.stats(), repr(p)),
    "stopped": lambda p: p.stop(),
    "timed out": lambda p: consume(p.get_iterator(timeout=0)),
}


@scenario(cases=("use", list(USES)))
def test_P2_freed_without_the_collector(use):
    gc.disable()

    def run():
        op = Op()
        pipeline = build(iter(range(100)), op)
        USES[use](pipeline)
        return weakref.ref(pipeline), weakref.ref(op)

    pipeline, op = run()
    wait_until(lambda: pipeline() is None and op() is None)


@scenario(cases=("what", ["source", "coroutine", "interrupt"]))
def test_P2_an_exception_that_was_told_is_let_go(what):
    """Its traceback holds the consumer's frame, and that the pipeline."""
    gc.disable()

    def source():
        yield 1
        raise ValueError("ended")

    async def stream():
        yield 1
        raise ValueError("ended")

    def op(x):
        raise SystemExit(3)

    def run():
        pipeline = build(
            {"source": source(), "coroutine": stream(), "interrupt": [1]}[what],
            op if what == "interrupt" else inc,
        )
        try:
            for _ in pipeline:
                pass
        except (ValueError, SystemExit):
            return weakref.ref(pipeline)
        raise AssertionError("not raised")

    reference = run()
    if what == "interrupt":  # it is listed as well, and listed ones stay
        gc.collect()
    wait_until(lambda: reference() is None)


@scenario(cases=("where", ["op", "source", "failure", "aggregator", "bound method"]))
def test_P2_rings_are_collected(where):
    """Through stages, sources, and the exceptions that are listed."""
    from headrace.pipeline.defs import Aggregator

    class Rule(Aggregator):
        def __deepcopy__(self, memo):
            return self

        def accumulate(self, item):
            return item

        def flush(self):
            return None

    class Node:
        def call(self, x):
            return x

        def __iter__(self):
            return iter(range(100))

    def fails(x):
        raise LookupError(x)

    def ring(started):
        node = Node()
        builder = PipelineBuilder().add_source(node if where == "source" else range(99))
        if where == "aggregator":
            rule = Rule()
            rule.node = node
            builder.aggregate(rule)
        elif where == "failure":
            builder.pipe(fails)
        elif where == "op":
            builder.pipe(lambda x: (x, node)[0])
        else:
            builder.pipe(node.call)
        node.pipeline = builder.add_sink().build(
            num_threads=2, on_error="raise" if where == "failure" else "skip"
        )
        if started and where == "failure":
            try:
                list(node.pipeline)
            except LookupError as error:
                node.error = error  # its traceback leads here
        elif started:
            next(iter(node.pipeline))
        return weakref.ref(node)

    for started in (False, True):
        node = ring(started)
        # More than once: a worker may be inside of a call, and hold the node for it.
        wait_until(lambda node=node: (gc.collect(), node() is None)[1])
        await_threads()


class Item:
    pass


@scenario(cases=("where", ["ready", "record", "list"]))
def test_P2_items_may_lead_back_to_a_pipeline_that_was_stopped(where):
    """While it runs, items on their way keep it alive (as the queue of a running thread
    would): stop it, or use auto_stop. After that it is garbage like anything else."""

    def ring():
        item = Item()
        value = (item, 1) if where == "record" else [item] if where == "list" else item
        builder = PipelineBuilder().add_source(itertools.repeat(value))
        if where == "record":
            builder.pipe(inc, key=1)
        elif where == "list":
            builder.aggregate(2)
        item.pipeline = builder.add_sink(8).build(num_threads=2)
        item.pipeline.start()
        wait_until(lambda: item.pipeline.stats().stages[-1].queued >= 8)
        item.pipeline.stop()
        return weakref.ref(item)

    item = ring()
    gc.collect()
    wait_until(lambda: item() is None)


@scenario
def test_P2_ten_thousand_items_leave_no_reference():
    item = Item()
    base = sys.getrefcount(item)
    for ops in ([inc], [_ext.noop_op()], [_ext.noop_op(), async_inc]):
        ops = [(lambda x: x) if op is inc else op for op in ops]
        ops = [async_same if op is async_inc else op for op in ops]
        pipeline = build((item for _ in range(10_000)), *ops, concurrency=2)
        assert sum(1 for _ in pipeline) == 10_000
        pipeline.stop()
        del pipeline
        wait_until(lambda: sys.getrefcount(item) == base)
        pipeline = build((item for _ in range(10_000)), *ops, concurrency=2)
        for _ in range(100):
            pipeline.get_item()
        del pipeline
        list(build(range(3)))  # somebody attaches
        wait_until(lambda: sys.getrefcount(item) == base)


async def async_same(x):
    return x


# ---- P3: collected in a thread of its own ----


@scenario(cases=("kind", ["function", "coroutine", "generator", "source"]))
def test_P3_the_last_reference_is_dropped_by_its_own_thread(kind):
    for dropped_at in (0, 1, 5):
        holder = []
        done = threading.Event()

        def drop(x, at=dropped_at, holder=holder, done=done):
            if x == at:
                wait_until(lambda: not holder or sys.getrefcount(holder[0]) <= 2)
                holder.clear()
                gc.collect()
                done.set()
            return x

        async def coroutine(x, drop=drop):
            return drop(x)

        def generator(x, drop=drop):
            yield drop(x)

        source = map(drop, range(1000)) if kind == "source" else range(1000)
        op = {"coroutine": coroutine, "generator": generator, "source": inc}
        holder.append(build(source, op.get(kind, drop), sink=10))
        holder[0].start()
        assert done.wait(10)
        del drop, coroutine, generator, source, op
        await_threads()


@scenario(cases=("kind", ["function", "coroutine"]))
def test_P3_the_collector_runs_in_its_own_thread(kind):
    done = threading.Event()

    class Holder:
        pass

    def op(x):
        if x == 1:
            time.sleep(0.1)
            gc.collect()
            done.set()
        return x

    async def coroutine(x):
        return op(x)

    def ring():
        holder = Holder()
        holder.me = holder
        each = coroutine if kind == "coroutine" else op
        holder.pipeline = build(range(1000), each, sink=10)
        holder.pipeline.start()

    gc.disable()
    ring()
    assert done.wait(10)
    gc.collect()
    await_threads()


@scenario
def test_P3_dropped_by_threads_of_the_user():
    def work(i):
        for n in range(10):
            pipeline = build(range(1000), inc, concurrency=2)
            for _ in itertools.islice(pipeline, n):
                pass
            ring = [pipeline]
            ring.append(ring)
            del pipeline, ring
            if n % 4 == 0:
                gc.collect()

    assert together(6, work) == [None] * 6


# ---- P4: finalizers at the end of the interpreter ----


class Finalized:
    """Uses what it has when it is finalized, which may be very late."""

    def __init__(self, pipeline):
        self.pipeline = pipeline

    def __del__(self):
        for use in (self.pipeline.stop, self.pipeline.stats, self.pipeline.get_item):
            try:
                use()
            except (RuntimeError, EOFError):
                pass
        try:
            list(build(range(3)))
        except Exception:
            pass


@scenario(cases=("what", ["__del__", "weakref", "atexit", "thread"]), exits=True)
def test_P4_finalizers_at_the_end(what):
    import atexit

    pipeline = build(itertools.count(), inc)
    pipeline.start()
    KEPT.append(pipeline)
    if what == "__del__":
        KEPT.append(Finalized(pipeline))
        sys.modules["keeps"] = Finalized(build(itertools.count(), async_inc))
        sys.modules["keeps"].pipeline.get_item()
    elif what == "weakref":
        other = build(itertools.count(), async_inc)
        KEPT.append(weakref.ref(pipeline, lambda _: gc.collect()))
        KEPT.append(other)
        weakref.finalize(pipeline, gc.collect)
        weakref.finalize(other, pipeline.stop)
    elif what == "atexit":
        atexit.register(lambda: list(pipeline))
        atexit.register(pipeline.stop)
        atexit.register(gc.collect)
    else:
        threading.Thread(target=lambda: [pipeline.stop(), list(pipeline)]).start()


@scenario(exits=True, shows="as expected, after the globals had gone")
def test_P4_modules_have_lost_their_globals():
    running, created = build(itertools.count(), inc), build(range(3), inc)
    failing = build(range(3), fails_at_one, max_failures=0)
    raising = build(range(3), fails_at_one, on_error="raise")
    failing.start()
    raising.start()
    for other in (failing, raising):
        wait_until(lambda p=other: sum(s.failed for s in p.stats().stages) == 1)
    assert running.get_item() == 1
    gone = "RuntimeError: the interpreter is at its end"
    uses = {
        "stop": (running.stop, "None"),
        "items": (lambda: list(running)[:2], "[2, 3]"),
        "get_item": (running.get_item, "EOFError"),
        "repr": (lambda: repr(running).endswith(", stopped>"), "True"),
        "len": (lambda: len(created), "3"),
        "stop, before": (created.stop, "None"),
        "start": (created.start, gone),
        "iter": (lambda: iter(created), gone),
        "auto_stop": (created.auto_stop, gone),
        "stats": (running.stats, gone),
        "bottleneck": (running.bottleneck, gone),
        "trace": (lambda: running.trace("never-made"), gone),
        "failures": (lambda: repr(running.failures), "[]"),
        "failures, one": (lambda: repr(failing.failures), gone),
        "what ended it": (lambda: list(failing), gone),
        "what it raised": (lambda: list(raising), "ValueError: one"),
    }
    pipeline_module = sys.modules["headrace.pipeline._pipeline"]

    # The end of the interpreter takes globals of modules from here on as well: what is
    # used below are locals.
    class Late:
        def __del__(self, write=os.write):
            wrong = []
            if pipeline_module.Failures is not None:
                wrong.append("the globals are still there")
            for what, (use, expected) in uses.items():
                try:
                    got = str(use())
                except Exception as exc:
                    got = f"{type(exc).__name__}: {exc}"
                if not got.startswith(expected):
                    wrong.append(f"{what}: {got}")
            said = "\n".join(wrong) or "as expected, after the globals had gone"
            write(2, said.encode())

    # Modules that are alive lose their globals first, and `sys` is the last but one.
    sys.late = [Late(), *sys.modules.values()]


# ---- P5: a second interpreter ----


def run_in_other_interpreter(code, own_gil):
    """What the code raises there, as text; None: nothing."""
    if sys.version_info >= (3, 13):
        import _interpreters

        other = _interpreters.create("isolated" if own_gil else "legacy")
        try:
            failure = _interpreters.exec(other, code)
        finally:
            _interpreters.destroy(other)
        return failure and failure.formatted
    import _xxsubinterpreters

    own = {"isolated": own_gil} if sys.version_info >= (3, 12) else {}
    other = _xxsubinterpreters.create(**own)
    try:
        _xxsubinterpreters.run_string(other, code)
    except _xxsubinterpreters.RunFailedError as error:
        return str(error)
    finally:
        _xxsubinterpreters.destroy(other)
    return None


@scenario(cases=("own_gil", [False, True]))
def test_P5_a_second_interpreter_is_refused(own_gil):
    """With an ImportError; the first one goes on, also in the midst of a run."""
    pipeline = build(range(1000), inc, async_inc)
    iterator = iter(pipeline)
    assert next(iterator) == 2
    for code in ("import headrace.pipeline", "import headrace.io"):
        said = run_in_other_interpreter(
            f"import sys; sys.path = {sys.path}; {code}", own_gil
        )
        assert said is not None
        assert "ImportError" in said
        assert "interpreter" in said
    assert list(iterator) == list(range(3, 1002))
    assert list(build(range(3), inc)) == [1, 2, 3]


# ---- P6: threads of the user at the end ----


@scenario(cases=("blocked", [False, True]), exits=True)
def test_P6_daemon_threads_are_in_next_at_the_end(blocked):
    """They hold no lock that another one needs."""
    gate = threading.Event()
    op = (lambda x: gate.wait(2)) if blocked else (lambda x: x)
    for _ in range(3):
        pipeline = build(itertools.count(), op, concurrency=2)
        for _ in range(2):
            threading.Thread(target=consume, args=(pipeline,), daemon=True).start()
        wait_until(
            lambda p=pipeline: p.stats().stages[1].running or p.stats().delivered
        )
        KEPT.append(pipeline)


@scenario(exits=True)
def test_P6_threads_that_are_waited_for_get_the_end():
    ended = []
    pipeline = build(itertools.count(), lambda x: time.sleep(0.01))
    for _ in range(3):
        threading.Thread(target=lambda: ended.append(consume(pipeline))).start()

    def check():
        threading.main_thread().join()
        wait_until(lambda: len(ended) == 3, seconds=4)
        assert ended == [([], None)] * 3

    threading.Thread(target=check).start()
    time.sleep(0.05)


# ---- P7: the event loop ----


@scenario(cases=("how", ["cancel all", "stop the loop", "close the loop", "wait_for"]))
def test_P7_operations_mistreat_the_loop(how):
    """An item fails, or the run ends with an error. No task is destroyed unfinished."""

    async def op(x):
        loop = asyncio.get_running_loop()
        if x == 5:
            if how == "cancel all":
                for task in asyncio.all_tasks():
                    task.cancel()
                await asyncio.sleep(1)
            elif how == "stop the loop":
                loop.stop()
                await asyncio.sleep(0)
            elif how == "close the loop":
                loop.close()
            else:
                await asyncio.wait_for(asyncio.sleep(60), 0.01)
        await asyncio.sleep(0)
        return x

    source = Counted(range(100))
    pipeline = build(source, op, concurrency=4)
    got, raised = consume(pipeline)
    pipeline.stop()
    if how == "stop the loop":
        assert "Event loop stopped" in str(raised)
        ledger(pipeline, source.emitted)
        return
    assert raised is None, raised
    lost = {f.index for f in pipeline.failures}
    assert sorted(got) == [x for x in range(100) if x not in lost]
    assert len(lost) <= 4
    if how in ("close the loop", "wait_for"):
        assert lost == {5}
    ledger(pipeline, 100)
    assert not any("destroyed" in text or "never" in text for text in logged)


@scenario
def test_P7_stopped_with_coroutines_pending():
    """They are cancelled, clean up, and are counted."""
    ends = []

    async def op(x):
        try:
            await asyncio.sleep(3600)
        finally:
            ends.append(x)

    async def stream(x):
        try:
            yield x
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            ends.append(x)

    for each in (op, stream):
        for concurrency in (1, 5):
            ends.clear()
            pipeline = build(range(100), each, concurrency=concurrency)
            pipeline.start()
            wait_until(
                lambda p=pipeline, n=concurrency: p.stats().stages[1].running >= n
            )
            time.sleep(0.02)
            pipeline.stop()
            assert len(ends) == len(set(ends)) == concurrency
            if each is op:
                assert ledger(pipeline)["delivered"] == 0
    assert logged == []


@scenario
def test_P7_pipelines_inside_the_users_own_loop():
    """Each has its own loop, in its own thread; a consumer's loop is left alone."""

    async def consumer(n):
        pipeline = build(range(n), async_inc, concurrency=3)
        got = []
        while True:
            try:
                got.append(await asyncio.to_thread(pipeline.get_item))
            except EOFError:
                return sorted(got)

    async def cancelled():
        gate = threading.Event()
        pipeline = build(iter(gate.wait, True), async_inc)
        task = asyncio.create_task(asyncio.to_thread(pipeline.get_item))
        await asyncio.sleep(0.05)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        gate.set()
        await asyncio.to_thread(pipeline.stop)
        ledger(pipeline)

    async def main():
        lists = await asyncio.gather(*(consumer(n) for n in (10, 50, 100)))
        assert lists == [list(range(1, n + 1)) for n in (10, 50, 100)]
        await cancelled()

    asyncio.run(main())


# ---- P9: what watches Python ----


@scenario(cases=("op", ["function", "coroutine", "generator"]))
def test_P9_tracing_profiling_and_signals(op):
    import faulthandler
    import signal
    import tracemalloc

    def spread(x):
        yield inc(x)

    each = {"function": inc, "coroutine": async_inc, "generator": spread}[op]
    ticks, lines, calls, ended = [], set(), set(), []

    def trace(frame, event, arg):
        lines.add((threading.get_ident(), frame.f_code.co_name))
        return trace

    def profile(frame, event, arg):
        calls.add(frame.f_code.co_name)

    tracemalloc.start()
    faulthandler.dump_traceback_later(60)
    signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    threading.settrace(trace)
    threading.setprofile(profile)
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        for order in ("completion", "input"):
            pipeline = build(range(100), each, concurrency=3, output_order=order)
            assert sorted(pipeline) == list(range(1, 101))
            # CPython 3.11 crawls in traced threads while a signal waits for a main
            # thread that is in C: no pipeline is freed meanwhile.
            ended.append(pipeline)
    finally:
        sys.settrace(None)
        sys.setprofile(None)
        threading.settrace(None)
        threading.setprofile(None)
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        tracemalloc.stop()
    assert ticks
    assert calls


@scenario
def test_P9_one_thread_state_for_each_worker():
    """Thread-local data of an operation lives as long as the worker."""
    local = threading.local()
    made = []

    def op(x):
        if not hasattr(local, "seen"):
            local.seen = 0
            made.append(threading.get_ident())
        local.seen += 1
        return local.seen

    pipeline = build(range(2000), op, threads=2, concurrency=2)
    assert len(list(pipeline)) == 2000
    assert len(made) == len(set(made)) <= 2
    assert not any(t.name.startswith("Dummy") for t in threading.enumerate())
