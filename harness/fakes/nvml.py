"""A fake of NVIDIA's management library, with a state: GPUs without a GPU, for modules and all other programs that use NVML.

    with fake(["H200", "RTX 4090"]) as machine:
        pynvml.nvmlInit()                        # NVIDIA's own binding, here and in child processes that get `machine.env`
        machine.fail("nvmlDeviceSetMigMode", "SUCCESS", activation="IN_USE")
        machine.run_process(gpu=0, pid=4242, memory_mib=512)
        machine.reboot()
        assert machine.writes == 0

The library is C (`harness/fakes/nvml_library`). gcc alone builds it, and `.cache` keeps it by its content. Its answers are in one file
that processes share; `state.c` describes it. Each model is a TOML file in `nvml_library/models`. A card does not support a fact that its
model lacks. `machine.set(0, **{"temperature.gpu": 90})` changes any fact.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import os
import re
import tempfile
import tomllib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.depot.apt_repository import run
from harness.sandbox.lab import ROOT

SOURCES = Path(__file__).with_name("nvml_library")
MODELS = SOURCES / "models"
BUILDS = ROOT / ".cache/nvml"
LIBRARY = ("state.c", "nvml.c", "links.c", "use.c", "modes.c", "health.c", "mig.c", "compute.c", "machine.c")
HEADERS = ("state.h", "api.h", "mig.h")
SONAME = "libnvidia-ml.so.1"
DRIVER = "580.159.04"
STATE = "RIGWRIGHT_NVML_STATE"
MEMORY = "/dev/shm"  # noqa: S108  each machine has a folder of its own in it
# Some compilers would ask for names that only their own libc has.
FLAGS = ("-std=gnu17", "-O2", "-fPIC", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-Wall", "-Wextra", "-Werror")
NOT_AVAILABLE = 2**64 - 1  # NVML_VALUE_NOT_AVAILABLE
NO_INSTANCE = 2**32 - 1
KINDS = ("compute", "graphics", "mps")
STEPS = re.compile(r"(\d+) to (\d+) by (\d+)")
BOOKKEEPING = re.compile(r"!serial|~end|writes|last_write|fail\..*")
# NVML's results by their names, without NVML_ERROR_ (nvmlReturn_t).
NAMES = """
SUCCESS UNINITIALIZED INVALID_ARGUMENT NOT_SUPPORTED NO_PERMISSION ALREADY_INITIALIZED NOT_FOUND INSUFFICIENT_SIZE INSUFFICIENT_POWER
DRIVER_NOT_LOADED TIMEOUT IRQ_ISSUE LIBRARY_NOT_FOUND FUNCTION_NOT_FOUND CORRUPTED_INFOROM GPU_IS_LOST RESET_REQUIRED OPERATING_SYSTEM
LIB_RM_VERSION_MISMATCH IN_USE MEMORY NO_DATA VGPU_ECC_NOT_SUPPORTED INSUFFICIENT_RESOURCES FREQ_NOT_SUPPORTED ARGUMENT_VERSION_MISMATCH
DEPRECATED NOT_READY GPU_NOT_FOUND INVALID_STATE RESET_TYPE_NOT_SUPPORTED
"""
RESULTS = {name: code for code, name in enumerate(NAMES.split())} | {"UNKNOWN": 999}
# Facts that no model has at first.
OTHERS = {"power.cap", "unprivileged", "topology", "numa_node", "irq", "lost", "dead", "absent"}
OTHERS |= {"fabric.clique", "fabric.health", "fabric.summary"}


# --- The library and the models ---


@functools.cache
def library(driver: str = DRIVER) -> Path:
    """Return libnvidia-ml.so.1, and compile it unless it exists. Only a library without the variable of the state uses `driver`."""
    # Linked without a library, it runs with the libc of any host.
    options = ("-shared", "-nostdlib", f'-DDRIVER="{driver}"', f"-Wl,-soname,{SONAME}")
    return compiled(SONAME, LIBRARY, options)


@functools.cache
def nvidia_smi() -> Path:
    """Return the program nvidia-smi, and compile it unless it exists."""
    return compiled("nvidia-smi", ("nvidia-smi.c",), ())


def compiled(name: str, files: Sequence[str], options: Sequence[str]) -> Path:
    content = b"".join((SOURCES / file).read_bytes() for file in (*files, *HEADERS)) + repr((FLAGS, options)).encode()
    target = BUILDS / hashlib.sha256(content).hexdigest()[:16] / name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            half = Path(folder, name)
            run("gcc", *FLAGS, *options, "-o", str(half), *(str(SOURCES / file) for file in files))
            half.rename(target)
    return target


def merge(base: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `more` into `base`, table by table."""
    merged = dict(base)
    for key, value in more.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten tables: `{"a": {"b": [1, 2]}}` becomes `{"a.b": "1 2"}`."""
    flat: dict[str, str] = {}
    for key, value in table.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: written(value)}
    return flat


def written(value: Any) -> str:
    """Return a value as the state has it. `!GPU_IS_LOST` is that error in place of a value, `1980 to 345 by 15` are clocks."""
    if isinstance(value, (list, tuple)):
        return " ".join(written(item) for item in value)
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str) and (steps := STEPS.fullmatch(value)):
        first, last, step = map(int, steps.groups())
        return written(list(range(first, last - 1, -step)))
    if isinstance(value, str) and value[1:] in RESULTS and value.startswith("!"):
        return f"!{RESULTS[value[1:]]}"
    return str(value)


@functools.cache
def read_model(name: str) -> dict[str, Any]:
    """Read the file of a model, and those that it extends."""
    table = tomllib.loads((MODELS / f"{name}.toml").read_text())
    base = table.pop("extends", None)
    return merge(read_model(base), table) if base else table


def models() -> list[str]:
    """Return the names of the models: `H200`, `RTX 4090`, ..."""
    return sorted(file_of(path.stem)[0] for path in MODELS.glob("[!_]*.toml"))


def file_of(name: str) -> tuple[str, str]:
    """Return a model's name as people write it, and the name of its file."""
    stem = name.lower().replace(" ", "_")
    if not (MODELS / f"{stem}.toml").is_file() or stem.startswith("_"):
        possible = ", ".join(sorted(path.stem for path in MODELS.glob("[!_]*.toml")))
        raise ValueError(f"{name} is no model of the fake NVML: {possible}")
    return stem.upper().replace("_", " "), stem


