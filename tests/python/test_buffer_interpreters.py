"""One interpreter only, and no harm from others. Runs in processes of its own."""

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.thread_unsafe(reason="runs processes of its own")

INTERPRETERS = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def run_in_another(code):
    other = interpreters.create()
    try:
        result = interpreters.exec(other, code)
        return str(getattr(result, "msg", result))
    except AttributeError:
        try:
            interpreters.run_string(other, code)
        except interpreters.RunFailedError as error:
            return str(error)
    finally:
        interpreters.destroy(other)
"""


def run(code):
    code = INTERPRETERS + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


def test_a_subinterpreter_cannot_load_the_extension():
    out = run("print(run_in_another('import headrace._ext'))")
    assert "headrace._ext" in out
    assert "interpreter" in out


@pytest.mark.parametrize("first", ["headrace._ext", "sys"])
def test_releases_are_queued_after_a_subinterpreter_existed(first):
    """CPython 3.11 then no longer knows by PyGILState_Check who is attached."""
    out = run(
        f"""
        import ctypes, sys
        import {first}
        run_in_another("x = 1")
        from headrace import _ext
        api = ctypes.pythonapi
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
        source = bytes(range(100))
        before = sys.getrefcount(source)
        capsule = _ext.as_buffer(source).__dlpack__(max_version=(1, 0))
        tensor = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        used = ctypes.create_string_buffer(b"used_dltensor_versioned")
        api.PyCapsule_SetName(capsule, used)
        deleter = ctypes.c_void_p.from_address(tensor + 16).value
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(tensor)
        print(sys.getrefcount(source) - before)
        _ext.pool_stats()
        print(sys.getrefcount(source) - before)
        del capsule  # before the name that it borrows
        """
    )
    assert out == "1\n0\n"
