"""Samples of the GPU while loads run: clocks, power, temperature and clock event reasons, five times a second."""

from __future__ import annotations

import contextlib
import importlib
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

PERIOD_S = 0.2
CLOCK_SM = 1
TEMPERATURE = 0


class Watch:
    """A thread that samples the first GPU; without NVML there is nothing to sample, and every figure is null."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, dict[str, float]]] = []
        self.ended = threading.Event()
        self.nvml: Any = None
        self.handle: Any = None
        with contextlib.suppress(Exception):  # whatever is missing, the bench goes on without it
            nvml: Any = importlib.import_module("pynvml")
            nvml.nvmlInit()
            self.handle = nvml.nvmlDeviceGetHandleByIndex(0)
            self.nvml = nvml
            threading.Thread(target=self.sample, daemon=True).start()

    def sample(self) -> None:
        """Sample until the end."""
        while not self.ended.wait(PERIOD_S):
            self.samples.append((time.monotonic(), self.read()))

    def read(self) -> dict[str, float]:
        """Read one sample."""
        n, handle = self.nvml, self.handle
        readers: dict[str, Callable[[], Any]] = {
            "power_w": lambda: n.nvmlDeviceGetPowerUsage(handle) / 1000,
            "clock_mhz": lambda: n.nvmlDeviceGetClockInfo(handle, CLOCK_SM),
            "temperature_c": lambda: n.nvmlDeviceGetTemperature(handle, TEMPERATURE),
            "used_gib": lambda: n.nvmlDeviceGetMemoryInfo(handle).used / 1024**3,
            "reasons": lambda: n.nvmlDeviceGetCurrentClocksEventReasons(handle),
        }
        found = {}
        for name, ask in readers.items():
            with contextlib.suppress(n.NVMLError, AttributeError):
                found[name] = ask()
        return found

    def between(self, first: float, last: float) -> dict[str, Any]:
        """Return the means of the samples in a time. `reasons` has all bits of NVML that were ever set."""
        inside = [values for moment, values in list(self.samples) if first <= moment <= last]
        found: dict[str, Any] = {}
        for name in ("power_w", "clock_mhz", "temperature_c", "used_gib"):
            values = [sample[name] for sample in inside if name in sample]
            found[name] = round(statistics.fmean(values), 2) if values else None
        bits = 0
        for sample in inside:
            bits |= int(sample.get("reasons", 0))
        found["reasons"] = hex(bits) if inside else None
        found["samples"] = len(inside)
        return found

    def card(self) -> dict[str, Any]:
        """Read the card and its settings."""
        if self.nvml is None:
            return {}
        n, handle = self.nvml, self.handle
        readers: dict[str, Callable[[], Any]] = {
            "name": lambda: n.nvmlDeviceGetName(handle),
            "uuid": lambda: n.nvmlDeviceGetUUID(handle),
            "driver": n.nvmlSystemGetDriverVersion,
            "memory_gib": lambda: round(n.nvmlDeviceGetMemoryInfo(handle).total / 1024**3, 2),
            "compute_mode": lambda: n.nvmlDeviceGetComputeMode(handle),
            "persistence": lambda: n.nvmlDeviceGetPersistenceMode(handle),
            "mig": lambda: n.nvmlDeviceGetMigMode(handle)[0],
            "power_limit_w": lambda: n.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
            "max_clock_mhz": lambda: n.nvmlDeviceGetMaxClockInfo(handle, CLOCK_SM),
            "ecc": lambda: n.nvmlDeviceGetEccMode(handle)[0],
        }
        found: dict[str, Any] = {}
        for name, ask in readers.items():
            try:
                value = ask()
            except n.NVMLError as error:
                value = None if "Not Supported" in str(error) else str(error)
            found[name] = value.decode() if isinstance(value, bytes) else value
        return found

    def close(self) -> None:
        """Stop sampling."""
        self.ended.set()
