# SPDX-License-Identifier: GPL-3.0-or-later
"""Train a small network on handwritten digits, on the GPU or on the processor, and print a report as one line of JSON.

    python train_digits.py
    python train_digits.py --device cuda --epochs 40 --accuracy 0.97
    docker run --rm -i --device nvidia.com/gpu=all IMAGE python3 - --device cuda < train_digits.py

Needs PyTorch and scikit-learn. The 1797 digits of 8 x 8 pixels come with scikit-learn (sklearn.datasets.load_digits, from the UCI
repository's "Optical Recognition of Handwritten Digits"): nothing is downloaded, and nothing is written. A fifth of them is held out
of the training to measure the accuracy. The seed is fixed.

Exit status: 0 when the network reaches the accuracy; otherwise that of `reason` in STATUSES.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import importlib
import json
import os
import platform
import re
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

STATUSES = {
    "": 0,
    "no_torch": 3,
    "broken_torch": 4,  # installed, but cannot be imported
    "no_scikit_learn": 5,
    "broken_scikit_learn": 6,
    "cpu_build": 7,  # a GPU is required, and this PyTorch was built without CUDA
    "no_gpu": 8,  # a GPU is required, and PyTorch finds none that it can use
    "training": 9,  # failed
    "accuracy": 10,  # missed
    "memory": 11,  # other programs hold that of the GPU
}
SEED = 2
BATCH = 64

Report = dict[str, Any]


# Names of packages by package manager.
PYTORCH = {"conda": "pytorch", "apt": "python3-torch", "pip": "torch"}
PYTORCH_WITH_CUDA = {"conda": "pytorch-gpu", "apt": "python3-torch-cuda", "pip": "--force-reinstall torch"}
SCIKIT_LEARN = {"conda": "scikit-learn", "apt": "python3-sklearn", "pip": "scikit-learn"}


class Failed(Exception):
    """Ends the program with a reason of STATUSES, a message, and the command that installs the missing package."""

    def __init__(self, reason: str, message: str, install: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.install = install


def main() -> int:
    """Run the program, and return its exit status."""
    wanted = parse_arguments()
    if wanted.timeout:
        # A thread of its own also ends a program that hangs in a driver. The traceback has the place.
        faulthandler.dump_traceback_later(wanted.timeout, exit=True)
    # cuBLAS needs this setting to compute the same result each time.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    report: Report = {"reason": "", "words": "", "install": "", "python": sys.executable}
    try:
        run(wanted, report)
    except Failed as failure:
        report.update(reason=failure.reason, words=str(failure), install=failure.install)
    report["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(report), flush=True)
    return STATUSES[report["reason"]]


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    description, _separator, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        "train_digits.py", description=description, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto", help="auto: a GPU if there is one")
    parser.add_argument("--epochs", type=int, default=20, help="epochs of the training (%(default)s)")
    parser.add_argument("--accuracy", type=float, default=0.95, help="share to recognise (%(default)s)")
    parser.add_argument("--timeout", type=float, default=0, help="seconds after which it ends itself (no limit)")
    parser.add_argument("--memory", type=int, default=0, help="bytes of the GPU to find free, or it does not train (0)")
    wanted = parser.parse_args()
    if wanted.epochs < 1:
        parser.error("--epochs must be 1 or more")
    return wanted


def run(wanted: argparse.Namespace, report: Report) -> None:
    """Train, and fill *report* step by step.

    :raises Failed: a step failed; the report has the values of earlier steps.
    """
    report.update(list_gpus_of_the_driver())
    if wanted.device != "cpu" and report["gpus"]:
        # PyTorch takes the first.
        check_memory(report["gpus"][0]["uuid"], wanted.memory)
    torch = load("torch", "torch", PYTORCH_WITH_CUDA if wanted.device == "cuda" else PYTORCH)
    report.update(torch=torch.__version__, cuda=torch.version.cuda)
    datasets = load("sklearn.datasets", "scikit_learn", SCIKIT_LEARN)
    device = choose_device(torch, wanted.device)
    report.update(device=device, device_name=name_of(torch, device))
    try:
        report.update(train(torch, datasets.load_digits(), device, wanted.epochs))
    # Errors of PyTorch: no kernel for this GPU, full memory. It also imports more modules here.
    except (RuntimeError, ImportError, OSError) as error:
        full = device == "cuda" and "out of memory" in str(error)
        raise Failed("memory" if full else "training", one_line(error)) from error
    if report["accuracy"] < wanted.accuracy:
        raise Failed(
            "accuracy", f"{report['accuracy']:.4f} of the digits are right, and {wanted.accuracy} is asked for"
        )


def list_gpus_of_the_driver() -> Report:
    """List the GPUs that the driver shows to a CUDA program. PyTorch lists none where it cannot use them.

    UUIDs are in the format of nvidia-smi. `driver` is the driver's name for its state.
    """
    found: Report = {"gpus": [], "driver": "", "driver_cuda": ""}
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {**found, "driver": str(error)}
    status = cuda.cuInit(0)
    name = ctypes.c_char_p()
    cuda.cuGetErrorName(status, ctypes.byref(name))
    found["driver"] = (name.value or b"").decode() or f"error {status}"
    if status != 0:
        return found
    version, count, device = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    found["driver_cuda"] = f"{version.value // 1000}.{version.value % 1000 // 10}"
    cuda.cuDeviceGetCount(ctypes.byref(count))
    # The newer function gives a part of a GPU its own UUID.
    get_uuid = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
    for number in range(count.value):
        title, uuid = ctypes.create_string_buffer(256), (ctypes.c_ubyte * 16)()
        cuda.cuDeviceGet(ctypes.byref(device), number)
        cuda.cuDeviceGetName(title, len(title), device)
        get_uuid(ctypes.byref(uuid), device)
        digits = re.sub(r"(.{8})(.{4})(.{4})(.{4})(.{12})", r"\1-\2-\3-\4-\5", bytes(uuid).hex())
        kind = "MIG" if b" MIG " in title.value else "GPU"
        found["gpus"].append({"uuid": f"{kind}-{digits}", "name": title.value.decode(errors="replace")})
    return found


def check_memory(uuid: str, least: int) -> None:
    """Check that a GPU has free memory. NVML takes none of it for its answer, as CUDA would.

    :raises Failed: less than *least* bytes are free.
    """
    handle, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()  # total, free, used
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return  # the training finds out
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)):
        return
    if nvml.nvmlDeviceGetMemoryInfo(handle, memory) == 0 and memory[1] < least:
        needs, free = (f"{size / 2**20:.0f} MiB" for size in (least, memory[1]))
        raise Failed("memory", f"not started: it needs {needs} of {uuid}, of which {free} are free")


def load(name: str, package: str, packages: dict[str, str]) -> Any:
    """Import a module.

    :param package: the package in the reason, where it cannot be imported.
    :raises Failed: it cannot be imported.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name.partition(".")[0]:
            raise Failed(f"no_{package}", one_line(error), how_to_install(packages)) from error
        raise Failed(f"broken_{package}", one_line(error)) from error
    except (ImportError, OSError, AttributeError) as error:  # errors of mixed versions
        raise Failed(f"broken_{package}", one_line(error)) from error


