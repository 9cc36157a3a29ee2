# SPDX-License-Identifier: GPL-3.0-or-later
"""The program gpu-fit, its files, and tracing with an interpreter of a test."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import program

CHECKOUT = Path(__file__).parents[6]


def shown(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    status = program.main([str(argument) for argument in arguments])
    output = capsys.readouterr()
    return status, output.out, output.err


def test_a_table_for_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    status, output, _error = shown(capsys, "resnet50", "--batch", 64, "--card", "L4")
    assert status == 0
    assert "basis table" in output and "largest batch" in output and "L4" in output


def test_json_for_a_configuration(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    for model in (config, config.parent):
        status, output, _error = shown(capsys, model, "--sequence", 128, "--card", "L4", "--json")
        found = json.loads(output)["jobs"][0]
        assert status == 0 and found["name"] == "llama"
        assert sum(found["need_bytes"]["parts"].values()) == found["need_bytes"]["total"]


def test_compare_writes_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path) -> None:
    jobs = [{"model": "resnet50", "batch": 8}, {"model": str(config), "sequence": 64, "count": 3}]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    (tmp_path / "prices.json").write_text('{"currency": "EUR", "prices": {"L4": 2500, "T4": 900}}')
    status, output, _error = shown(
        capsys,
        "--compare",
        tmp_path / "jobs.json",
        "--prices",
        tmp_path / "prices.json",
        "--by",
        "money",
        "--html",
        tmp_path / "page.html",
    )
    assert status == 0
    assert "for 1000 EUR" in output and "at once on one" in output
    assert "<svg" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "`model` is missing"),
        (
            ("meta-llama/Llama-3.1-8B",),
            "fetch its configuration, and give the file: hf download meta-llama/Llama-3.1-8B config.json",
        ),
        (("resnet5",), "neither a file nor a name of torchvision; the nearest are resnet"),
        (("resnet50", "--batch", "0"), "`batch` is 0"),
        (("resnet50", "--card", "RTX 4099"), "the nearest are RTX 4090"),
        (("resnet50", "--baseline", "/does/not/exist"), "`baseline`: /does/not/exist cannot be read"),
        (("--compare", "/does/not/exist"), "`jobs`: /does/not/exist cannot be read"),
        (("resnet50", "--html", "/does/not/exist"), "`html`: /does/not/exist cannot be written"),
        (("resnet50", "--batch", "many"), "argument --batch: invalid int value: 'many'"),
        (("resnet50", "--bach", "1"), "unrecognized arguments: --bach 1"),
        (("resnet50", "--card", "all", "--card", "RTX 4099"), "the nearest are RTX 4090"),
        (("resnet50", "--card", "a\n\x1b[31m"), "`cards`: a??[31m is not in the table"),
        (("resnet50", "--prices", "prices.json"), "`prices` ranks cards: give `compare`"),
        (("resnet50", "--by", "watt"), "`by` ranks cards: give `compare`"),
        (("resnet50", "--compare", "jobs.json"), "`model` is of one job"),
        (("--compare", "jobs.json", "--batch", "8"), "`batch` is of one job"),
        (("--compare", "jobs.json", "--python", "python3"), "`python` is of one job"),
        (("--compare", "/does/not\n/exist"), "`jobs`: /does/not /exist cannot be read"),
        (("model.py:build",), "`python` is missing"),
        (("model.py:build", "--task", "lora"), "`task`: a traced model"),
        (("model.py:build", "--gpus", "2", "--sharing", "ddp"), "`gpus`: a traced model"),
    ],
)
def test_one_error_with_variable_and_remedy(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    status, output, error = shown(capsys, *arguments)
    assert (status, output) == (2, "")
    assert message in error and len(error.splitlines()) == 1


def test_the_script_runs_from_the_checkout() -> None:
    done = subprocess.run([CHECKOUT / "script/gpu-fit", "--help"], capture_output=True, text=True, check=True)
    assert "--compare" in done.stdout


def test_the_script_imports_nothing_from_the_current_directory(tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text("raise SystemExit('imported')\n")
    done = subprocess.run(
        [CHECKOUT / "script/gpu-fit", "resnet18", "--card", "L4"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")


def compared(capsys: pytest.CaptureFixture[str], folder: Path, jobs: Any, *arguments: Any) -> tuple[int, str, str]:
    (folder / "jobs.json").write_text(json.dumps(jobs))
    return shown(capsys, "--compare", folder / "jobs.json", *arguments)


def test_jobs_of_one_model_keep_their_own_speed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Each is compared with itself on the reference: a job of the same name is another one."""
    jobs = [{"model": "resnet50", "batch": batch, "name": "images"} for batch in (1, 256)]
    _status, output, _error = compared(capsys, tmp_path, jobs, "--json", "--card", "RTX 3090")
    found = json.loads(output)
    assert [job["name"] for job in found["jobs"]] == ["images", "images (2)"]
    assert found["ranks"][0]["speed"] == 1.0
    assert found["together"][0]["jobs"] == ["images", "images (2)"]