@functools.cache
def model(name: str) -> dict[str, str]:
    """Return the facts of a model, as `{"power.max": "700000"}`."""
    return flatten(read_model(file_of(name)[1]))


@functools.cache
def known_facts() -> frozenset[str]:
    """Return the names of all facts of all models, without numbers."""
    return frozenset(without_numbers(key) for name in models() for key in model(name)) | OTHERS


def without_numbers(key: str) -> str:
    return ".".join(part for part in key.split(".") if not part.isdigit())


# --- A machine ---


@dataclass(frozen=True)
class Gpu:
    index: int
    model: str
    uuid: str
    pci_address: str


def cards(names: Sequence[str]) -> list[Gpu]:
    """Return GPUs of these models, each in a slot, with a UUID for each model and slot."""
    return [
        Gpu(
            index,
            file_of(name)[0],
            f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{file_of(name)[1]}/{index}')}",
            f"0000:{0x41 + index:02x}:00.0",
        )
        for index, name in enumerate(names)
    ]


def initial_state(gpus: Sequence[Gpu], driver: str = DRIVER) -> dict[str, str]:
    """Return the state of a new machine."""
    facts = {
        "driver.module": driver,
        "driver.library": driver,
        "driver.nvml": f"13.{driver}",
        "driver.cuda": "13000",
        "driver.branch": f"r{driver.split('.', maxsplit=1)[0]}_00",
        "writes": "0",
    }
    for gpu in gpus:
        own = {
            **model(gpu.model),
            "uuid": gpu.uuid,
            "pci.address": gpu.pci_address,
            "minor": str(gpu.index),
        }
        if "serial" in own:
            own["serial"] = str(int(own["serial"]) + gpu.index)
        if "gsp.version" in own:
            own["gsp.version"] = driver
        facts |= {f"gpu.{gpu.index}.{key}": value for key, value in own.items()}
    return facts


