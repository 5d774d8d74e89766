"""Traces: a file that viewers open, in which every item has its tasks."""

import itertools
import json
import logging
import threading
import time
from collections import defaultdict
from functools import partial

import pytest

from headrace import _ext
from headrace.io import load_image_batch, read_file
from headrace.pipeline import PipelineBuilder


def read(path):
    """Return the events that take time, by thread, and the rest of the file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    names = {}
    tracks = defaultdict(list)
    for event in data["traceEvents"]:
        if event["name"] == "thread_name":
            names[event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X":
            begin = round(event["ts"] * 1000)
            event["ns"] = (begin, begin + round(event["dur"] * 1000))
            tracks[names[event["tid"]]].append(event)
    return tracks, data


def check(tracks):
    """On each track: in the order of their beginnings, and nested or apart."""
    for events in tracks.values():
        begins = [event["ns"][0] for event in events]
        assert begins == sorted(begins)
        around = []
        for event in events:
            begin, end = event["ns"]
            assert begin <= end
            while around and around[-1] <= begin:
                around.pop()
            assert not around or end <= around[-1], event
            around.append(end)


def items(tracks, name):
    return sorted(
        event["args"]["item"]
        for events in tracks.values()
        for event in events
        if event["name"] == name and event["cat"] == "task"
    )


def square(x):
    return x * x


def build(source, *, last=square):
    return (
        PipelineBuilder()
        .add_source(source)
        .pipe(_ext.noop_op(), name="native", concurrency=2)
        .pipe(last, name="python", concurrency=2)
        .aggregate(4)
        .add_sink()
        .build(num_threads=2)
    )


def test_every_item_has_its_tasks(tmp_path):
    path = tmp_path / "trace.json"
    begin_us = time.monotonic() * 1e6
    pipeline = build(range(1000))
    with pipeline.trace(path):
        assert len(list(pipeline)) == 250
    end_us = time.monotonic() * 1e6
    tracks, data = read(path)
    check(tracks)
    assert items(tracks, "native") == list(range(1000))
    assert items(tracks, "python") == list(range(1000))
    assert len(items(tracks, "aggregate(4)")) == 250
    pulls = [e for events in tracks.values() for e in events if e["cat"] == "source"]
    assert sum(e["args"]["items"] for e in pulls) == 1000
    nexts = [e["args"]["item"] for e in tracks["consumer-0"] if e["name"] == "next"]
    assert len(nexts) == 250
    assert {"hr-work-0", "hr-work-1", "consumer-0"} >= set(tracks) - {"hr-source"}
    assert data["otherData"]["lost_events"] == 0
    for events in tracks.values():
        for event in events:
            assert begin_us <= event["ts"] <= event["ts"] + event["dur"] <= end_us


def test_a_task_shows_how_long_it_took(tmp_path):
    def op(x):
        time.sleep(0.02 if x == 3 else 0)
        return x

    path = tmp_path / "trace.json"
    pipeline = build(range(8), last=op)
    pipeline.trace(path)  # until stop
    list(pipeline)
    pipeline.stop()
    tracks, _ = read(path)
    check(tracks)
    tasks = [e for events in tracks.values() for e in events if e["name"] == "python"]
    took = sorted((e["dur"], e["args"]["item"]) for e in tasks)
    assert [item for us, item in took if us >= 20_000 and item == 3] == [3]
    assert took[len(took) // 2][0] < 20_000


def test_slots_lie_within_the_task_of_their_batch(tmp_path):
    path = tmp_path / "trace.json"
    pipeline = (
        PipelineBuilder()
        .add_source([f"absent{i}.jpg" for i in range(12)])
        .aggregate(6)
        .pipe(partial(load_image_batch, width=8, height=8, strict=False), name="load")
        .add_sink()
        .build(num_threads=2)
    )
    with pipeline.trace(path):
        list(pipeline)
    tracks, _ = read(path)
    check(tracks)
    slots = [e for events in tracks.values() for e in events if e["cat"] == "slot"]
    assert sorted((e["args"]["item"], e["args"]["slot"]) for e in slots) == [
        (batch, slot) for batch in (0, 6) for slot in range(6)
    ]
    assert {e["name"] for e in slots} == {"load"}


def test_labels_and_names_are_valid_json(tmp_path):
    path = tmp_path / "trace.json"
    odd = tmp_path / 'quote" back\\slash é\n'
    odd.write_bytes(b"x")
    raw = bytes(tmp_path) + b"/\xff\xfe"
    with open(raw, "wb") as file:
        file.write(b"y")
    long = tmp_path / ("d" * 100) / ("é" * 60)
    long.parent.mkdir()
    long.write_bytes(b"z")
    pipeline = (
        PipelineBuilder()
        .add_source([str(odd), raw.decode(errors="surrogateescape"), str(long)])
        .pipe(read_file, name='na"me\\')
        .add_sink()
        .build(num_threads=1)
    )
    with pipeline.trace(path):
        assert len(list(pipeline)) == 3
    tracks, _ = read(path)
    tasks = [e for e in tracks["hr-work-0"] if e["name"] == 'na"me\\']
    labels = [e["args"]["label"] for e in tasks]
    assert labels[0].endswith('quote" back\\slash é\n')
    assert labels[1].endswith("/\ufffd\ufffd")
    # 91 bytes: "..." and whole characters of two bytes
    assert labels[2] == "..." + "é" * 44


def test_a_trace_in_the_midst_of_a_run(tmp_path):
    path = tmp_path / "trace.json"
    pipeline = build(itertools.count())
    assert pipeline.get_item()
    with pipeline.trace(path):
        with pytest.raises(RuntimeError, match="a trace of the pipeline is going on"):
            pipeline.trace(tmp_path / "other.json")
        for _ in range(10):
            pipeline.get_item()
    assert not (tmp_path / "other.json").exists()
    first = path.read_text()
    tracks, _ = read(path)
    check(tracks)
    assert sum(e["name"] == "next" for e in tracks["consumer-0"]) == 10
    with pipeline.trace(path):
        pipeline.get_item()
        pipeline.stop()
    assert path.read_text() != first
    check(read(path)[0])


def test_a_dropped_pipeline_writes_its_trace(tmp_path):
    path = tmp_path / "trace.json"
    pipeline = build(itertools.count())
    pipeline.trace(path)
    pipeline.get_item()
    del pipeline
    check(read(path)[0])


def test_lost_events_are_counted_and_told(tmp_path, caplog):
    path = tmp_path / "trace.json"
    pipeline = build(range(400))
    with pipeline.trace(path, max_events=10):
        assert len(list(pipeline)) == 100
    tracks, data = read(path)
    check(tracks)
    assert max(map(len, tracks.values())) == 10
    # 400 tasks in two stages, 100 aggregates and 100 next: all but 10 per thread
    lost = data["otherData"]["lost_events"]
    assert lost >= 1000 - 10 * len(tracks)
    (record,) = (r for r in caplog.records if r.levelno == logging.WARNING)
    assert record.getMessage() == (
        f"trace '{path}': {lost} events are missing, "
        "only the first 10 of each thread were kept"
    )


def test_consumers_have_a_track_each(tmp_path):
    path = tmp_path / "trace.json"
    pipeline = build(itertools.count())
    with pipeline.trace(path):
        barrier = threading.Barrier(3)

        def consume():
            barrier.wait()
            for _ in range(5):
                pipeline.get_item()
            barrier.wait()  # no thread's number is used again

        threads = [threading.Thread(target=consume) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    tracks, _ = read(path)
    check(tracks)
    for i in range(3):
        assert sum(e["name"] == "next" for e in tracks[f"consumer-{i}"]) == 5


def test_errors_are_told(tmp_path):
    pipeline = build(range(4))
    with pytest.raises(FileNotFoundError):
        pipeline.trace(tmp_path / "absent" / "trace.json")
    with pytest.raises(ValueError, match="max_events"):
        pipeline.trace(tmp_path / "trace.json", max_events=0)
    with pytest.raises(ValueError, match="events_max"):
        pipeline.trace(tmp_path / "trace.json", max_events=1 << 30)
    with pytest.raises(OSError, match="No space left"), pipeline.trace("/dev/full"):
        pass
    with pipeline.trace(tmp_path / "trace.json"):
        assert len(list(pipeline)) == 1
    check(read(tmp_path / "trace.json")[0])


def test_an_exception_of_the_block_stays(caplog):
    with pytest.raises(ZeroDivisionError), build(range(4)).trace("/dev/full"):
        raise ZeroDivisionError
    assert "the trace was not written" in caplog.text


def test_a_stop_succeeds_where_the_trace_does_not(caplog):
    pipeline = build(range(4))
    pipeline.trace("/dev/full")
    list(pipeline)
    pipeline.stop()
    assert "the trace '/dev/full' can't be written" in caplog.text


def test_ends_of_epochs_are_marked(tmp_path):
    path = tmp_path / "trace.json"
    pipeline = (
        PipelineBuilder()
        .add_source(range(5), continuous=True)
        .pipe(square, name="python")
        .add_sink()
        .build(num_threads=1)
    )
    with pipeline.trace(path):
        for _ in range(3):
            assert list(pipeline) == [0, 1, 4, 9, 16]
    tracks, data = read(path)
    check(tracks)
    marks = [e for e in data["traceEvents"] if e["name"] == "epoch ends"]
    assert {(e["ph"], e["s"]) for e in marks} == {("i", "p")}
    # consumer-0 is thread 1001; the others are ends of passes over the source
    assert sum(e["tid"] == 1001 for e in marks) >= 3
    assert len(marks) >= 6
