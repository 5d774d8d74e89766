"""The tool that checks the arrows must see each kind of bad tree."""

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.thread_unsafe(reason="runs processes of its own")

ROOT = Path(__file__).resolve().parents[2]

GOOD = {
    "include/headrace/pump.h": '#include <stddef.h>\n#include "headrace/status.h"\n',
    "src/base/park.h": "#include <stdint.h>\n",
    "src/base/pump.c": '#include <pthread.h>\n\n#include "base/banned.h"\n',
    "src/sched/channel.c": '#include "sched/sched.h"\n#include "base/banned.h"\n',
    "src/engine/worker.c": '#include "sched/sched.h"\n#include "base/banned.h"\n',
    "src/image/jpeg.c": '#include <jpeglib.h>\n#include "base/banned.h"\n',
    "src/image/jpeg_object.h": "#include <jpeglib.h>\n",
    "python/headrace/_ext/attach.c": "void f(void) { PyEval_RestoreThread(0); }\n",
    "python/headrace/_ext/ext.h": "/* PyGILState_Ensure is slow */\n",
    "python/headrace/__init__.py": "",
    "python/headrace/io/__init__.py": "",
    "python/meson.build": "'headrace/__init__.py',\n'headrace/io/__init__.py',\n",
    "tests/python/__init__.py": "",
}

BAD = [
    ("include/headrace/a.h", "#include <png.h>\n", "a public header includes png.h"),
    ("src/base/a.h", '#include "sched/sched.h"\n', "base must not see sched"),
    ("src/sched/a.h", '#include "engine/worker.h"\n', "sched must not see engine"),
    (
        "src/sched/a.h",
        '#include "base/park.h"\n',
        "pure scheduler includes base/park.h",
    ),
    (
        "src/sched/a.h",
        "#include <pthread.h>\n",
        "pure scheduler includes pthread.h",
    ),
    ("src/engine/a.h", "#include <Python.h>\n", "Python.h is for python/headrace/_ext"),
    ("src/engine/a.h", '#include "image/jpeg.h"\n', "engine must not see image"),
    ("src/engine/a.h", "#include <png.h>\n", "engine must not see png.h"),
    ("src/io/a.h", '#include "image/jpeg.h"\n', "io must not see image"),
    ("src/io/a.h", "#include <curl/curl.h>\n", "curl/curl.h is a third-party header"),
    (
        "src/image/a.h",
        "#include <jpeglib.h>\n",
        "libjpeg must be seen by one codec",
    ),
    ("src/image/a.h", '#include "nowhere.h"\n', "nowhere.h is neither of src/ nor"),
    ("src/video/a.h", "", "'video' is no part of src/"),
    ("src/io/a.c", "", "the last include must be base/banned.h"),
    (
        "src/io/a.c",
        '#include "base/banned.h"\n#include <stdio.h>\n',
        "the last include must be base/banned.h",
    ),
    ("tests/unit/a.c", "#include <Python.h>\n", "Python.h is for python/headrace/_ext"),
    ("python/headrace/_ext/a.c", "x = PyGILState_Ensure();", "is for attach.c alone"),
    ("python/headrace/_ext/a.c", "PyThreadState_New(i);", "is for attach.c alone"),
    ("python/headrace/a.py", "", "is not installed by python/meson.build"),
    ("python/headrace/io/__main__.py", "", "is not installed by python/meson.build"),
    ("tests/unit/worker.c", "", "src/engine/worker.c has the same name"),
]


@pytest.fixture
def arrows() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "check_arrows", ROOT / "tools" / "check_arrows.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in GOOD.items():
        write(tmp_path, name, text)
    return tmp_path


def test_a_good_tree_has_no_problem(arrows, tree):
    assert list(arrows.check_tree(tree)) == []


@pytest.mark.parametrize(("name", "text", "problem"), BAD)
def test_each_broken_rule_is_the_one_problem_found(arrows, tree, name, text, problem):
    write(tree, name, text)
    found = list(arrows.check_tree(tree))
    assert any(problem in line for line in found), found
    assert all(name in line for line in found), found


def test_the_line_is_that_of_the_include(arrows, tree):
    write(tree, "src/base/a.h", '/* one\n * two */\n\n#include "io/file.h"\n')
    found = list(arrows.check_tree(tree))
    assert found == ["src/base/a.h:4: base must not see io (io/file.h)"]


def test_a_crowded_root_is_a_problem(arrows, tree):
    for number in range(18):  # with include, src, python and tests: 22
        (tree / f"file{number}").touch()
    found = list(arrows.check_tree(tree))
    assert found == [".: 22 entries in the root, 21 are allowed"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize(
    ("code", "bad"),
    [
        ("int hr_version;", []),
        ("int hr_version; int hr__secret;", ["hr__secret"]),
        ("int hr_version; void png_read(void) {}", ["png_read"]),
        ("static int hr_version; int *f(void);", None),
    ],
)
def test_only_public_names_may_be_exported(arrows, tmp_path, code, bad):
    library = tmp_path / "lib.so"
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-nostdlib",
        "-x",
        "c",
        "-",
        "-o",
        str(library),
    ]
    subprocess.run(command, input=code, text=True, check=True)
    expected = (
        [f"{library}: exports nothing"]
        if bad is None
        else [f"{library}: exports {name}" for name in bad]
    )
    assert list(arrows.check_exports(library)) == expected
