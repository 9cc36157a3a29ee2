# SPDX-License-Identifier: GPL-3.0-or-later
"""The bench of programs that share a GPU, without a GPU: figures, workers with a small load, fake daemons and faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.bench.gpu_sharing import __main__ as bench
from harness.bench.gpu_sharing import drive, faults, figures, loads, mps, percentages
from harness.bench.gpu_sharing.process import ROOT, Lost, Process, end

Record = dict[str, Any]

# As NVIDIA's: stays in the foreground with -f, and takes its verbs from standard input.
CONTROL = """#!/bin/sh
if [ "$1" = -f ]; then
    [ -e {folder}/broken ] && {{ echo "Cannot start: out of luck"; exit 1; }}
    trap 'exit 0' TERM
    echo started > "$CUDA_MPS_PIPE_DIRECTORY/control"
    while [ -e "$CUDA_MPS_PIPE_DIRECTORY/control" ]; do sleep 0.05; done
    exit 0
fi
[ -e "$CUDA_MPS_PIPE_DIRECTORY/control" ] || {{ echo "Cannot find MPS control daemon process"; exit 1; }}
read verb rest
echo "$verb $rest" >> {folder}/verbs
case "$verb" in
    get_server_list) echo 4711 ;;
    get_server_status) [ -e "$CUDA_MPS_PIPE_DIRECTORY/fault" ] && echo FAULT || echo ACTIVE ;;
    get_client_list) echo 4712 ;;
    quit) rm "$CUDA_MPS_PIPE_DIRECTORY/control" ;;
