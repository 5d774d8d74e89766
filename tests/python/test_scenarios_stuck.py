"""Scenario S5 without a time-out: `stop` names what is stuck, and all can end."""

from scenario_kit import SLOWNESS, consume, ledger, scenario, wait_until

STUCK = [
    "function", "generator", "aggregator", "router", "source",
    "function that awaits", "coroutine", "async generator", "async source",
    "coroutine that blocks", "async generator that blocks",
    "executor", "generator in an executor", "await of an executor",
]  # fmt: skip


def stuck_pipeline(kind, reached):
    """A pipeline whose stage (or source) "stuck" does not come back from item 1."""
    import asyncio
    import time

    from headrace.pipeline import PipelineBuilder
    from headrace.pipeline.defs import Aggregator

    def block():
        reached.append(1)
        time.sleep(1000)

    async def ignore():
        reached.append(1)
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                continue

    def function(x):
        if x == 1:
            block()
        return x

    def generator(x):
        function(x)
        yield x

    async def coroutine(x):
        if x == 1:
            await ignore()
        return x

    async def async_generator(x):
        await coroutine(x)
        yield x

    async def blocking(x):
        function(x)
        return x

    async def blocking_generator(x):
        function(x)
        yield x

    async def source():
        for x in range(5):
            yield await coroutine(x)

    class Stuck(Aggregator):
        def accumulate(self, item):
            return function(item)

        def flush(self):
            return None

    builder = PipelineBuilder()
    plain = range(5)
    if kind == "source":
        plain = map(function, plain)
    elif kind == "async source":
        plain = source()
    builder.add_source(plain)
    ops = {
        "function": function,
        "generator": generator,
        "function that awaits": lambda x: coroutine(x),
        "coroutine": coroutine,
        "async generator": async_generator,
        "coroutine that blocks": blocking,
        "async generator that blocks": blocking_generator,
    }
    executors = {
        "executor": function,
        "generator in an executor": generator,
        "await of an executor": lambda x: coroutine(x),
    }
    if kind in ops:
        builder.pipe(ops[kind], name="stuck")
    elif kind in executors:
        builder.pipe(executors[kind], name="stuck", executor=daemons())
    elif kind == "aggregator":
        builder.aggregate(Stuck())
    elif kind == "router":
        paths = [PipelineBuilder(), PipelineBuilder()]
        builder.path_variants(lambda x: function(x) % 2, paths, name="stuck")
    else:
        builder.pipe(abs)
    return builder.add_sink(2).build(num_threads=2)


def daemons():
    """An executor whose threads Python does not wait for at its exit."""
    import threading
    from concurrent.futures import Executor, Future

    class Daemons(Executor):
        def submit(self, function, /, *args, **kwargs):
            future = Future()

            def run():
                if future.set_running_or_notify_cancel():
                    future.set_result(function(*args, **kwargs))

            threading.Thread(target=run, daemon=True).start()
            return future

    return Daemons()


@scenario(cases=("kind", STUCK), exits=True, shows=None)
def test_S5_stop_names_what_is_stuck(kind):
    """And comes back in time, as often as it is called; then the process can end."""
    import re
    import time

    from headrace.pipeline import _exit

    _exit._GRACE = 0.2  # for the second look, at the exit
    reached = []
    pipeline = stuck_pipeline(kind, reached)
    pipeline.start()
    wait_until(lambda: reached)
    named = {
        "source": "source",
        "async source": "source",
        "aggregator": "aggregate(Stuck)",
    }
    stage = named.get(kind, "stuck")
    for timeout in (0.2, 0):
        began = time.monotonic()
        try:
            pipeline.stop(timeout=timeout)
        except TimeoutError as error:
            text = str(error)
        else:
            raise AssertionError("it has stopped")
        assert time.monotonic() - began < timeout + 3 * SLOWNESS
        assert re.fullmatch(
            f"stage '{re.escape(stage)}' (is still working on|still awaits) item 1 "
            "after [0-9.e-]+ s",
            text,
        ), text
    got, error = consume(iter(pipeline.get_item, None))
    assert 1 not in got
    assert isinstance(error, EOFError), error
    ledger(pipeline)


@scenario(cases=("kind", ["function", "source"]), exits=True, shows=None)
def test_S5_exit_leaves_behind_what_is_stuck(kind):
    """Without a stop: the hook at the end of the interpreter has a bound."""
    reached = []
    pipeline = stuck_pipeline(kind, reached)
    pipeline.start()
    wait_until(lambda: reached)
    globals()["kept"] = pipeline


@scenario(exits=True, shows=None)
def test_S5_a_block_that_is_left_by_an_exception():
    """`auto_stop` does not replace it by what is stuck."""
    from headrace.pipeline import _exit

    _exit._GRACE = 0.2
    reached = []
    pipeline = stuck_pipeline("function", reached)
    try:
        with pipeline.auto_stop(timeout=0.2):
            wait_until(lambda: reached)
            raise LookupError("the loop's own")
    except LookupError:
        pass
    else:
        raise AssertionError("nothing was raised")
