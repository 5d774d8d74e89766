"""Scenarios E1 to E7: signals, forks, and ends of the process."""

import gc
import itertools
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from scenario_kit import (
    SLOWNESS,
    Counted,
    build,
    consume,
    interrupts,
    ledger,
    raise_after,
    report,
    scenario,
    wait_until,
)

from headrace import _ext
from headrace.pipeline import PipelineBuilder

KEPT = []
"""Lives as long as the interpreter."""


def inc(x):
    return x + 1


async def async_inc(x):
    return x + 1


def forever(*_):
    threading.Event().wait()


# ---- E1: Ctrl-C while the consumer waits ----


async def async_forever(x):
    import asyncio

    await asyncio.sleep(3600)


def one_then(gate):
    yield 1
    gate.wait(20)


WAITS = {
    "a slow op": lambda gate: build(iter(int, 1), lambda x: time.sleep(0.02)),
    "a stuck op": lambda gate: build(range(9), lambda x: gate.wait(20)),
    "a coroutine": lambda gate: build(range(9), async_forever),
    "a source": lambda gate: build(one_then(gate), lambda x: None),
    "a native stage": lambda gate: build(iter(gate.wait, True), _ext.noop_op()),
    "an inner pipeline": lambda gate: build(build(one_then(gate), lambda x: None), inc),
}