def how_to_install(packages: dict[str, str]) -> str:
    """Return the command that installs a package for this Python."""
    if Path(sys.prefix, "conda-meta").is_dir():
        return f"conda install --prefix {sys.prefix} --channel conda-forge {packages['conda']}"
    if sys.prefix == "/usr" and Path("/usr/bin/apt-get").exists():
        return f"apt-get install {packages['apt']}"
    return f"{sys.executable} -m pip install {packages['pip']}"


def choose_device(torch: Any, wanted: str) -> str:
    """Return the device to train on.

    :raises Failed: CUDA is required, and PyTorch cannot use a GPU.
    """
    if wanted == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if wanted == "auto":
        return "cpu"
    if torch.version.cuda is None:
        install = how_to_install(PYTORCH_WITH_CUDA)
        raise Failed("cpu_build", f"PyTorch {torch.__version__} was built without CUDA", install)
    try:
        torch.cuda.init()
    except RuntimeError as error:
        raise Failed("no_gpu", one_line(error)) from error
    raise Failed("no_gpu", f"PyTorch {torch.__version__} finds no GPU")


def name_of(torch: Any, device: str) -> str:
    """Return the name of the GPU or of the processor."""
    if device == "cuda":
        return str(torch.cuda.get_device_name(0))
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return model[1] if model else platform.machine()


def train(torch: Any, digits: Any, device: str, epochs: int) -> Report:
    """Train, and measure the accuracy. `seconds_per_epoch` is the median: the first epoch also loads kernels."""
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    # The network is too small for more threads, and other programs of the host need the processor.
    torch.set_num_threads(1)

    # Through lists: PyTorch and NumPy may be built for different versions of each other.
    images = torch.tensor(digits.images.tolist()).div(16).unsqueeze(1).to(device)
    labels = torch.tensor(digits.target.tolist()).to(device)
    order = torch.randperm(len(labels)).to(device)
    held_out, learnt = order[: len(order) // 5], order[len(order) // 5 :]

    nn = torch.nn
    network = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1, stride=2), nn.ReLU()),
        *(nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10)),
    ).to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.002)

    seconds = []
    for _epoch in range(epochs):
        start = time.monotonic()
        shuffled = learnt[torch.randperm(len(learnt)).to(device)]
        for batch in shuffled.split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.monotonic() - start)

    network.eval()
    with torch.no_grad():
        right = (network(images[held_out]).argmax(1) == labels[held_out]).sum().item()
    return {
        "epochs": epochs,
        "seconds_per_epoch": statistics.median(seconds),
        "held_out": len(held_out),
        "accuracy": right / len(held_out),
        "peak_gpu_memory_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else 0,
    }


def one_line(error: BaseException) -> str:
    """Return an error as one short line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


if __name__ == "__main__":
    sys.exit(main())
