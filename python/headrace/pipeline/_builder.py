"""The builder: from calls to a plan of the C engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from headrace import _ext
from headrace.pipeline._aggregators import Aggregator, Collate
from headrace.pipeline._failures import note_stage, too_many_failures
from headrace.pipeline._length import Length
from headrace.pipeline._merge import Merge
from headrace.pipeline._numbers import as_int
from headrace.pipeline._pipeline import Pipeline
from headrace.pipeline._plan import Policy, add_chain
from headrace.pipeline._policy import check_on_error, check_retry, check_timeout
from headrace.pipeline._report import Reporter
from headrace.pipeline._stages import (
    Aggregate,
    Disaggregate,
    Fold,
    Merged,
    Pipe,
    Route,
    Sink,
    Source,
    check_count,
    check_interval,
    check_key,
    check_max_failures,
    check_source,
    check_text,
    op_name,
    resolve_op,
    resolve_router,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import (
        AsyncIterable,
        Callable,
        Hashable,
        Iterable,
        Mapping,
        Sequence,
    )
    from concurrent.futures import Executor

    from headrace._ext import Bridge
    from headrace.pipeline._policy import OnError, Retry
    from headrace.pipeline._stages import Key, MaxFailures, Stage

    OutputOrder = Literal["completion", "input"]


class PipelineBuilder:
    """Collects a source, stages and a sink, and builds pipelines of them.

    Each method but `build` returns the builder, so that calls can be chained. It may
    build several pipelines; they share the source object and the operations.
    """

    def __init__(self) -> None:
        self._source: Source | Merged | None = None
        self._stages: list[Stage] = []
        self._sink: Sink | None = None

    def __repr__(self) -> str:
        return f"<PipelineBuilder {self._describe()}>"

    def _describe(self) -> str:
        parts = [self._source, *self._stages, self._sink]
        return " → ".join(str(part) for part in parts if part is not None)

    def add_source(
        self,
        source: Iterable[Any] | AsyncIterable[Any] | Merge,
        *,
        continuous: bool = False,
    ) -> PipelineBuilder:
        """Set where items come from.

        It is advanced by one thread at a time, ahead of need by up to 16 items, or two
        batches where `aggregate` follows; a list, a range and the like, which are in
        memory anyway, by up to 256. A ``None`` that it yields is an
        item. When it raises, items that came before are delivered, then the exception
        is raised to the consumer.

        Args:
            source: Any iterable, or an async iterable, which is advanced on the
                pipeline's event loop; what is both is taken as a plain iterable.
                Another `Pipeline` may be one: it starts when it is
                needed, what ends it is raised here as well, and it is stopped when
                this one is. A `~headrace.pipeline.defs.Merge` makes one source of
                several builders.
            continuous: Iterate the source again and again. Each pass is an *epoch*: an
                iterator over the pipeline ends with it, and the next one goes on with
                the next epoch, whose items are prepared meanwhile. Batches do not go
                across. Items and failures are numbered through all epochs.

        Raises:
            ValueError: There is a source already, or it is not iterable; or a merge is
                said to be continuous, which its sources say.

        """
        if self._source is not None:
            raise ValueError("the builder has a source already")
        if isinstance(source, Merge):
            if continuous:
                raise ValueError("continuous= is for the sources that are merged")
            self._source = source._resolve()
            return self
        check_source(source)
        if continuous and isinstance(source, Pipeline) and not source._continuous:
            raise ValueError(
                "continuous=True needs a source that can be iterated again; a pipeline "
                "can if its own source is continuous"
            )
        self._source = Source(source, bool(continuous))
        return self

    def pipe(
        self,
        op: Callable[[Any], Any] | Any,
        /,
        *,
        key: Key = None,
        concurrency: int = 1,
        executor: Executor | None = None,
        name: str | None = None,
        output_order: OutputOrder = "completion",
        max_failures: MaxFailures | None = None,
        on_error: OnError | None = None,
        retry: Retry | int | None = None,
        timeout: float | None = None,
    ) -> PipelineBuilder:
        """Add a stage that applies an operation to each item.

        A result of ``None`` drops the item. An item whose operation raises is skipped,
        counted, and listed in `Pipeline.failures`.

        Args:
            op: One of:

                - a function of `headrace.io`, alone or in `functools.partial` with
                  keyword arguments: runs in C, without the GIL;
                - any other callable;
                - a generator function: each value that it yields is an item;
                - a coroutine function or an async generator function, or an object
                  whose ``__call__`` is one: runs on the pipeline's event loop, an
                  asyncio loop in a thread of its own, up to ``concurrency`` at a time.
                  Tasks of a stage share asyncio tasks and context variables;
                - a function that returns something to await, such as a lambda: it is
                  called in the engine's threads, and its result awaited on the loop;
                - an object that is not callable but has ``__getitem__``, such as a list
                  or a dict: the item is the index;
                - what `per_worker` returns: each thread has its own operation.
            key: Apply the operation to this field of items that are tuples (an int) or
                dicts (a str), and keep the others.
            concurrency: Items that may be in work at the same time, up to 4,096.
            executor: A `concurrent.futures.Executor` that makes the calls instead of
                the engine's threads: a thread pool, a process pool (operation, items
                and results must be picklable), or another. ``concurrency`` calls are in
                flight at a time, so it is to be at least the pool's size. Generator
                functions are advanced step by step in a thread pool, and run to their
                end, the values being kept until then, in any other. The executor is
                never shut down by the pipeline; when it is shut down or breaks
                (`BrokenProcessPool`) before the end, the run ends with that exception.
                Not for coroutines. Costs more than the engine's threads do: some 20 µs
                an item.
            name: The stage's name; by default the function's or the class's.
            output_order: ``"completion"``: results go on as they are ready;
                ``"input"``: in the order of their items.
            max_failures: Failures that are tolerated: a number, or a `Fraction` of the
                calls (from the 100th on); negative: any number. None: as `build` says.
            on_error: ``"skip"``: an item that fails is left out and listed;
                ``"raise"``: the first one ends the run, and its exception is raised to
                the consumer after what came before it. In input order nothing that
                comes after it is delivered, as if a loop had called the operation.
                None: as `build` says.
            retry: A `Retry`, or a number of retries after an `OSError`: try an item
                again before it counts as failed. Not for generator functions.
            timeout: Seconds for one call for one item; of a generator, for each of its
                items; of a coroutine, for the call and what it awaits. Past it the item
                fails with a `headrace.errors.DeadlineError`, which is a `TimeoutError`.
                Each retry has the whole time. Coroutines are cancelled, native
                operations told to end; other calls, and those that do not end in as
                long again (0.1 to 1 s), are *given up*: a fresh thread takes over, what
                they return is dropped, and they are not tried again. At 256 such
                threads the run ends. No help where the GIL is held. In an ``executor``
                a call is given up at once, and keeps its thread or process: the
                executor has one less, and when none is left the run ends. Python itself
                waits for an executor's threads when it exits.

        Raises:
            ValueError: An argument is out of range, or two contradict each other.
            TypeError: The operation can't be called, or its arguments don't fit.

        """
        if output_order not in ("completion", "input"):
            raise ValueError(
                f"output_order must be 'completion' or 'input', got {output_order!r}"
            )
        if on_error == "raise" and max_failures is not None:
            raise ValueError("with on_error='raise' there is no max_failures")
        name = op_name(op) if name is None else check_text("name", name)
        call, kind = resolve_op(op, executor, name)
        stage = Pipe(
            op=call,
            kind=kind,
            name=name,
            key=check_key(key),
            concurrency=check_count("concurrency", concurrency),
            input_order=output_order == "input",
            max_failures=None
            if max_failures is None
            else check_max_failures(max_failures),
            raises=None if on_error is None else check_on_error(on_error),
            retry=check_retry(retry, kind),
            timeout_ns=check_timeout(timeout),
        )
        return self._add(stage)

    def aggregate(
        self,
        rule: int | Aggregator[Any, Any],
        /,
        *,
        drop_last: bool = False,
        columns: bool = False,
    ) -> PipelineBuilder:
        """Add a stage that makes one item of several.

        Batches do not go across the epochs of a continuous source.

        Args:
            rule: A number n, at most 1,048,576, for lists of n items, the last of which
                may be shorter; or an `~headrace.pipeline.defs.Aggregator` with a rule
                of its own. Its methods are called in the engine's threads, one at a
                time. Each `build` takes a copy of it (`copy.deepcopy`), so that no
                pipeline finds in it what another one has left. When it raises, the item
                (or the flush) has failed, as in `pipe`.
            drop_last: Drop a last list that is shorter, or what an aggregator gives at
                the end.
            columns: With a number: items must be tuples or dicts of one shape; make one
                of lists, a list per field, instead of a list of them.

        Raises:
            TypeError: The rule is neither; or columns with an aggregator.
            ValueError: The number is less than 1.

        """
        if type(rule) is Collate:
            rule = rule.n
        if isinstance(rule, Aggregator):
            if columns:
                raise TypeError("columns=True needs a number of items")
            return self._add(Fold(rule, bool(drop_last)))
        if as_int(rule) is None:
            raise TypeError(
                f"aggregate() takes a number of items or an Aggregator, got {rule!r}"
            )
        n = check_count("n", rule)
        return self._add(Aggregate(n, bool(drop_last), bool(columns)))

    def disaggregate(self) -> PipelineBuilder:
        """Add a stage that makes an item of each element of the items.

        Elements that are ``None`` are dropped. An item that can't be iterated fails.
        """
        return self._add(Disaggregate())

    def path_variants(
        self,
        router: Callable[[Any], Any] | Any,
        paths: Sequence[PipelineBuilder] | Mapping[Hashable, PipelineBuilder],
        *,
        name: str = "path_variants",
    ) -> PipelineBuilder:
        """Add several paths, of which each item takes one; behind them all go on.

        Items come to a path in their order, and leave all of them in the order in which
        they are ready. An epoch of a continuous source leaves all paths before the next
        one leaves any. A path that is full holds up the others.

        Args:
            router: A function of an item, called in the engine's threads, one item at a
                time: the number of the item's path, or, where ``paths`` is a mapping,
                its key. When it raises or chooses a path that is not there, the run
                ends, and the exception is raised to the consumer.
            paths: Up to 64 builders without source and sink: their stages are the path.
                One without stages passes items on as they are.
            name: The router's name in statistics and messages.

        Raises:
            ValueError: There is no path, or one has a source or a sink.
            TypeError: The router can't be called, or a path is no `PipelineBuilder`.

        """
        stages = tuple(path._as_path() for path in _check_paths(paths))
        if not stages:
            raise ValueError("path_variants() needs at least one path")
        keys = tuple(paths) if hasattr(paths, "values") else None
        text = check_text("name", name)
        return self._add(Route(resolve_router(router, keys), text, stages))

    def _as_branch(self) -> tuple[Source | Merged, tuple[Stage, ...]]:
        if self._source is None:
            raise ValueError("a pipeline that is merged needs a source")
        return self._source, tuple(self._stages)

    def _as_path(self) -> tuple[Stage, ...]:
        if self._source is not None or self._sink is not None:
            raise ValueError("a path must have no source and no sink of its own")
        return tuple(self._stages)

    def add_sink(self, buffer_size: int = 3) -> PipelineBuilder:
        """Set how many finished items may wait for the consumer.

        Raises:
            ValueError: There is a sink already, or the size is less than 1.

        """
        if self._sink is not None:
            raise ValueError("the builder has a sink already")
        self._sink = Sink(check_count("buffer_size", buffer_size))
        return self

    def _add(self, stage: Stage) -> PipelineBuilder:
        self._stages.append(stage)
        return self

    def build(
        self,
        *,
        num_threads: int | None = None,
        max_failures: MaxFailures = -1,
        on_error: OnError = "skip",
        report_stats_interval: float = -1,
    ) -> Pipeline:
        """Build a pipeline. It starts when it is iterated, or by `Pipeline.start`.

        Args:
            num_threads: Threads that run the stages. None: what the environment
                variable HEADRACE_THREADS says, or else as many as the process may use
                processors (by affinity and cgroup), divided by LOCAL_WORLD_SIZE.
            max_failures: For each stage that has none of its own: failures that are
                tolerated, see `pipe`.
            on_error: For each stage that has none of its own, see `pipe`.
            report_stats_interval: Seconds between tables of statistics in the log
                ("headrace.pipeline", INFO), and one at the end of the run. Rates and
                shares are of the span, p50 and p99 of the run so far. They are
                logged by the thread that takes items, between two of them or while it
                waits, so a consumer that is busy for longer delays them. Zero or less:
                none.

        Raises:
            RuntimeError: There is no source or no sink.
            TypeError: Stages do not fit together.
            ValueError: An argument, of this call or an earlier one, is out of range.

        """
        if self._source is None:
            raise RuntimeError("the builder has no source; call add_source()")
        if self._sink is None:
            raise RuntimeError("the builder has no sink; call add_sink()")
        threads = 0 if num_threads is None else check_count("num_threads", num_threads)
        policy = Policy(check_max_failures(max_failures), check_on_error(on_error))
        interval = check_interval(report_stats_interval)
        plan = _ext.Plan()
        add_chain(plan, self._source, self._stages, policy)
        plan.sink(self._sink.buffer_size)
        inner = _inner_of(self._source)
        engine = plan.build(
            threads,
            note_stage,
            too_many_failures,
            inner._engine if isinstance(inner, Pipeline) else None,
            _start_loop,
        )
        if interval > 0:
            engine.report_every(interval, Reporter())
        return Pipeline(
            engine, self._describe(), self._source, Length(self._source, self._stages)
        )


def _start_loop(bridge: Bridge) -> threading.Thread | None:
    """Start the thread of the event loop; asyncio is imported when one is needed."""
    from headrace.pipeline._async import start_loop  # noqa: PLC0415

    return start_loop(bridge)


def _check_paths(paths: Any) -> list[PipelineBuilder]:
    if not hasattr(paths, "__iter__"):
        raise TypeError(f"paths must be a sequence or a mapping, got {paths!r}")
    given = list(paths.values() if hasattr(paths, "values") else paths)
    for path in given:
        if not isinstance(path, PipelineBuilder):
            raise TypeError(f"a path must be a PipelineBuilder, got {path!r}")
    return given


def _inner_of(source: Source | Merged) -> Pipeline | None:
    """Return the pipeline that is the source, if one is."""
    if isinstance(source, Source):
        return source.iterable if isinstance(source.iterable, Pipeline) else None
    if any(isinstance(one.iterable, Pipeline) for one in source.sources):
        raise TypeError(
            "a pipeline that was built can't be a source in a merge; merge its builder"
        )
    return None