@scenario(cases=("what", list(WAITS)))
def test_E1_ctrl_c_while_waiting_for(what):
    latencies = []
    for offset in (0.0001, 0.001, 0.02, 0.05, 0.13, 0.25):
        gate = threading.Event()
        pipeline = WAITS[what](gate)
        pipeline.start()
        try:
            raise_after(offset)
            for _ in pipeline:
                pass
            raise AssertionError("not interrupted")
        except KeyboardInterrupt:
            latencies.append(raise_after.latency())
        gate.set()
        pipeline.stop(timeout=5)
        ledger(pipeline)
    latencies.sort()
    assert latencies[len(latencies) // 2] < 0.1 * SLOWNESS, latencies
    assert latencies[-1] < 0.5 * SLOWNESS, latencies


@scenario
def test_E1_ctrl_c_that_wakes_another_thread():
    """No EINTR helps: the waiting thread looks for signals every 200 ms."""
    gate = threading.Event()
    pipeline = build(iter(gate.wait, True), inc)
    pipeline.start()
    sent = []

    def send():
        time.sleep(0.3)
        sent.append(time.monotonic())
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        pipeline.get_item()
        raise AssertionError("not interrupted")
    except KeyboardInterrupt:
        took = time.monotonic() - sent[0]
    assert took < 0.2 + 0.3 * SLOWNESS, took
    gate.set()
    sender.join()
    pipeline.stop()


@scenario(exits=True, code=-signal.SIGINT, within=2, shows="KeyboardInterrupt")
def test_E1_a_second_ctrl_c_kills_even_if_an_op_is_stuck():
    """The first one ends the loop, the second one what Python does at its end."""
    pipeline = build(range(9), forever)
    KEPT.append(pipeline)
    pipeline.start()
    wait_until(lambda: pipeline.stats().stages[1].running == 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raise_after(0.1)
    try:
        pipeline.get_item()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        report(over=time.monotonic() + 0.5)
        print("KeyboardInterrupt", file=sys.stderr, flush=True)


@scenario
def test_E1_ctrl_c_inside_a_source_that_the_consumer_advances():
    """A fast source is advanced inside next(): the interrupt is not lost in it."""
    for offset in (0.001, 0.01, 0.03, 0.1):
        source = Counted(itertools.count())
        pipeline = build(source, _ext.noop_op(), sink=64)
        raise_after(offset)
        begin = time.monotonic()
        try:
            for _ in pipeline:
                assert time.monotonic() < begin + 5
            raise AssertionError("not interrupted")
        except KeyboardInterrupt:
            assert raise_after.latency() < 0.5 * SLOWNESS
        pipeline.stop()
        ledger(pipeline, source.emitted)


# ---- E2: Ctrl-C at any point ----


def run_whole(pipeline, got):
    with pipeline.auto_stop():
        for x in pipeline:
            got.append(x)
            if len(got) == 30:
                break


def settle(pipeline, source):
    """A pipeline that was interrupted somewhere can be stopped, and its books agree."""
    pipeline.stop()
    rest, raised = consume(pipeline)
    assert raised is None
    if pipeline.stats().elapsed == 0:  # not started: it may run now
        assert source.emitted == len(rest) == 200
    ledger(pipeline, source.emitted)
    pipeline.stop()


@scenario(cases=("op", ["function", "coroutine", "native"]))
def test_E2_ctrl_c_by_the_clock(op):
    """While it starts, takes items, and stops: at 80 moments of a run."""
    ops = {"function": inc, "coroutine": async_inc, "native": _ext.noop_op()}
    interrupted = 0
    for i in range(80):
        source = Counted(range(200))
        pipeline = build(source, ops[op], concurrency=2)
        try:
            raise_after(1e-5 + i * 3e-5)
            run_whole(pipeline, [])
            raise_after(0)
        except (KeyboardInterrupt, RuntimeError) as error:
            interrupted += 1
            assert raise_after.latency() < 0.5 * SLOWNESS
            if isinstance(error, RuntimeError):  # a Condition of threading, interrupted
                assert isinstance(error.__context__, KeyboardInterrupt)
        settle(pipeline, source)
    assert interrupted > 5


@scenario(seconds=60)
def test_E2_ctrl_c_at_every_step():
    """After the 1st, 2nd, 3rd, ... step of the package, to the end of a run."""
    steps = 0
    for step in interrupts():
        steps += 1
        source = Counted(range(200))
        pipeline = build(source, inc, concurrency=2)
        with step:
            run_whole(pipeline, [])
        settle(pipeline, source)
    assert steps > 15


@scenario(cases=("op", ["function", "coroutine", "executor"]), seconds=60)
def test_E2_a_run_goes_on_after_a_ctrl_c_at_every_step(op):
    """Those of its start included: nothing is lost, and no interruption is an end."""
    executor = ThreadPoolExecutor(2) if op == "executor" else None
    steps = 0
    for step in interrupts():
        steps += 1
        function = async_inc if op == "coroutine" else inc
        pipeline = build(range(40), function, concurrency=2, executor=executor)
        got = []
        with step:
            for item in pipeline:
                got.append(item)
        rest, raised = consume(pipeline)
        assert raised is None
        assert sorted(got + rest) == list(range(1, 41))
        ledger(pipeline, 40)
        pipeline.stop()
    assert steps > 15
    if executor is not None:
        executor.shutdown()


@scenario
def test_E2_a_loop_s_thread_that_comes_after_the_run():
    """Its start was interrupted, and another one has come and left in its place."""
    late = []

    class Interrupted(threading.Thread):
        def start(self):
            late.append(self)
            raise KeyboardInterrupt

    pipeline = build(range(40), async_inc, concurrency=2)
    ours, threading.Thread = threading.Thread, Interrupted
    try:
        pipeline.start()
        raise AssertionError("not interrupted")
    except KeyboardInterrupt:
        pass
    finally:
        threading.Thread = ours
    assert sorted(pipeline) == list(range(1, 41))
    pipeline.stop()
    threading.Thread.start(late[0])
    late[0].join()
    ledger(pipeline, 40)


@scenario
def test_E2_ctrl_c_while_stop_waits():
    for _ in range(3):
        gate = threading.Event()
        pipeline = build([1], lambda x, gate=gate: gate.wait(20))
        pipeline.start()
        wait_until(lambda p=pipeline: p.stats().stages[1].running == 1)
        raise_after(0.1)
        try:
            pipeline.stop()
            raise AssertionError("not interrupted")
        except KeyboardInterrupt:
            assert raise_after.latency() < 0.5 * SLOWNESS
        gate.set()
        pipeline.stop()
        ledger(pipeline)


@scenario
def test_E2_ctrl_c_is_not_raised_in_an_op():
    """Operations run in other threads than the main one: none fails by a Ctrl-C."""

    def op(x):
        for _ in range(300):
            pass
        return x

    source = Counted(itertools.count())
    pipeline = build(source, op, concurrency=2)
    got = []
    for i in range(10):
        raise_after(0.002 * i + 0.001)
        try:
            for x in pipeline:
                got.append(x)
            raise AssertionError("not interrupted")
        except KeyboardInterrupt:
            pass
    assert pipeline.failures.total == 0
    pipeline.stop()
    books = ledger(pipeline, source.emitted)
    # An item may be on its way out of next() when the interrupt comes: ten at most.
    assert 0 <= books["delivered"] - len(got) <= 10


# ---- E3: the interpreter ends ----


def consume_in_thread(daemon):
    pipeline = build(iter(int, 1), lambda x: time.sleep(0.01))
    threading.Thread(target=list, args=(pipeline,), daemon=daemon).start()
    return pipeline


def retrying():
    def op(x):
        raise OSError

    from headrace.pipeline import Retry

    return build(range(9), op, retry=Retry(5, backoff=600))


def nested():
    return build(build(iter(int, 1), inc), inc)


RUNS = {
    "running": lambda: build(iter(int, 1), inc),
    "sleeping": lambda: build([1], lambda x: time.sleep(0.5)),
    "native": lambda: build(iter(int, 1), _ext.noop_op(), sink=2),
    "full": lambda: build(range(9), inc, sink=1),
    "failing": lambda: build(iter(int, 1), lambda x: 1 / 0),
    "failed": lambda: build([1, 2], lambda x: 1 / 0, on_error="raise"),
    "ended": lambda: build(range(1), inc),
    "slow source": lambda: build(iter(lambda: time.sleep(0.3), 1)),
    "coroutines": lambda: build(iter(int, 1), async_inc),
    "stuck coroutines": lambda: build(range(9), async_forever, concurrency=4),
    "waiting to try again": retrying,
    "nested": nested,
    "consumed by a thread": lambda: consume_in_thread(False),
}


@scenario(cases=("what", list(RUNS)), exits=True, within=5)
def test_E3_the_interpreter_ends_with_a_pipeline_that_is(what):
    pipeline = RUNS[what]()
    KEPT.append(pipeline)
    if "consumed" not in what:
        pipeline.start()
    time.sleep(0.05)


@scenario(cases=("started", [True, False]), exits=True, within=1)
def test_E3_the_interpreter_ends_with_an_iterator(started):
    iterator = iter(build(range(1000), inc))
    if started:
        next(iterator)
    KEPT.append([iterator, KEPT, build(range(9), inc)])


@scenario(exits=True, within=6)
def test_E3_the_interpreter_ends_with_stuck_stages():
    """It waits 3 seconds for all of them together, and leaves the threads behind."""

    async def coroutine(x):
        forever()

    pipelines = [
        build(iter(forever, 1), inc),
        build(range(9), forever),
        build(range(9), coroutine),
        build(build(iter(forever, 1), inc), inc),
    ]
    KEPT.extend(pipelines)
    for pipeline in pipelines:
        pipeline.start()
    for pipeline in pipelines:
        wait_until(lambda p=pipeline: any(s.running for s in p.stats().stages))


@scenario(exits=True)
def test_E3_no_pipeline_starts_after_the_hook():
    import atexit

    def late():
        try:
            list(build(range(3)))
        except RuntimeError as error:
            if "interpreter is ending" in str(error):
                return
        os._exit(9)

    atexit.register(late)  # runs after the hook of headrace at threading's end


# ---- E4: an unhandled exception ----


@scenario(cases=("held", [False, True]), exits=True, code=1, shows="Error: shown")
def test_E4_an_unhandled_exception_holds_the_iterator(held):
    pipeline = build(iter(int, 1), inc)
    for _ in pipeline:
        try:
            raise ZeroDivisionError("shown")
        except ZeroDivisionError as error:
            if held:
                KEPT.append(error)
            raise


@scenario(exits=True, code=1, shows="Error: shown")
def test_E4_the_exception_is_that_of_a_stage():
    def op(x):
        raise ZeroDivisionError("shown")

    pipeline = build(iter(int, 1), op, on_error="raise")
    KEPT.append(pipeline)
    for _ in pipeline:
        pass


# ---- E5: the process is ended from outside ----


def busy_pipeline():
    pipeline = build(iter(int, 1), lambda x: time.sleep(0.001), concurrency=2)
    pipeline.start()
    wait_until(lambda: pipeline.stats().stages[1].items_in > 5)
    return pipeline


@scenario(exits=True, code=7, within=1)
def test_E5_os_exit():
    KEPT.append(busy_pipeline())
    report(over=time.monotonic())
    os._exit(7)


@scenario(exits=True, code=-signal.SIGTERM, within=1)
def test_E5_sigterm():
    KEPT.append(busy_pipeline())
    report(over=time.monotonic())
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(20)


@scenario(exits=True, code=-signal.SIGKILL, within=1)
def test_E5_sigkill():
    KEPT.append(busy_pipeline())
    report(over=time.monotonic())
    os.kill(os.getpid(), signal.SIGKILL)


@scenario(exits=True, code=3, within=5)
def test_E5_sigterm_that_a_handler_makes_an_exit():
    KEPT.append(busy_pipeline())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    report(over=time.monotonic())
    os.kill(os.getpid(), signal.SIGTERM)
    try:
        for _ in KEPT[0]:
            pass
    except SystemExit as error:
        os.environ["SCENARIO_REPORT"] = os.devnull
        sys.exit(error.code)


# ---- E6: workers that want the GIL when it is too late ----


@scenario(exits=True, within=8)
def test_E6_ops_return_while_the_interpreter_ends():
    """The hook waits 3 s; then comes the rest of the end, here half a second long."""
    import atexit

    ending = threading.Event()
    atexit.register(time.sleep, 0.5)

    def returning(late):
        def op(x):
            ending.wait()
            time.sleep(late)
            return [x]

        return op

    for late in (2.9, 3.0, 3.05, 3.2, 3.4, 3.5, 3.55):
        pipeline = build(range(9), returning(late), concurrency=2)
        KEPT.append(pipeline)
        pipeline.start()
        wait_until(lambda p=pipeline: p.stats().stages[1].running == 2)
    ending.set()


@scenario(exits=True, within=5)
def test_E6_native_stages_do_not_need_python_to_stop():
    """Their items are Python objects, which none of them may let go of then."""

    class Label:
        pass

    pipeline = build(iter(Label, 1), _ext.noop_op(), _ext.noop_op(), sink=64)
    KEPT.append(pipeline)
    next(iter(pipeline))


# ---- E7: fork ----


@scenario(cases=("started", [True, False]))
def test_E7_the_copy_in_a_forked_child_is_refused(started):
    import warnings

    warnings.simplefilter("ignore", DeprecationWarning)
    pipeline = build(range(1000), inc)
    if started:
        assert next(iter(pipeline)) == 1
    iterator = iter(pipeline) if started else None
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            uses = [pipeline.get_item, pipeline.stats, lambda: pipeline.failures[0]]
            uses += [lambda: list(pipeline), lambda: next(iter(pipeline))]
            uses += [lambda: next(iterator)] if started else []
            for use in uses:
                try:
                    use()
                except RuntimeError as error:
                    assert "fork" in str(error)
                else:
                    raise AssertionError(use)
            assert list(build(range(10), inc)) == list(range(1, 11))
            begin = time.monotonic()
            del pipeline, iterator, uses, use
            gc.collect()
            assert time.monotonic() - begin < 1 * SLOWNESS
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert list(pipeline) == list(range(1 + started, 1001))
    ledger(pipeline, 1000)


@scenario(seconds=60)
def test_E7_forks_at_any_moment_of_a_busy_run():
    """Whatever lock a thread holds at that moment: the child never waits for it."""
    import warnings

    warnings.simplefilter("ignore", DeprecationWarning)
    children = []
    source = Counted(range(60_000))
    pipeline = build(source, inc, concurrency=2, threads=2)
    ended = build(range(3), async_inc)
    assert list(ended) == [1, 2, 3]
    count = 0
    for count, _ in enumerate(pipeline, 1):
        if count % 2000 == 0:
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                del pipeline, ended
                gc.collect()
                fresh = list(build(range(3), inc)) == [1, 2, 3]
                os._exit(0 if fresh else 1)
            children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert codes == [0] * 30
    assert count == 60_000
    ledger(pipeline, 60_000)


@scenario(exits=True, within=8)
def test_E7_a_forked_child_ends_like_any_process():
    """Hooks and finalizers of the interpreter run in it; it joins no thread."""
    import warnings

    warnings.simplefilter("ignore", DeprecationWarning)
    KEPT.append(busy_pipeline())
    KEPT.append(build(range(9), async_forever))
    KEPT[1].start()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.environ["SCENARIO_REPORT"] = os.devnull
        signal.alarm(10)
        raise SystemExit(0)
    assert os.getpid() == parent
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@scenario(cases=("method", ["spawn", "forkserver", "fork"]))
def test_E7_processes_of_multiprocessing(method):
    import multiprocessing
    import warnings
    from multiprocessing import resource_tracker

    import scenario_kit

    warnings.simplefilter("ignore", DeprecationWarning)
    running = busy_pipeline()
    context = multiprocessing.get_context(method)
    pipe = context.Pipe()
    child = context.Process(target=scenario_kit.send_sum, args=(pipe[1], 100))
    child.start()
    assert pipe[0].recv() == 5050
    child.join(20)
    assert child.exitcode == 0
    child.close()
    for end in pipe:
        end.close()
    running.stop()
    ledger(running)
    if method != "fork":
        resource_tracker._resource_tracker._stop()
    if method == "forkserver":
        multiprocessing.forkserver._forkserver._stop()


@scenario
def test_E7_the_parent_of_a_fork_goes_on():
    import subprocess

    builder = PipelineBuilder().add_source(range(50))
    builder.pipe(lambda x: subprocess.run(["true"], check=True).returncode or x)
    pipeline = builder.add_sink().build(num_threads=2)
    assert list(pipeline) == list(range(50))
    ledger(pipeline, 50)
