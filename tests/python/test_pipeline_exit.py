"""Ends of all kinds, each in a process of its own: nothing is left, nothing hangs."""

import os
import signal
import sys
import time

import pytest


def test_nothing_is_left(script):
    script(
        """
        before = threads(), descriptors()
        for i in range(20):
            pipeline = build(range(1000), lambda x: x, concurrency=2)
            for x in pipeline:
                if x == i:
                    break
            if i % 2:
                pipeline.stop()
            del pipeline
        wait_until(lambda: (threads(), descriptors()) == before)
        """
    )


def test_p2_freed_without_the_collector(script):
    script(
        """
        import weakref
        gc.disable()
        before = threads()

        class Op:
            def __call__(self, x):
                if x == 3:
                    raise ValueError(x)
                return x

        def run(consume):
            op = Op()
            pipeline = build(iter(range(100)), op)
            consume(pipeline)
            return weakref.ref(pipeline), weakref.ref(op)

        def fail(pipeline):
            for x in pipeline:
                pass
            pipeline.failures[0]

        for consume in (lambda p: None, lambda p: next(iter(p)), list, fail):
            pipeline, op = run(consume)
            wait_until(lambda: pipeline() is None and op() is None)
            assert threads() == before
        """
    )


def test_rings_are_collected(script):
    script(
        """
        import weakref
        before = threads()

        def ring(start):
            holder = []
            def op(x):
                return x, len(holder)
            pipeline = build(range(100), op)
            holder.append(pipeline)
            if start:
                next(iter(pipeline))
            return weakref.ref(pipeline)

        for start in (False, True):
            pipeline = ring(start)
            time.sleep(0.05)
            gc.collect()
            wait_until(lambda: pipeline() is None)
            wait_until(lambda: threads() == before)
        """
    )


def test_p3_last_reference_dropped_inside_an_op(script):
    script(
        """
        before = threads()
        for dropped_at in (0, 1, 5):
            holder = []
            done = threading.Event()

            def op(x):
                if x == dropped_at:
                    wait_until(lambda: not holder or sys.getrefcount(holder[0]) <= 2)
                    holder.clear()
                    gc.collect()
                    done.set()
                return x

            holder.append(build(range(1000), op, sink=10))
            holder[0].start()
            assert done.wait(10)
            wait_until(lambda: threads() == before)
        """
    )


def test_collected_inside_an_op(script):
    script(
        """
        before = threads()
        done = threading.Event()

        class Holder:
            pass

        def op(x):
            if x == 1:
                time.sleep(0.1)
                gc.collect()
                done.set()
            return x

        def ring():
            holder = Holder()
            holder.me = holder
            holder.pipeline = build(range(1000), op, sink=10)
            holder.pipeline.start()

        gc.disable()
        ring()
        assert done.wait(10)
        gc.collect()
        wait_until(lambda: threads() == before)
        """
    )


BACKGROUNDS = {
    "running": "p = build(iter(int, 1), lambda x: x); next(iter(p))",
    "sleeping": "p = build([1], lambda x: time.sleep(0.5)); p.start(); time.sleep(0.1)",
    "native": (
        "from headrace import _ext; "
        "p = build(iter(int, 1), _ext.noop_op(), sink=2); next(iter(p))"
    ),
    "full": "p = build(range(9), lambda x: x, sink=1); p.start(); time.sleep(0.1)",
    "not started": "p = build(range(9), lambda x: x)",
    "slow source": (
        "p = build(iter(lambda: time.sleep(0.3), 1)); p.start(); time.sleep(0.1)"
    ),
}


@pytest.mark.parametrize("kind", BACKGROUNDS)
def test_e3_exit_with_a_running_pipeline(script, kind):
    begin = time.monotonic()
    out = script(BACKGROUNDS[kind] + "\nprint('end')", seconds=15)
    assert out == "end\n"
    assert time.monotonic() - begin < 5


def test_e3_exit_with_a_stuck_op(script):
    begin = time.monotonic()
    script(
        """
        p = build([1], lambda x: time.sleep(600))
        p.start()
        wait_until(lambda: p.stats().stages[1].running == 1)
        """,
        seconds=20,
    )
    assert time.monotonic() - begin < 6


def test_e3_exit_while_another_thread_consumes(script):
    out = script(
        """
        p = build(iter(int, 1), lambda x: time.sleep(0.01))

        def consume():
            n = sum(1 for x in p)
            print("ended")

        threading.Thread(target=consume).start()
        time.sleep(0.1)
        """,
        seconds=15,
    )
    assert out == "ended\n"


def test_p6_exit_with_a_daemon_consumer(script):
    script(
        """
        p = build(iter(int, 1), lambda x: time.sleep(0.01))
        threading.Thread(target=list, args=(p,), daemon=True).start()
        time.sleep(0.1)
        """,
        seconds=15,
    )


def test_e4_exit_by_an_exception_that_holds_the_pipeline(script):
    script(
        """
        p = build(iter(int, 1), lambda x: x)
        for x in p:
            raise SystemError("shown")
        """,
        code=1,
        seconds=15,
    )


