"""Pipelines give what a plain loop over the same items gives.

`loop` is the model: what comes of the items, one after another, under a policy. The
matrix runs each kind of operation in each order, at three concurrencies, under each
policy about failures, to each kind of end, and holds what came out against it:

- nothing ended the run: all of it, in order where an order is promised;
- a failure ended it: what came before, and in input order nothing else;
- the consumer ended it: some of it, from the beginning.

And the books add up.
"""

import asyncio
import functools
import io
import itertools
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image
from scenario_kit import Counted, consume, ledger

from headrace.io import load_image
from headrace.pipeline import PipelineBuilder, PipelineFailure
from headrace.pipeline.defs import Aggregator

ITEMS = 120
"""More than 100: fractions count from the 100th call on."""


class Wrong(Exception):
    pass


class Late(Exception):
    pass


# ---- operations ----


def triple(x):
    if x % 7 == 3:
        raise Wrong(x)
    return None if x % 5 == 4 else 3 * x


async def async_triple(x):
    if x % 3:
        await asyncio.sleep(0)
    return triple(x)


def spread(x):
    yield x
    yield None
    if x % 7 == 3:
        raise Wrong(x)
    yield from range(x, x + x % 4)


async def async_spread(x):
    for y in spread(x):
        await asyncio.sleep(0)
        yield y


def add(y, x):
    return triple(x + y)


class Scale:
    def method(self, x):
        return triple(x)

    def __call__(self, x):
        return triple(x + 1)

    def __getitem__(self, x):
        raise AssertionError("a callable is called, not indexed")


class Looked(dict):
    """Not callable: indexed."""


class Wrongly(Aggregator):
    """Sums of three; refuses some."""

    def __init__(self):
        self.items = []

    def accumulate(self, item):
        if item % 7 == 3:
            raise Wrong(item)
        self.items.append(item)
        return self.flush() if len(self.items) == 3 else None

    def flush(self):
        items, self.items = self.items, []
        return sum(items) if items else None


@functools.cache
def picture(x):
    """One pixel of that grey; no picture for some."""
    file = io.BytesIO()
    Image.new("L", (1, 1), x).save(file, "png")
    return b"none" if x % 7 == 3 else file.getvalue()


def pixel(image):
    return int(np.asarray(image).flat[0])


PIPES = {
    "function": triple,
    "partial": functools.partial(functools.partial(add), 5),
    "method": Scale().method,
    "callable": Scale(),
    "type": str,
    "generator": spread,
    "async function": async_triple,
    "async generator": async_spread,
    "returns awaitable": lambda x: async_triple(x),
    "getitem": Looked({x: -x for x in range(ITEMS) if x % 7 != 3}),
    "native": load_image,
}
OTHERS = {
    "aggregate": lambda builder: builder.aggregate(7),
    "drop last": lambda builder: builder.aggregate(7, drop_last=True),
    "aggregator": lambda builder: builder.aggregate(Wrongly()),
    "disaggregate": lambda builder: builder.disaggregate(),
}


def source(kind):
    """The items, and what the consumer's values are turned into."""
    if kind == "native":
        return [picture(x) for x in range(ITEMS)], pixel
    if kind == "disaggregate":
        return [x if x % 7 == 3 else [x] * (x % 4) for x in range(ITEMS)], int
    return range(ITEMS), lambda value: value


# ---- the model ----


async def outcome(op, x):
    """What one call gives, and the exception that ends it or None."""
    values = []
    try:
        result = op(x) if callable(op) else op[x]
        if hasattr(result, "__await__"):
            result = await result
        if hasattr(result, "__anext__"):
            async for value in result:
                values.append(value)
        elif hasattr(result, "__next__"):
            for value in result:
                values.append(value)
        else:
            values.append(result)
    except Exception as error:  # without the frames that it came through
        return [v for v in values if v is not None], error.with_traceback(None)
    return [v for v in values if v is not None], None


def too_many(policy, failed, calls):
    if policy == "raise":
        return failed > 0
    if isinstance(policy, Fraction):
        return calls >= 100 and failed > policy * calls
    return policy != "skip" and failed > policy


def loop(outcomes, policy):
    """What a loop gives under a policy: (values, failed items, did it break off?)."""
    given, failed = [], []
    for i, (values, error) in enumerate(outcomes):
        given += values
        failed += [i] if error else []
        if too_many(policy, len(failed), i + 1):
            return given, failed, True
    return given, failed, False


# ---- the matrix ----


class Sums:
    """The aggregators as operations on one item after another; None: the flush."""

    def __init__(self, kind):
        self.rule = Wrongly() if kind == "aggregator" else None
        self.n = None if self.rule else 7
        self.items = []

    def __call__(self, x):
        if self.rule:
            return self.rule.flush() if x is None else self.rule.accumulate(x)
        self.items += [] if x is None else [x]
        if len(self.items) < self.n and not (x is None and self.items):
            return None
        items, self.items = self.items, []
        return items


