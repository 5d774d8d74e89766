"""What importing headrace brings along, and what it leaves until it is needed."""

import importlib.metadata
import subprocess
import sys
import textwrap

import headrace

# Each takes longer to import than the rest of headrace.pipeline.
LATE = ("asyncio", "concurrent.futures", "importlib.metadata", "numpy", "torch")


def loaded_after(program):
    """Which of LATE a fresh interpreter has loaded that has run the program."""
    program = textwrap.dedent(program) + (
        f"\nimport sys\nprint(*(name for name in {LATE} if name in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.split()


def test_version_is_that_of_the_package():
    assert headrace.__version__ == importlib.metadata.version("headrace")


def test_a_pipeline_of_functions_needs_no_event_loop():
    assert not loaded_after(
        """
        import headrace.io
        from headrace.pipeline import PipelineBuilder

        builder = PipelineBuilder().add_source(range(10)).pipe(abs).aggregate(5)
        with builder.add_sink().build(num_threads=2).auto_stop() as pipeline:
            assert list(pipeline) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
        """
    )


def test_the_event_loop_is_loaded_when_something_is_awaited():
    assert "asyncio" in loaded_after(
        """
        from headrace.pipeline import PipelineBuilder

        async def double(x):
            return 2 * x

        def later(x):
            return double(x)

        for op in double, later:
            builder = PipelineBuilder().add_source(range(3)).pipe(op).add_sink()
            with builder.build(num_threads=1).auto_stop() as pipeline:
                assert sorted(pipeline) == [0, 2, 4]
        """
    )