def test_ranks_name_jobs_as_the_details_do(capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path) -> None:
    jobs = [{"model": str(config), "sequence": 512, "batch": 512}]
    _status, output, _error = compared(capsys, tmp_path, jobs, "--card", "L4")
    assert "llama does not surely fit in 24 GB" in output and "\nllama: " in output


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"model": None}, "job 2: `model` is missing"),
        ({"model": 5}, "job 2: `model` is no text"),
        ({"model": "net.py:build"}, "job 2: `model` is a Python entry point, which is traced alone"),
        ({"model": "resnet50", "checkpointing": "no"}, "job 2: `checkpointing` is 'no'"),
        ({"model": "resnet50", "name": "a\nb"}, "job 2: `name` is"),
        ({"model": "resnet50", "count": 0}, "job 2: `count` of a job is 0"),
    ],
)
def test_an_error_says_which_job(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, job: dict[str, Any], message: str
) -> None:
    status, output, error = compared(capsys, tmp_path, [{"model": "resnet50"}, job])
    assert (status, output) == (2, "")
    assert message in error and len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("shell", "status", "message"),
    [
        # The output of all cards is larger than a pipe.
        ("{ %s; echo $? >&2; } | true", 0, "1\n"),
        (
            "%s > /dev/full",
            2,
            "gpu-fit: standard output cannot be written (No space left on device): send it elsewhere\n",
        ),
        ("%s >&-", 2, "gpu-fit: standard output cannot be written (it is closed): send it elsewhere\n"),
    ],
)
def test_output_that_nobody_takes(shell: str, status: int, message: str) -> None:
    line = shell % f"{CHECKOUT}/script/gpu-fit resnet50 --card all --json"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (status, message)


def test_a_terminal_without_unicode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs.json").write_text('[{"model": "resnet18", "name": "\\u00e9"}]')
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, "ascii"))
    assert program.main(["--compare", str(tmp_path / "jobs.json"), "--card", "L4"]) == 0
    assert b"\n\\xe9: " in output.getvalue()


def test_every_option_has_a_help_text() -> None:
    assert [action.dest for action in program.parser()._actions if not action.help] == []


def test_a_link_of_a_cache_names_the_file_behind_it(
    capsys: pytest.CaptureFixture[str], config: Path, tmp_path: Path
) -> None:
    link = tmp_path / "snapshot.json"
    link.symlink_to(config)
    status, _output, error = shown(capsys, link, "--sequence", 8)
    assert status == 2 and f"is a link: give the file behind it, {config.resolve()}" in error


def test_words_of_trainer_and_peft_are_understood(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    theirs = (
        "--per-device-train-batch-size",
        2,
        "--max-seq-length",
        64,
        "--gradient-checkpointing",
        "--optim",
        "adamw_bnb_8bit",
    )
    ours = ("--batch", 2, "--sequence", 64, "--checkpointing", "--optimizer", "adamw_8bit")
    assert shown(capsys, config, *theirs) == shown(capsys, config, *ours)