esac
"""


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / mps.CONTROL
    program.write_text(CONTROL.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def window(case: str, mode: str, *rates: float, **more: Any) -> Record:
    names = case.removeprefix("alone ").split("+")
    workers = [{"load": name, "rate": rate} for name, rate in zip(names, rates, strict=True)]
    return {"case": case, "mode": mode, "workers": workers, **more}


# Figures


def test_steps_outside_the_window_do_not_count():
    stamps = [(0.0, 0), (1.0, 100), (2.0, 110), (3.0, 120), (4.0, 900)]

    assert figures.rate_between(stamps, 1, 3) == 10
    assert figures.rate_between(stamps, 1.5, 2.5) == 10


def test_a_window_that_the_stamps_do_not_reach_over_has_no_rate():
    assert figures.rate_between([(0.5, 0), (3.0, 10)], 0, 3) is None
    assert figures.rate_between([(0.0, 0), (2.0, 10)], 0, 3) is None
    assert figures.rate_between([(0.0, 0)], 0, 3) is None


def test_the_percentile_is_a_measured_value():
    values = list(range(1, 101))

    assert [figures.percentile(values, share) for share in (0.5, 0.99, 1)] == [50, 99, 100]
    assert figures.percentile([], 0.5) is None


@pytest.mark.parametrize(
    ("proof", "mps_wanted", "share", "problem"),
    [
        ({"mps": 0, "multiprocessors": 132}, False, 1.0, ""),
        ({"mps": 1, "multiprocessors": 66}, True, 0.5, ""),
        ({"mps": 1, "multiprocessors": 94}, True, 0.7, ""),
        ({"mps": 0, "multiprocessors": 132}, True, 1.0, "runs outside MPS"),
        ({"mps": 1, "multiprocessors": 132}, False, 1.0, "runs under MPS"),
        ({"mps": 1, "multiprocessors": 132}, True, 0.5, "sees 132 multiprocessors, not 66"),
        ({"mps": 1, "multiprocessors": 130}, True, 1.0, "sees 130 multiprocessors, not 132"),
        (
            {"mps": None, "multiprocessors": 132},
            True,
            1.0,
            "the driver does not report whether MPS is used (device attribute 133)",
        ),
    ],
)
def test_a_worker_outside_its_mode_is_reported(proof: Record, mps_wanted: bool, share: float, problem: str):
    assert figures.disproof(proof, mps_wanted, share, 132) == problem


def test_without_the_count_of_the_card_nothing_is_proven():
    assert (
        figures.disproof({"mps": 1, "multiprocessors": 132}, True, 1.0, None)
        == "the card's multiprocessors are not known"
    )


def test_the_figures_of_the_reference_follow_from_its_times():
    """Reproduce gpu.md 2.2: two jobs of 2.33 s take 5.10 s each, time-sliced: 2.19 times, and 1.09 of the time in a queue."""
    visits = [window("alone R32", "time-sliced", 1 / 2.33), window("R32+R32", "time-sliced", 1 / 5.10, 1 / 5.10)]

    row = figures.summarise(visits)[1]

    assert [round(values[0], 2) for values in row["slowdowns"]] == [2.19, 2.19]
    assert round(row["time_against_queue"][0], 2) == 1.09
    assert row["fairness"] == [1]


def test_a_window_that_failed_is_counted_and_not_averaged():
    visits = [
        window("alone S", "time-sliced", 100),
        window("S+S", "mps", 80, 80),
        window("S+S", "mps", 20, 20, failed="runs outside MPS"),
        {"case": "S+S", "mode": "mps 50/50", "workers": [], "failed": "process 7 does not answer in 20 s"},
    ]

    rows = figures.summarise(visits)

    assert rows[1]["slowdowns"] == [[1.25], [1.25]]
    assert (rows[1]["windows"], rows[1]["failed"]) == (1, ["runs outside MPS"])
    assert rows[2]["windows"] == 0
    assert "failed: process 7 does not answer in 20 s" in figures.table(rows)


def test_energy_is_held_against_the_same_work_in_a_queue():
    visits = [
        window("alone S", "time-sliced", 100, gpu={"power_w": 200}),
        window("S+S", "mps", 80, 80, gpu={"power_w": 240}),
    ]

    # 1.6 times the work at 1.2 times the power
    assert figures.summarise(visits)[1]["energy_against_queue"] == [pytest.approx(0.75)]


def test_a_load_alone_under_mps_is_no_measure_for_the_others():
    assert figures.alone([window("alone S", "mps 50/50", 70), window("alone S", "time-sliced", 100)]) == {"S": 100}


# Cases


@pytest.mark.parametrize("part", sorted(bench.PARTS))
def test_every_case_has_workers_and_every_load_a_figure_alone(part: str):
    cases = bench.PARTS[part]
    solo = {case.loads[0] for case in cases if len(case.loads) == 1 and "time-sliced" in case.modes}

    for case in cases:
        assert set(case.loads) <= solo
        assert set(case.loads) <= set(loads.BUILDERS)
        assert all(len(drive.MODES[mode].places) >= len(case.loads) for mode in case.modes)


def test_the_two_servers_are_two():
    assert len({place.daemon for place in drive.MODES["two servers"].places}) == 2


def test_a_dry_run_starts_nothing(capsys: pytest.CaptureFixture[str]):
    assert bench.main(["--part", "1", "--dry-run"]) == 0

    assert "R32+R32: time-sliced, mps, mps 50/50, two servers, 3 windows each" in capsys.readouterr().out


# Workers


@pytest.fixture
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "WINDOW_S", 0.3)
    monkeypatch.setattr(drive, "RAMP_S", 0.05)
    monkeypatch.setattr(bench, "CLOSE_S", 1)


def test_the_bench_without_a_gpu_measures_and_leaves_nothing(
    short_windows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    case = drive.Case(("S",), ("time-sliced",), 1), drive.Case(("S", "S"), ("time-sliced", "mps"), 1)
    monkeypatch.setitem(bench.PARTS, "0", case)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    assert bench.main(["--cpu", "--part", "0", "--seconds", "60", "--out", str(tmp_path / "out.json")]) == 0

    found = json.loads((tmp_path / "out.json").read_text())
    assert [row["case"] for row in found["summary"]] == ["alone S", "S+S", "S+S"]
    assert len(found["visits"]) == 3
    assert found["visits"][0]["workers"][0]["rate"] > 0
    # On a busy machine a worker may have no turn in so short a window: then the window is reported as failed.
    rates = [(worker["rate"], json.dumps(visit)) for visit in found["visits"] for worker in visit["workers"]]
    assert all(rate or "has no rate" in visit for rate, visit in rates)
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_lost_worker_fails_its_window_and_is_replaced(short_windows: None):
    records: list[Record] = []
    found = drive.Bench(time.monotonic() + 60, records.append, lambda message: None, gpu=False)
    case = drive.Case(("S", "S"), ("time-sliced",), 2)
    try:
        found.start([case])
        seats = found.seats["time-sliced"]
        assert seats[1].process is not None
        os.kill(seats[1].process.pid, signal.SIGKILL)
        seats[1].process.child.wait()
        found.run([case])
    finally:
        found.close()

    assert [bool(record.get("failed")) for record in records] == [True, False]


def test_no_window_begins_without_time_left(short_windows: None):
    records: list[Record] = []
    messages: list[str] = []
    found = drive.Bench(time.monotonic() + 3, records.append, messages.append, gpu=False)
    try:
        found.start([drive.Case(("S",), ("time-sliced",), 1)])
        found.run([drive.Case(("S",), ("time-sliced",), 1)])
    finally:
        found.close()

    assert records == []
    assert messages[-1] == "no time for alone S, time-sliced, window 1"


def test_a_worker_ends_with_the_bench():
    process = Process(drive.WORKER)
    assert process.hear(20)["ready"]
    assert process.child.stdin is not None

    process.child.stdin.close()

    assert process.child.wait(10) == 0


def test_a_child_that_does_not_answer_is_lost_after_the_limit():
    process = Process(drive.WORKER)
    process.hear(20)
    begun = time.monotonic()

    with pytest.raises(Lost, match="does not answer in 0 s"):
        process.hear(0.2)

    assert time.monotonic() - begun < 2
    end([process])
    assert process.child.poll() is not None


def test_error_that_ends_a_child_is_reported():
    process = Process("harness.bench.gpu_sharing.no_such_module")

    with pytest.raises(Lost, match="ended with status 1.*No module named"):
        process.hear(20)
    process.kill()


def test_idle_workers_give_up_memory_for_the_next_load(monkeypatch: pytest.MonkeyPatch):
    commands: list[tuple[str, Record]] = []

    class RecordingProcess:
        def __init__(self, name: str) -> None:
            self.name = name

        def send(self, **command: Any) -> None:
            commands.append((self.name, command))

        def hear(self, seconds: float) -> Record:
            return {"memory_gib": 25.0, "finite": True}

    found = drive.Bench(time.monotonic() + 60, lambda record: None, lambda message: None, gpu=False)
    found.card = {"memory_gib": 80.0}
    seats = [
        drive.Seat(drive.Place(), load=load, memory_gib=size)
        for load, size in (("", 0.0), ("", 0.0), ("R256", 25.0), ("S", 2.0))
    ]
    for name, seat in zip("abcd", seats, strict=True):
        monkeypatch.setattr(seat, "process", RecordingProcess(name))
    found.seats = {"time-sliced": seats}
    found.load([(seats[0], "R256"), (seats[1], "R256")])
    found.seats = {}
    found.close()

    assert [(name, command["do"]) for name, command in commands] == [("c", "unload"), ("a", "load"), ("b", "load")]


# Daemons


def test_a_daemon_has_its_own_directories_and_is_quit(control: Path):
    daemon = mps.Daemon("a")
    folder = daemon.folder
    assert daemon.environment["CUDA_MPS_PIPE_DIRECTORY"].startswith(str(folder))
    assert (daemon.servers(), daemon.clients()) == ([4711], [4712])

    daemon.close()

    assert not folder.exists()
    assert (control / "verbs").read_text().splitlines()[-1].startswith("quit")


def test_start_error_of_a_daemon_is_reported(control: Path):
    (control / "broken").touch()

    with pytest.raises(mps.NotStarted, match="out of luck"):
        mps.Daemon("a")


def test_a_machine_without_mps_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(mps.NotStarted, match="nvidia-cuda-mps-control: No such file"):
        mps.Daemon("a")


def test_a_daemon_ends_when_the_bench_is_killed(control: Path):
    script = "from harness.bench.gpu_sharing import mps; d = mps.Daemon('a'); print(d.process.pid, d.folder, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        number, folder = child.stdout.readline().split()
        child.kill()
    limit = time.monotonic() + 10
    while time.monotonic() < limit and Path(f"/proc/{number}/status").exists():
        if "State:\tZ" in Path(f"/proc/{number}/status").read_text():
            break
        time.sleep(0.05)
    else:
        assert time.monotonic() < limit
    for path in sorted(Path(folder).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    Path(folder).rmdir()


# Faults


@pytest.fixture
def cuda(control: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Build a fake CUDA driver and MPS that run on the processor. The clients are real processes."""
    folder = tmp_path_factory.mktemp("cuda")
    source = ROOT / "tests/unit/fixtures/cuda/libcuda.c"
    command = [
        "gcc",
        "-O2",
        "-shared",
        "-fPIC",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        f"{folder}/libcuda.so.1",
        str(source),
    ]
    subprocess.run(command, check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    for name, seconds in (("WATCHED_S", 0.3), ("CALM_S", 0.1), ("SERVICE_S", 1.0)):
        monkeypatch.setattr(faults, name, seconds)
    return folder


@pytest.fixture
def short(cuda: Path, tmp_path: Path) -> Any:
    """Run cases of faults.py and return what they recorded."""

    def run(method: str, *arguments: Any, seconds: float = 90) -> list[Record]:
        records: list[Record] = []
        empty = tmp_path / "empty"
        empty.mkdir(exist_ok=True)
        tried = faults.Faults(empty, time.monotonic() + seconds, lambda kind, record: records.append(record))
        getattr(tried, method)(*arguments)
        assert (tried.clients, tried.daemons) == ([], {})
        return records

    return run


def cases(*wanted: tuple[str, str]) -> list[faults.Case]:
    return [case for case in faults.CASES if (case.name, case.fault) in wanted]


def test_victim_dies_of_a_fault_only_under_the_same_server(short: Any):
    records = short("contain", cases(("E1", "illegal"), ("E2", "illegal"), ("E4", "illegal")))

    found = {record["case"]: record for record in records}
    assert {name: record["victim"]["survived"] for name, record in found.items()} == {
        "E1": True,
        "E2": False,
        "E4": True,
    }
    assert found["E1"]["offender"]["error"] == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert found["E2"]["victim"]["code"] == 700
    assert found["E2"]["victim"]["steps"] > 0
    assert found["E2"]["server_states"][-1][1] == ["4711 FAULT"]
    assert found["E2"]["new_client_at_once"]["code"] == 807
    assert found["E2"]["service_after_exit_s"] is None
    assert found["E4"]["new_client_at_once"]["right"]


def test_offender_is_killed_and_in_case_e3_terminated_first(short: Any, control: Path):
    first, second = short("contain", cases(("E1", "kill"), ("E3", "kill")))

    assert first["offender"] == {"killed": True}
    assert second["offender"]["terminate_client"]["status"] == 0
    assert any(line.startswith("terminate_client 4711 ") for line in (control / "verbs").read_text().splitlines())
    assert [record["victim"]["survived"] for record in (first, second)] == [True, True]


def test_a_client_that_takes_all_memory_gets_out_of_memory(short: Any):
    (record,) = short("contain", cases(("E1", "memory")))

    assert record["offender"]["error"] == "CUDA_ERROR_OUT_OF_MEMORY"
    assert record["victim"]["survived"]


def test_a_fault_without_time_left_is_marked(short: Any):
    assert short("contain", cases(("E1", "illegal")), seconds=1)[0]["failed"] == "no time"


def test_a_client_outside_its_mode_fails_the_case(short: Any, monkeypatch: pytest.MonkeyPatch):
    """Run the client outside MPS, without a message, where the directory has no server."""
    plain = faults.Faults.client
    monkeypatch.setattr(
        faults.Faults, "client", lambda self, role, daemon, *rest, **own: plain(self, role, "", *rest, **own)
    )

    (record,) = short("contain", cases(("E2", "illegal")))

    assert record["failed"] == "not in its mode: victim, offender"


def test_effect_of_a_memory_limit_is_recorded(short: Any, control: Path):
    found = {record["case"]: record for record in short("limit_memory")}

    assert found["environment 4 GiB"]["taken_gib"] == 4
    assert found["environment 4 GiB"]["error"] == "CUDA_ERROR_OUT_OF_MEMORY"
    assert found["none: MPS without a limit"]["taken_gib"] == 12
    assert found["time-sliced, environment 4 GiB"]["taken_gib"] == 12
    assert all(record["neighbour_unharmed"] for record in found.values())
    assert "set_default_device_pinned_mem_limit 0 4G" in (control / "verbs").read_text().splitlines()


def test_partitions_are_tried(cuda: Path, tmp_path: Path):
    found = faults.Faults(tmp_path, time.monotonic() + 60, lambda kind, record: None).probe_partitions("GPU-1")

    assert found["started"]
    assert found["client_without_partition"]["right"]


# Percentages


def trained(*losses: float, **operations: list[float]) -> Record:
    return {"losses": list(losses), "operations": operations}


def test_invalid_loss_and_wrong_operation_are_named():
    usual = trained(10.9, 10.1, 9.4, linear=[0.0017, 0.0017])
    nan = float("nan")

    assert percentages.judge(usual, None) == {"first_bad_step": None, "operations": []}
    assert percentages.judge(trained(10.9, 10.2, 9.5, linear=[0.0017, 0.003]), usual)["first_bad_step"] is None
    found = percentages.judge(trained(10.9, nan, nan, linear=[0.0017, nan], gelu=[0.5]), usual)
    assert found == {"first_bad_step": 1, "operations": ["linear", "gelu"]}
    assert percentages.judge(trained(10.9, 14.0, 9.4), usual)["first_bad_step"] == 1
