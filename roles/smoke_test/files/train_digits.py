# SPDX-License-Identifier: GPL-3.0-or-later
"""Train a small network on handwritten digits, on the GPU or on the processor, and say in one line of JSON how it went.

    python train_digits.py
    python train_digits.py --device cuda --epochs 40 --accuracy 0.97
    docker run --rm -i --device nvidia.com/gpu=all IMAGE python3 - --device cuda < train_digits.py

Needs PyTorch and scikit-learn. The 1797 digits of 8 x 8 pixels come with scikit-learn (sklearn.datasets.load_digits, from the UCI
repository's "Optical Recognition of Handwritten Digits"): nothing is downloaded, and nothing is written. A fifth of them is held out
of the training, and the network is judged by these. The seed is fixed.

Exit status: 0 when the network is as accurate as asked; otherwise that of `reason` in STATUSES.
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
    "broken_torch": 4,  # it is there and cannot be imported
    "no_scikit_learn": 5,
    "broken_scikit_learn": 6,
    "cpu_build": 7,  # a GPU is asked for, and this PyTorch was built without CUDA
    "no_gpu": 8,  # a GPU is asked for, and PyTorch finds none that it can use
    "training": 9,  # broke off
    "accuracy": 10,  # missed
}
SEED = 2
BATCH = 64

Account = dict[str, Any]


# Names of packages, for each tool that keeps those of a Python.
PYTORCH = {"conda": "pytorch", "apt": "python3-torch", "pip": "torch"}
PYTORCH_WITH_CUDA = {"conda": "pytorch-gpu", "apt": "python3-torch-cuda", "pip": "--force-reinstall torch"}
SCIKIT_LEARN = {"conda": "scikit-learn", "apt": "python3-sklearn", "pip": "scikit-learn"}


class Failed(Exception):
    """Ends the program with a reason of STATUSES, words for it, and the command that installs what is missing."""

    def __init__(self, reason: str, words: str, install: str = "") -> None:
        super().__init__(words)
        self.reason = reason
        self.install = install


def main() -> int:
    wanted = parse_arguments()
    if wanted.timeout:
        # A thread of its own: it also ends a program that hangs in a driver. The traceback says where.
        faulthandler.dump_traceback_later(wanted.timeout, exit=True)
    # cuBLAS wants to be told before it computes the same thing twice.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    account: Account = {"reason": "", "words": "", "install": "", "python": sys.executable}
    try:
        run(wanted, account)
    except Failed as failure:
        account.update(reason=failure.reason, words=str(failure), install=failure.install)
    account["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(account), flush=True)
    return STATUSES[account["reason"]]


def parse_arguments() -> argparse.Namespace:
    words, _separator, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        "train_digits.py", description=words, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["auto", "cuda", "cpu"], default="auto", help="auto: a GPU if there is one")
    parser.add_argument("--epochs", type=int, default=20, help="how often the network sees each digit (%(default)s)")
    parser.add_argument("--accuracy", type=float, default=0.95, help="share it has to get right (%(default)s)")
    parser.add_argument("--timeout", type=float, default=0, help="seconds after which it ends itself (no limit)")
    wanted = parser.parse_args()
    if wanted.epochs < 1:
        parser.error("--epochs must be 1 or more")
    return wanted


def run(wanted: argparse.Namespace, account: Account) -> None:
    """Do it all, and note in *account* what comes out, as far as it gets."""
    account.update(what_the_driver_sees())
    torch = load("torch", "torch", PYTORCH_WITH_CUDA if wanted.device == "cuda" else PYTORCH)
    account.update(torch=torch.__version__, cuda=torch.version.cuda)
    datasets = load("sklearn.datasets", "scikit_learn", SCIKIT_LEARN)
    device = choose_device(torch, wanted.device)
    account.update(device=device, device_name=name_of(torch, device))
    try:
        account.update(train(torch, datasets.load_digits(), device, wanted.epochs))
    # PyTorch's own: no kernel for this GPU, memory that is full. It loads more of itself here, too.
    except (RuntimeError, ImportError, OSError) as error:
        raise Failed("training", one_line(error)) from error
    if account["accuracy"] < wanted.accuracy:
        raise Failed(
            "accuracy", f"{account['accuracy']:.4f} of the digits are right, and {wanted.accuracy} is asked for"
        )


def what_the_driver_sees() -> Account:
    """The GPUs that a CUDA program finds here, asked of the driver: PyTorch tells nothing where it cannot use them.

    Their UUIDs are written as nvidia-smi writes them. `driver` is the driver's own word for its state.
    """
    found: Account = {"gpus": [], "driver": "", "driver_cuda": ""}
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
    # The newer one gives a part of a GPU its own UUID.
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


def load(name: str, what: str, packages: dict[str, str]) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name.partition(".")[0]:
            raise Failed(f"no_{what}", one_line(error), how_to_install(packages)) from error
        raise Failed(f"broken_{what}", one_line(error)) from error
    except (ImportError, OSError, AttributeError) as error:  # what a mixture of versions comes to
        raise Failed(f"broken_{what}", one_line(error)) from error


def how_to_install(packages: dict[str, str]) -> str:
    """The command for this Python."""
    if Path(sys.prefix, "conda-meta").is_dir():
        return f"conda install --prefix {sys.prefix} --channel conda-forge {packages['conda']}"
    if sys.prefix == "/usr" and Path("/usr/bin/apt-get").exists():
        return f"apt-get install {packages['apt']}"
    return f"{sys.executable} -m pip install {packages['pip']}"


def choose_device(torch: Any, wanted: str) -> str:
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
    if device == "cuda":
        return str(torch.cuda.get_device_name(0))
    told = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return told[1] if told else platform.machine()


def train(torch: Any, digits: Any, device: str, epochs: int) -> Account:
    """Train and judge. `seconds_per_epoch` is the median: the first one also loads kernels."""
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    # The network is too small for more, and other work on the host goes on.
    torch.set_num_threads(1)

    # By way of lists: PyTorch and NumPy need not be made for each other.
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
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


if __name__ == "__main__":
    sys.exit(main())