def as_text(facts: Mapping[str, str], serial: int) -> str:
    """Return the whole file of a state."""
    number = f"{serial:012d}"
    lines = sorted((key.encode(), value.encode()) for key, value in facts.items() if key not in ("!serial", "~end"))
    body = b"".join(key + b"=" + value + b"\n" for key, value in lines).decode()
    return f"!serial={number}\n{body}~end={number}\n"


def described_process(
    used: int | str, name: str = "python3", kind: str = "compute", instance: tuple[int, int] | None = None
) -> str:
    """Return a process as the state has it: kind, bytes, GPU instance, compute instance, name."""
    gi, ci = instance or (NO_INSTANCE, NO_INSTANCE)
    return f"{kind} {used} {gi} {ci} {name}"


class Machine:
    """A machine with fake GPUs. Its methods do what the kernel, users and hardware faults do."""

    def __init__(self, path: Path, gpus: Sequence[Gpu], driver: str = DRIVER) -> None:
        self.path = path
        self.gpus = list(gpus)
        self.replace(initial_state(gpus, driver))

    @property
    def env(self) -> dict[str, str]:
        """Return the variables with which a child process sees this machine."""
        return {
            "LD_LIBRARY_PATH": before("LD_LIBRARY_PATH", library().parent),
            "PATH": before("PATH", nvidia_smi().parent),
            STATE: str(self.path),
        }

    @property
    def writes(self) -> int:
        """Return the number of writing calls of NVML, failed ones included."""
        return int(self.read()["writes"])

    @property
    def last_write(self) -> str | None:
        """Return the function of the last writing call."""
        return self.read().get("last_write")

    def state(self) -> dict[str, str]:
        """Return all facts without the bookkeeping of the fake, to compare before and after."""
        return {key: value for key, value in self.read().items() if not BOOKKEEPING.fullmatch(key)}

    def read(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.path.read_text().splitlines())

    def replace(self, facts: Mapping[str, str]) -> None:
        serial = int(facts.get("!serial", "0")) + 1
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_text(as_text(facts, serial))
        new.rename(self.path)

    def change(self, changes: Mapping[str, str | None]) -> None:
        """Set facts by their whole names; None takes one away."""
        with open(f"{self.path}.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            facts: dict[str, str | None] = {**self.read(), **changes}
            self.replace({key: value for key, value in facts.items() if value is not None})

    def set(self, gpu: int, **values: Any) -> None:
        """Set facts of a GPU: `set(0, **{"temperature.gpu": 90})`, or `set(0, temperature__gpu=90)`.

        None takes a fact away, so that it is NOT_SUPPORTED; `"!GPU_IS_LOST"` is that error. The names are those of the models' files.
        """
        changes = {}
        for key, value in values.items():
            name = key.replace("__", ".")
            if without_numbers(name) not in known_facts():
                raise ValueError(f"{name} is no fact of any model: see {MODELS}")
            changes[f"gpu.{gpu}.{name}"] = None if value is None else written(value)
        self.change(changes)

    def fail(
        self,
        function: str,
        result: str,
        *,
        gpu: int | None = None,
        skip: int = 0,
        times: int = 1,
        activation: str | None = None,
    ) -> None:
        """Make calls of a function fail: after `skip` more, `times` times (0: always). "write" is any writing call, "any" any.

        With `result` SUCCESS the call is made; `activation` is then what nvmlDeviceSetMigMode says of the new mode.
        """
        exported = ctypes.CDLL(str(library()))
        versions = ("", "_v1", "_v2", "_v3", "WithFlags")
        if function not in ("write", "any") and not any(hasattr(exported, function + version) for version in versions):
            raise ValueError(f"{function} is not in the fake NVML")
        number = sum(key.startswith("fail.") for key in self.read())
        status = RESULTS[activation] if activation else -1
        card = -1 if gpu is None else gpu
        self.change({f"fail.{number:03d}": f"{function} {card} {skip} {times} {RESULTS[result]} {status}"})

    def stop_failing(self) -> None:
        self.change({key: None for key in self.read() if key.startswith("fail.")})

    def run_process(
        self,
        gpu: int,
        pid: int,
        kind: str = "compute",
        memory_mib: int | None = 512,
        instance: tuple[int, int] | None = None,
        name: str = "python3",
    ) -> None:
        """Add a process that uses a GPU: "compute", "graphics" or "mps" (MPS client). `instance` is (GPU instance, compute instance)."""
        if kind not in KINDS:
            raise ValueError(f"{kind} is none of {KINDS}")
        used = NOT_AVAILABLE if memory_mib is None else memory_mib << 20
        self.change({f"gpu.{gpu}.process.{pid}": described_process(used, name, kind, instance)})

    def use_process(self, gpu: int, pid: int, *percent: int) -> None:
        """Set how busy a process is: percent of SMs, memory, encoder and decoder."""
        self.change({f"gpu.{gpu}.use.{pid}": written([1, *percent])})

    def end_process(self, gpu: int, pid: int) -> None:
        self.change({f"gpu.{gpu}.process.{pid}": None, f"gpu.{gpu}.use.{pid}": None})

    def lose(self, gpu: int) -> None:
        """Make a GPU fall off the bus, until a reboot."""
        self.change({f"gpu.{gpu}.lost": "1"})

    def kill(self, gpu: int) -> None:
        """Make a GPU fail from the next load of the driver on: NVML does not list it any more."""
        self.change({f"gpu.{gpu}.dead": "1"})

    def unload_driver(self) -> None:
        self.change({"driver.module": None})

    def upgrade_library(self, version: str) -> None:
        """Upgrade the library as apt does: until a reboot, its version differs from that of the loaded module."""
        self.change({"driver.library": version, "driver.nvml": f"13.{version}"})

    def reset(self, gpu: int) -> None:
        """Reset a GPU, as `nvidia-smi --gpu-reset` does. IN_USE while a process uses it."""
        self.call("rigwright_reset", gpu)

    def reload_driver(self) -> None:
        self.call("rigwright_load_driver", 0)

    def reboot(self) -> None:
        self.call("rigwright_load_driver", 1)

    def call(self, function: str, argument: int) -> None:
        with environment({STATE: str(self.path)}):
            result = getattr(ctypes.CDLL(str(library())), function)(argument)
        if result != RESULTS["SUCCESS"]:
            raise RuntimeError(f"{function}: {next(name for name, code in RESULTS.items() if code == result)}")


def before(variable: str, folder: Path) -> str:
    """Return a variable of folders with this one first."""
    others = [path for path in os.environ.get(variable, "").split(os.pathsep) if path not in ("", str(folder))]
    return os.pathsep.join([str(folder), *others])


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process, and put back what they were."""
    earlier = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for key, value in earlier.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


@contextmanager
def fake(names: Sequence[str], *, driver: str = DRIVER) -> Iterator[Machine]:
    """Create a machine with GPUs of these models. NVIDIA's binding finds it in this process and its children, and nvidia-smi does too."""
    # A library that is loaded is found by its SONAME: pynvml's CDLL("libnvidia-ml.so.1") gets this one.
    ctypes.CDLL(str(library()))
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None  # every writing call writes the file
    with tempfile.TemporaryDirectory(prefix="nvml-", dir=memory) as folder:
        machine = Machine(Path(folder, "state"), cards(names), driver)
        with environment(machine.env):
            yield machine