@functools.cache
def outcomes(kind):
    """What becomes of each item, as (values, exception)."""
    items, seen = source(kind)
    op = PIPES.get(kind)
    if kind == "disaggregate":
        op = iter
    elif op is None:
        op = Sums(kind)
        items = [*items, None][: None if kind != "drop last" else -1]

    async def each():
        return [await outcome(op, x) for x in items]

    return [([seen(v) for v in values], error) for values, error in asyncio.run(each())]


def build(kind, keyed, order, concurrency, policy, then=None):
    items, _ = source(kind)
    emitted = Counted([(x, i) for i, x in enumerate(items)] if keyed else items)
    builder = PipelineBuilder().add_source(emitted)
    if kind in PIPES:
        builder.pipe(
            PIPES[kind], key=0 if keyed else None, concurrency=concurrency,
            output_order=order, name="stage",
        )  # fmt: skip
    else:
        OTHERS[kind](builder)
    if then is not None:
        builder.pipe(then, on_error="raise", output_order=order)
    limit = -1 if policy in ("skip", "raise") else policy
    on_error = "raise" if policy == "raise" else "skip"
    pipeline = builder.add_sink(4).build(
        num_threads=3, max_failures=limit, on_error=on_error
    )
    return pipeline, emitted


def is_part(got, whole, ordered):
    """Is got whole without some of its values?"""
    if not ordered:
        return Counter(got) <= Counter(whole)
    rest = iter(whole)
    return all(any(x == y for y in rest) for x in got)


def check_books(kind, pipeline, emitted, failed):
    """What went in came out, was filtered, failed, or was released; nowhere else."""
    if kind in PIPES and "generator" not in kind:
        ledger(pipeline, emitted.emitted)
    *stages, sink = pipeline.stats().stages
    for before, after in pairwise([*stages, sink]):
        assert before.items_out == after.items_in + (after is not sink) * after.queued
    assert stages[0].items_out + stages[0].released == emitted.emitted
    assert {f.index for f in pipeline.failures if f.stage != "then"} <= set(failed)


def check_failure(raised, policy, errors):
    """It is one of those that the policy speaks of."""
    if isinstance(raised, PipelineFailure):
        assert not isinstance(policy, str)
        assert all(repr(e) in errors for e in raised.exceptions)
        return
    assert policy == "raise" or isinstance(raised, Late), raised
    assert isinstance(raised, Late) or repr(raised) in errors


def run(pipeline, end, seen):
    """Take items to an end of that kind; what came, and what was raised."""
    if end in ("all", "later stage"):
        got, raised = consume(pipeline)
    elif end == "break":  # and go on
        got, raised = consume(itertools.islice(pipeline, 17))
        rest, again = consume(pipeline)
        got += rest
        raised = raised or again
    else:
        got, raised = consume(itertools.islice(pipeline, 17))
        if end == "stop":
            pipeline.stop()
            rest, again = consume(pipeline)
            got += rest
            raised = raised or again
    return [seen(x) for x in got], raised


CELLS = [
    (kind, keyed, order, concurrency)
    for kind in PIPES
    for keyed in (False, True)
    for order in ("completion", "input")
    for concurrency in (1, 2, 7)
] + [(kind, False, "completion", 1) for kind in OTHERS]


POLICIES = ["skip", "raise", 0, 5, Fraction(1, 10), Fraction(1, 2)]
ENDS = ["all", "break", "stop", "drop", "later stage"]


@pytest.mark.parametrize(("kind", "keyed", "order", "concurrency"), CELLS)
def test_matrix(kind, keyed, order, concurrency):
    for policy, end in itertools.product(POLICIES, ENDS):
        try:
            check_cell(kind, keyed, order, concurrency, policy, end)
        except Exception as error:
            error.add_note(f"with policy {policy} and end {end!r}")
            raise


