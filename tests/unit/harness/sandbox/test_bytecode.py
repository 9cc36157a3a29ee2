"""Hosts of the tests compile a source in a zip archive once."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.sandbox import bytecode

Run = Callable[..., str]
FAILS = "def fail():\n    raise ValueError('here')\n"
SHOW = "import traceback, example\ntry: example.fail()\nexcept ValueError: print(traceback.format_exc())"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Import `example`, with this source, from a zip archive of this name in a new process, with the hook of the hosts."""
    hook = tmp_path / "hook.py"
    hook.write_text(bytecode.HOOK.replace(bytecode.ON_HOST, str(tmp_path / "kept")))

    def run(source: str, name: str = "archive.zip", program: str = "import example; print(example.value)") -> str:
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("example.py", source)
        command = (
            f"exec(open({str(hook)!r}).read()); import sys; sys.path.insert(0, {str(tmp_path / name)!r})\n{program}"
        )
        return subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True).stdout

    return run


def kept(folder: Path) -> list[Path]:
    return [path for path in (folder / "kept").rglob("*") if path.is_file()]


def test_the_second_process_takes_what_the_first_compiled(run: Run, tmp_path: Path) -> None:
    assert run("value = 1") == "1\n"
    (file,) = kept(tmp_path)
    first = file.stat()
    assert run("value = 1", "other.zip") == "1\n"
    assert kept(tmp_path) == [file]
    assert file.stat() == first


def test_another_source_is_compiled_again(run: Run, tmp_path: Path) -> None:
    assert (run("value = 1"), run("value = 2")) == ("1\n", "2\n")
    assert len(kept(tmp_path)) == 2


def test_a_traceback_names_the_archive_of_its_own_run(run: Run) -> None:
    run(FAILS, program=SHOW)
    shown = run(FAILS, "other.zip", program=SHOW)
    assert "other.zip/example.py" in shown
    assert "archive.zip" not in shown


@pytest.mark.parametrize("content", [b"", b"half"])
def test_a_broken_file_is_replaced(run: Run, tmp_path: Path, content: bytes) -> None:
    run("value = 1")
    (file,) = kept(tmp_path)
    file.write_bytes(content)
    assert run("value = 1") == "1\n"
    assert file.read_bytes() != content
