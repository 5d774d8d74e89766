"""Native work runs without the GIL."""

import pathlib
import sys
import threading

import numpy as np
import pytest

from headrace.io import convert_frames, load_image, load_image_batch, resize

PATH = pathlib.Path(__file__).parents[1] / "data" / "ok.jpg"


@pytest.fixture
def no_forced_switch():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


BIG = {"width": 3000, "height": 3000, "scale_algo": "lanczos"}
IMAGE = np.zeros((2000, 2000, 3), np.uint8)  # made before: NumPy too gives up the GIL
CALLS = {
    "load_image": lambda: load_image(PATH, **BIG),
    "load_image_batch": lambda: load_image_batch([PATH] * 50, width=224, height=224),
    "resize": lambda: resize(IMAGE, **BIG),
    "convert_frames": lambda: convert_frames([IMAGE] * 8),
    "op": lambda: load_image.__headrace_op__(**BIG)(PATH),
}


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no GIL"
)
@pytest.mark.usefixtures("no_forced_switch")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_another_thread_runs_meanwhile(call):
    """Nobody is forced off the GIL here: main gets it because the call gives it up."""
    log = []

    def work():
        log.append("before")
        call()
        log.append("after")

    thread = threading.Thread(target=work)
    thread.start()
    seen = list(log)
    thread.join()
    assert seen == ["before"]
    assert log == ["before", "after"]