def test_no_pipeline_starts_at_exit(script):
    out = script(
        """
        import atexit

        def late():
            try:
                list(build(range(3)))
            except RuntimeError as error:
                print(error)

        atexit.register(late)  # runs after the hook of headrace at threading's end
        """
    )
    assert "interpreter is ending" in out


@pytest.mark.parametrize("kind", ["Python stage", "native stage", "slow source"])
def test_e1_ctrl_c_while_waiting(script, kind):
    op = {
        "Python stage": "lambda x: time.sleep(0.02)",
        "native stage": "__import__('headrace._ext')._ext.noop_op()",
        "slow source": "lambda x: x",
    }[kind]
    source = (
        "iter(lambda: time.sleep(30), 1)" if kind != "Python stage" else "iter(int, 1)"
    )

    def interrupt(process):
        assert process.stdout.readline() == "waiting\n"
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)

    out = script(
        f"""
        p = build({source}, {op})
        p.start()
        print("waiting", flush=True)
        try:
            for x in p:
                pass
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        try:
            p.stop(timeout=0.5)
        except TimeoutError as error:
            print("stuck")
        os._exit(0)
        """,
        before=interrupt,
    )
    assert out.splitlines()[0] == "interrupted"


def test_e1_ctrl_c_within_200_ms(script):
    script(
        """
        import signal
        never = threading.Event()
        p = build(iter(never.wait, True), lambda x: x)
        p.start()
        sent = []

        def send():
            time.sleep(0.3)
            sent.append(time.monotonic())
            # To another thread than the one that waits: no EINTR helps.
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

        threading.Thread(target=send).start()
        try:
            p.get_item()
        except KeyboardInterrupt:
            took = time.monotonic() - sent[0]
        assert took < 0.3, took
        never.set()
        p.stop()
        """
    )


def test_e1_ctrl_c_inside_a_source_that_the_consumer_advances(script):
    """A fast source is advanced inside next(): the interrupt is not lost in it."""
    script(
        """
        import signal

        def source():
            for i in range(10**9):
                if i % 64 == 63:
                    for _ in range(3):
                        pass
                yield i

        p = build(source(), __import__('headrace._ext')._ext.noop_op(), sink=64)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        try:
            for x in p:
                assert time.monotonic() < begin + 5
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("not interrupted")
        p.stop()
        """
    )


def test_e2_ctrl_c_while_stopping(script):
    def interrupt(process):
        assert process.stdout.readline() == "stopping\n"
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGINT)

    script(
        """
        p = build([1], lambda x: time.sleep(2))
        p.start()
        wait_until(lambda: p.stats().stages[1].running == 1)
        print("stopping", flush=True)
        begin = time.monotonic()
        try:
            p.stop()
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("not interrupted")
        assert time.monotonic() - begin < 1
        p.stop()
        """,
        before=interrupt,
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("started", [True, False])
def test_e7_fork(script, started):
    script(
        f"""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        p = build(range(1000), lambda x: x)
        if {started}:
            assert next(iter(p)) == 0
        pid = os.fork()
        if pid == 0:
            for use in (p.get_item, p.stats, lambda: p.failures[0], lambda: list(p)):
                try:
                    use()
                except RuntimeError as error:
                    assert "fork" in str(error)
                else:
                    os._exit(1)
            fresh = build(range(10), lambda x: x)
            if list(fresh) != list(range(10)):
                os._exit(2)
            del p
            gc.collect()
            sys.exit(0)  # hooks and finalizers of the child
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status
        assert list(p) == list(range({started}, 1000))
        """
    )


def test_p9_tracing_and_profiling(script):
    script(
        """
        import faulthandler, tracemalloc
        tracemalloc.start()
        sys.setprofile(lambda *a: None)
        threading.setprofile(lambda *a: None)
        sys.settrace(lambda *a: None)
        assert list(build(range(200), lambda x: x)) == list(range(200))
        """
    )


def test_ten_thousand_items_leave_no_reference(script):
    script(
        """
        class Item:
            pass

        item = Item()
        base = sys.getrefcount(item)
        from headrace import _ext
        for ops in ([lambda x: x], [_ext.noop_op()], [_ext.noop_op(), lambda x: x]):
            p = build((item for _ in range(10_000)), *ops, concurrency=2)
            assert sum(1 for _ in p) == 10_000
            p.stop()
            del p
            wait_until(lambda: sys.getrefcount(item) == base)
            p = build((item for _ in range(10_000)), *ops, concurrency=2)
            for _ in range(100):
                p.get_item()
            del p
            list(build(range(3)))  # somebody attaches
            wait_until(lambda: sys.getrefcount(item) == base)
        """
    )


def test_p5_a_second_interpreter_is_refused(script):
    if sys.version_info >= (3, 13):
        pytest.skip("_xxsubinterpreters is gone")
    script(
        """
        import _xxsubinterpreters as interpreters
        other = interpreters.create()
        try:
            interpreters.run_string(other, "import headrace.pipeline")
        except interpreters.RunFailedError as error:
            assert "interpreter" in str(error), error
        else:
            raise AssertionError("imported")
        assert list(build(range(3), lambda x: x)) == [0, 1, 2]
        """
    )
