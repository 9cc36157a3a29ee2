# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers on a real GPU, as the role nvidia_container_toolkit has them: NVIDIA's own programs with the real driver, and runc.

Needs root, runc and NVIDIA's Container Toolkit (`python -m harness.depot.container_toolkit FOLDER` builds it); no docker and no network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.gpu

SQUARES = Path(__file__).with_name("squares.c")
TOOLS = ("runc", "nvidia-ctk", "nvidia-cdi-hook", "nvidia-container-runtime")
RUNTIME_CONFIGURATION = """\
[nvidia-container-runtime]
mode = "auto"
runtimes = ["runc"]
[nvidia-container-runtime.modes.cdi]
spec-dirs = ["{specs}"]
[nvidia-ctk]
path = "{ctk}"
"""
LOOK = "echo devices:; ls /dev; command -v nvidia-smi && nvidia-smi -L"


def run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, timeout=120, **options
    )
    print(*command, f"-> {done.returncode}", done.stdout[-4000:], done.stderr[-4000:], sep="\n")
    return done


@pytest.fixture(scope="module")
def tools() -> dict[str, str]:
    """Return the paths of the programs."""
    found = {name: shutil.which(name) for name in TOOLS}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not on PATH: no container was tried")
    return {name: str(path) for name, path in found.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("containers")


@pytest.fixture(scope="module")
def spec(tools: dict[str, str], folder: Path) -> Path:
    """Write the CDI spec for this driver by NVIDIA's own program."""
    path = folder / "cdi/nvidia.yaml"
    path.parent.mkdir()
    done = run(
        tools["nvidia-ctk"], "cdi", "generate", f"--nvidia-cdi-hook-path={tools['nvidia-cdi-hook']}", f"--output={path}"
    )
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def root_file_system(folder: Path) -> Path:
    """Create a root file system from programs of this machine. It has nothing of NVIDIA: the toolkit has to add that."""
    root = folder / "root"
    compiled = folder / "squares"
    done = run("cc", "-std=gnu17", "-O1", "-o", compiled, SQUARES, "-ldl")
    assert done.returncode == 0, done.stderr
    programs = [Path(str(shutil.which(name))) for name in ("sh", "ls")]
    for name in ("dev", "proc", "sys", "tmp", "etc", "usr/bin", "usr/lib", "usr/lib64"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    smi = shutil.which("nvidia-smi")
    for program in [*programs, compiled, *([Path(smi)] if smi else [])]:
        for library in re.findall(r"(/\S+) \(0x", run("ldd", program).stdout):
            if "nvidia" not in library:
                put(root, Path(library))
        if program.name != "nvidia-smi":
            shutil.copy(program, root / "usr/bin" / program.name)
    return root


def put(root: Path, library: Path) -> None:
    place = root / str(library).lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(library.resolve(), place)


@dataclass
class Ended:
    rc: int
    output: str

    @property
    def devices(self) -> list[str]:
        """Return NVIDIA's device nodes of cards."""
        return re.findall(r"^nvidia\d+$", self.output, re.MULTILINE)

    @property
    def uuids(self) -> list[str]:
        return re.findall(r"UUID: ([^)]+)", self.output)


Start = Callable[..., Ended]


@pytest.fixture(scope="module")
def start(tools: dict[str, str], spec: Path, root_file_system: Path, folder: Path) -> Iterator[Start]:
    """Run a command in a container that asks for these devices."""
    configuration = folder / "nvidia-container-runtime/config.toml"
    configuration.parent.mkdir()
    configuration.write_text(RUNTIME_CONFIGURATION.format(specs=spec.parent, ctk=tools["nvidia-ctk"]))
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder)}
    names: list[str] = []

    def runtime(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return run(tools["nvidia-container-runtime"], *arguments, env=environment, **options)

    def start(devices: str | None, command: Sequence[str]) -> Ended:
        name = f"rigwright-test-{os.getpid()}-{len(names)}"
        names.append(name)
        bundle = folder / name
        make_bundle(bundle, tools["runc"], root_file_system, devices, command)
        # The runtime edits the bundle's config.json at `create`, and at nothing else; `run` would go past it.
        with open(bundle / "output", "w+", encoding="utf-8") as output:
            created = subprocess.run(
                [tools["nvidia-container-runtime"], "create", "--bundle", str(bundle), name],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=120,
            )
            if created.returncode == 0:
                assert runtime("start", name).returncode == 0
                wait_for_end(tools["runc"], name)
        text = (bundle / "output").read_text()
        print(text)
        return Ended(created.returncode, text)

    yield start
    for name in names:
        run(tools["runc"], "delete", "--force", name)


def make_bundle(bundle: Path, runc: str, root: Path, devices: str | None, command: Sequence[str]) -> None:
    bundle.mkdir()
    assert run(runc, "spec", cwd=bundle).returncode == 0
    path = bundle / "config.json"
    config = json.loads(path.read_text())
    config["root"] = {"path": str(root), "readonly": False}
    process = config["process"]
    process["terminal"] = False
    process["args"] = [*command]
    # A spec has the driver's programs where the host has them.
    programs = ":".join(["/usr/bin", "/bin", *(str(Path(smi).parent) for smi in [shutil.which("nvidia-smi")] if smi)])
    process["env"] = [f"PATH={programs}", *([] if devices is None else [f"NVIDIA_VISIBLE_DEVICES={devices}"])]
    # As docker has it: driver programs and CUDA.
    process["env"] += [] if devices is None else ["NVIDIA_DRIVER_CAPABILITIES=compute,utility"]
    path.write_text(json.dumps(config))


def wait_for_end(runc: str, name: str) -> None:
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        done = subprocess.run([runc, "state", name], capture_output=True, text=True, check=False)
        if done.returncode != 0 or json.loads(done.stdout)["status"] == "stopped":
            return
        time.sleep(0.1)
    raise AssertionError(f"{name} has not ended")


@pytest.fixture(scope="module")
def gpus(nvidia_smi_xml: dict[str, ElementTree.Element]) -> list[tuple[str, str]]:
    """Return UUID and device node of each GPU, in nvidia-smi's order."""
    return [(uuid, f"nvidia{gpu.findtext('minor_number')}") for uuid, gpu in nvidia_smi_xml.items()]


def test_the_spec_names_every_gpu_of_the_driver(spec: Path, gpus: list[tuple[str, str]]) -> None:
    text = spec.read_text()
    for uuid, node in gpus:
        assert uuid in text and f"/dev/{node}" in text


@pytest.mark.parametrize("devices", [None, "void"])
def test_container_without_a_gpu_sees_none(start: Start, devices: str | None) -> None:
    ended = start(devices, ["sh", "-c", LOOK])

    assert "devices:" in ended.output
    assert "nvidia" not in ended.output


@pytest.mark.parametrize("form", ["nvidia.com/gpu={uuid}", "nvidia.com/gpu={index}", "{uuid}"])
def test_container_has_exactly_its_requested_gpu(start: Start, gpus: list[tuple[str, str]], form: str) -> None:
    for index, (uuid, node) in enumerate(gpus):
        ended = start(form.format(uuid=uuid, index=index), ["sh", "-c", LOOK])

        assert (ended.devices, ended.uuids) == ([node], [uuid])


def test_container_with_all_gpus_has_all(start: Start, gpus: list[tuple[str, str]]) -> None:
    ended = start("nvidia.com/gpu=all", ["sh", "-c", LOOK])

    assert sorted(ended.devices) == sorted(node for _uuid, node in gpus)
    assert sorted(ended.uuids) == sorted(uuid for uuid, _node in gpus)


def test_a_program_of_cuda_computes_in_a_container(start: Start, gpus: list[tuple[str, str]]) -> None:
    ended = start(f"nvidia.com/gpu={gpus[0][0]}", ["squares"])

    assert "squares are right on" in ended.output
    assert "one of 1" in ended.output


def test_without_a_gpu_the_same_program_finds_no_driver(start: Start) -> None:
    assert "libcuda.so.1" in start(None, ["squares"]).output


def test_unknown_gpu_is_refused(start: Start) -> None:
    ended = start("nvidia.com/gpu=99", ["sh", "-c", LOOK])

    assert ended.rc != 0
    assert "unresolvable CDI devices nvidia.com/gpu=99" in ended.output
    assert ended.devices == []