def check_cell(kind, keyed, order, concurrency, policy, end):
    """Run one pipeline and hold it against the model."""
    each = outcomes(kind)
    if keyed:
        each = [([(v, i) for v in values], e) for i, (values, e) in enumerate(each)]
    everything, failed, _ = loop(each, "skip")
    want, _, broke_off = loop(each, policy)
    errors = {repr(e) for _, e in each if e}

    def seen(x):
        value = source(kind)[1]
        return (value(x[0]), x[1]) if keyed else value(x)

    late = everything[len(everything) // 3] if end == "later stage" else None

    def then(x):
        if seen(x) == late:
            raise Late
        return x

    pipeline, emitted = build(
        kind, keyed, order, concurrency, policy, then if late is not None else None
    )
    got, raised = run(pipeline, end, seen)
    if raised is not None:
        check_failure(raised, policy, errors)
    if end == "drop":
        del pipeline
    else:
        pipeline.stop()
        check_books(kind, pipeline, emitted, failed)
    ordered = order == "input" or concurrency == 1
    exact = order == "input" and (policy in ("skip", "raise") or concurrency == 1)
    if late in want and exact:
        want = want[: want.index(late)]
        broke_off = True
    if end in ("stop", "drop"):
        want = want[: len(got)]
        assert len(got) >= 17 or raised
    elif broke_off or late in everything:
        assert raised is not None
    else:
        assert raised is None
        exact = True
    if exact:
        assert got == want if ordered else Counter(got) == Counter(want)
    assert is_part(got, everything, ordered)


@pytest.mark.parametrize("seed", range(12))
def test_chains(seed):
    """Chains of stages, all in input order, against loops over lists."""
    n, a, b = 17 * seed, 1 + seed % 4, 2 + seed % 5
    values = [x + 1 for x in range(n)]
    lists = [values[i : i + a] for i in range(0, n, a)]
    if seed % 2:
        lists = [part for part in lists if len(part) == a]
    sums = [sum(part) for part in lists]
    pairs = [(s, t) for s in sums for t in range(s % 3)]
    batches = [pairs[i : i + b] for i in range(0, len(pairs), b)]

    pipeline = (
        PipelineBuilder()
        .add_source(iter(range(n)))
        .pipe(lambda x: x + 1, concurrency=3, output_order="input")
        .aggregate(a, drop_last=bool(seed % 2))
        .pipe(sum, concurrency=2, output_order="input")
        .pipe(spread_pairs, concurrency=2, output_order="input")
        .aggregate(b)
        .disaggregate()
        .aggregate(b)
        .add_sink(1 + seed % 3)
        .build(num_threads=1 + seed % 3)
    )
    assert list(pipeline) == batches
    assert list(pipeline) == []


def spread_pairs(s):
    return_value = [(s, t) for t in range(s % 3)]
    yield from return_value


def test_disaggregate_of_python_values():
    items = [[1, None, 2], (), (x for x in "ab"), {"k": 0}, 7, "xy"]
    pipeline = (
        PipelineBuilder()
        .add_source(items)
        .disaggregate()
        .add_sink()
        .build(num_threads=2)
    )
    assert list(pipeline) == [1, 2, "a", "b", "k", "x", "y"]
    (failure,) = pipeline.failures
    assert failure.index == 4
    assert isinstance(failure.exception, TypeError)


def test_disaggregate_is_incremental():
    """An endless element does not fill the memory."""
    pipeline = (
        PipelineBuilder()
        .add_source([itertools.count()])
        .disaggregate()
        .add_sink(2)
        .build(num_threads=1)
    )
    assert list(itertools.islice(pipeline, 100)) == list(range(100))
    pipeline.stop()
    assert pipeline.stats().stages[1].items_out < 200


def test_a_none_of_the_source_is_an_item():
    pipeline = (
        PipelineBuilder().add_source([1, None, 2]).add_sink().build(num_threads=1)
    )
    assert list(pipeline) == [1, None, 2]


def test_objects_pass_as_they_are():
    items = [object(), (1, 2), {"a": 1}, [], "text", b"bytes"]
    pipeline = (
        PipelineBuilder()
        .add_source(items)
        .pipe(lambda x: x)
        .add_sink()
        .build(num_threads=2)
    )
    assert all(a is b for a, b in zip(pipeline, items, strict=True))


def test_a_builder_builds_many_times():
    builder = PipelineBuilder().add_source(range(10)).aggregate(4).add_sink()
    first, second = builder.build(num_threads=1), builder.build(num_threads=1)
    assert next(iter(first)) == [0, 1, 2, 3]
    assert list(second) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(first) == [[4, 5, 6, 7], [8, 9]]


def test_a_long_generator_does_not_hold_up_the_others():
    """Values of a generator arrive while it is still running."""

    def endless(x):
        yield from itertools.count(x)

    pipeline = (
        PipelineBuilder()
        .add_source([0])
        .pipe(endless)
        .pipe(lambda x: x * 2)
        .add_sink()
        .build(num_threads=1)
    )
    assert list(itertools.islice(pipeline, 50)) == list(range(0, 100, 2))
    pipeline.stop()


@pytest.mark.parametrize("ops", [[], [len], [len, str]])
@pytest.mark.parametrize("n", [5, 40, 300])
def test_aggregate_larger_than_the_read_ahead(n, ops):
    builder = PipelineBuilder().add_source(range(1000)).aggregate(n)
    for op in ops:
        builder.pipe(op)
    got = list(builder.add_sink(1).build(num_threads=2))
    assert len(got) == -(-1000 // n)
