# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the MIG state of a GPU from NVML, and make single changes."""

from __future__ import annotations

import ctypes
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.layout import (
    DISABLED,
    ENABLED,
    Compute,
    ComputeStarts,
    Instance,
    Layout,
    Profile,
    Profiles,
    State,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.search import place_compute
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig.steps import (
    CREATE,
    CREATE_COMPUTE,
    DESTROY,
    Step,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml import Card, Nvml, pynvml
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import CODES, NvmlError
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.processes import has_wrong_processes

_MODES = (DISABLED, ENABLED)
_COMPUTE_MODES = ("default", "exclusive_thread", "prohibited", "exclusive_process")
# NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED
_RESETLESS = 184
_NO_INSTANCE = 0xFFFFFFFF
_PROCESSES = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)
# The errors for the number of a profile that the driver or the card does not have.
_NO_PROFILE = ("NOT_SUPPORTED", "INVALID_ARGUMENT", "NOT_FOUND")
# NVML_GPU_INSTANCE_PROFILE_*: the attribute of a profile. A driver may give two profiles of one size the same name, as for A30.
_ATTRIBUTES = {
    0x7: "+me",
    0x8: "+me",
    0xA: "+gfx",
    0xB: "+gfx",
    0xC: "+gfx",
    0xD: "-me",
    0xE: "-me",
    0xF: "+me.all",
    0x10: "+me.all",
    0x11: "+gfx",
}


class Device:
    """One GPU, by its UUID: handles do not outlive a reset."""

    def __init__(self, nvml: Nvml, uuid: str) -> None:
        self.nvml = nvml
        self.uuid = uuid
        # The profiles change only with the mode (nvml.h).
        self._known = Profiles()

    @property
    def card(self) -> Card:
        return self.nvml.find(self.uuid)

    def read(self) -> State:
        """Read mode, profiles and instances.

        :raises NvmlError: the GPU does not answer.
        """
        nvml, card = self.nvml, self.card
        modes = nvml.ask("nvmlDeviceGetMigMode", card.handle)
        compute_mode = nvml.ask("nvmlDeviceGetComputeMode", card.handle)
        profiles = self._known = self._profiles(card.handle) if modes else Profiles()
        processes = self._processes(card.handle)
        layout = self._layout(card.handle, profiles, processes) if modes and modes[0] else ()
        return State(
            index=card.index,
            uuid=card.uuid,
            pci_address=card.pci_address,
            name=card.name,
            device_id=f"0x{card.pci_ids[0]:08x}" if card.pci_ids else "",
            mode=_MODES[modes[0]] if modes else None,
            pending=_MODES[modes[1]] if modes else None,
            resetless=bool(modes and nvml.field(card.handle, _RESETLESS)),
            compute_mode=None if compute_mode is None else _COMPUTE_MODES[compute_mode],
            profiles=profiles,
            layout=layout,
            pids=tuple(sorted({pid for pid, _gi, _ci in processes})),
        )

    def _processes(self, handle: t.Any) -> list[tuple[int, int, int]]:
        """Read process, GPU instance and compute instance; a process in several instances has several rows.

        :raises NvmlError: the processes are unknown, so that no instance may be removed.
        """
        versions = ("v2",) if has_wrong_processes(self.nvml.driver_version()) else ("v3", "v2")
        rows: list[t.Any] = []
        for function in _PROCESSES:
            listed = (self.nvml.ask(f"{function}_{version}", handle) for version in versions)
            rows += next((found for found in listed if found is not None), [])
        return sorted({(row.pid, row.gpuInstanceId, row.computeInstanceId) for row in rows})

    def _profiles(self, handle: t.Any) -> Profiles:
        found = Profiles()
        for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            info = self._profile("nvmlDeviceGetGpuInstanceProfileInfoV", handle, number)
            if info is None:
                continue
            name = info.name.decode() if isinstance(info.name, bytes) else str(info.name)
            name = name.replace("MIG ", "").lower()
            if name in found:
                name += _ATTRIBUTES.get(number, f"+{number}")
            function = "nvmlDeviceGetGpuInstancePossiblePlacements"
            places = self._places(function, pynvml.c_nvmlGpuInstancePlacement_t, handle, info.id)
            found[name] = Profile(
                name=name,
                id=info.id,
                slices=info.sliceCount,
                size=places[0][1] if places else 0,
                starts=tuple(start for start, _size in places),
                maximum=info.instanceCount,
                memory_mib=info.memorySizeMB,
                engines=(info.decoderCount, info.encoderCount, info.jpegCount, info.ofaCount),
            )
        return found

    def _known_profiles(self) -> Profiles:
        if not self._known:
            self._known = self._profiles(self.card.handle)
        return self._known

    def _profile(self, function: str, *arguments: t.Any) -> t.Any | None:
        try:
            return self.nvml.call(function, *arguments)
        except NvmlError as error:
            if error.name in _NO_PROFILE:
                return None
            raise

    def _places(self, function: str, kind: t.Any, handle: t.Any, profile: int) -> list[tuple[int, int]]:
        """Return starts and sizes. Without room for them, the first call gives their number."""
        count = ctypes.c_uint(0)
        self.nvml.call(function, handle, profile, None, ctypes.byref(count))
        rows = (kind * max(count.value, 1))()
        self.nvml.call(function, handle, profile, rows, ctypes.byref(count))
        return sorted((row.start, row.size) for row in rows[: count.value])

    def _handles(self, function: str, kind: t.Any, handle: t.Any, profile: int, most: int) -> list[t.Any]:
        rows, count = (kind * max(most, 1))(), ctypes.c_uint(most)
        self.nvml.call(function, handle, profile, rows, ctypes.byref(count))
        return list(rows[: count.value])

    def _instances(self, handle: t.Any, profiles: Profiles) -> list[tuple[Profile, t.Any, t.Any]]:
        """Return profile, handle and info of each GPU instance."""
        return [
            (profile, instance, self.nvml.call("nvmlGpuInstanceGetInfo", instance))
            for profile in profiles.values()
            for instance in self._handles(
                "nvmlDeviceGetGpuInstances", pynvml.c_nvmlGpuInstance_t, handle, profile.id, profile.maximum
            )
        ]

    def _compute_profiles(self, gpu_instance: t.Any) -> dict[int, t.Any]:
        """Return the compute profiles by slices. All share their engines."""
        found: dict[int, t.Any] = {}
        for number in range(pynvml.NVML_COMPUTE_INSTANCE_PROFILE_COUNT):
            shared = pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
            info = self._profile("nvmlGpuInstanceGetComputeInstanceProfileInfoV", gpu_instance, number, shared)
            if info is not None:
                found.setdefault(info.sliceCount, info)
        return found

    def _compute(self, gpu_instance: t.Any, infos: t.Iterable[t.Any]) -> list[tuple[t.Any, t.Any]]:
        """Return handle and info of each compute instance."""
        handles = [
            compute
            for info in infos
            for compute in self._handles(
                "nvmlGpuInstanceGetComputeInstances",
                pynvml.c_nvmlComputeInstance_t,
                gpu_instance,
                info.id,
                info.instanceCount,
            )
        ]
        return [(compute, self.nvml.call("nvmlComputeInstanceGetInfo_v2", compute)) for compute in handles]

    def _compute_starts(self, gpu_instance: t.Any, infos: t.Mapping[int, t.Any]) -> ComputeStarts | None:
        """Return the possible starts of compute instances; None if the driver is too old to report them."""
        function, kind = "nvmlGpuInstanceGetComputeInstancePossiblePlacements", pynvml.c_nvmlComputeInstancePlacement_t
        try:
            return {
                slices: tuple(start for start, _size in self._places(function, kind, gpu_instance, info.id))
                for slices, info in infos.items()
            }
        except NvmlError as error:
            if error.absent:
                return None
            raise

    def _layout(self, handle: t.Any, profiles: Profiles, processes: list[tuple[int, int, int]]) -> Layout:
        uuids = self._uuids(handle)
        layout = []
        # All GPU instances of a profile have the same compute profiles.
        tables: dict[str, tuple[dict[int, t.Any], ComputeStarts | None]] = {}
        for profile, gpu_instance, info in self._instances(handle, profiles):
            if profile.name not in tables:
                infos = self._compute_profiles(gpu_instance)
                tables[profile.name] = (infos, self._compute_starts(gpu_instance, infos))
            infos, starts = tables[profile.name]
            compute = [
                Compute(
                    slices=inner.placement.size,
                    start=inner.placement.start,
                    id=inner.id,
                    uuid=uuids.get((info.id, inner.id), ""),
                    # NVML does not report the compute instance of every process: such a process may be in any.
                    pids=tuple(pid for pid, gi, ci in processes if gi == info.id and ci in (inner.id, _NO_INSTANCE)),
                )
                for _handle, inner in self._compute(gpu_instance, infos.values())
            ]
            layout.append(
                Instance(
                    profile=profile.name,
                    start=info.placement.start,
                    compute=tuple(sorted(compute, key=lambda instance: instance.id)),
                    id=info.id,
                    pids=tuple(sorted({pid for pid, gi, _ci in processes if gi == info.id})),
                    compute_starts=starts,
                )
            )
        return tuple(sorted(layout, key=lambda instance: instance.start))

    def _uuids(self, handle: t.Any) -> dict[tuple[int, int], str]:
        """Read the UUIDs by the ids of GPU instance and compute instance."""
        found: dict[tuple[int, int], str] = {}
        for number in range(self.nvml.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
            device = self.nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
            if device is None:
                continue
            ids = (
                self.nvml.call("nvmlDeviceGetGpuInstanceId", device),
                self.nvml.call("nvmlDeviceGetComputeInstanceId", device),
            )
            found[ids] = self.nvml.call("nvmlDeviceGetUUID", device)
        return found

    def set_mode(self, mode: str) -> None:
        """Set the mode of MIG.

        :raises NvmlError: the call failed, or it succeeded and the activation failed: NVML has a status for each.
        """
        function = "nvmlDeviceSetMigMode"
        activation = self.nvml.call(function, self.card.handle, _MODES.index(mode))
        if activation:
            raise NvmlError(activation, function)

    def take(self, step: Step) -> None:
        """Carry out a step of a plan.

        :raises NvmlError: the call failed.
        """
        handle, nvml, profiles = self.card.handle, self.nvml, self._known_profiles()
        if step.action == CREATE:
            profile = profiles[step.profile]
            place = pynvml.c_nvmlGpuInstancePlacement_t(step.start, profile.size)
            nvml.call("nvmlDeviceCreateGpuInstanceWithPlacement", handle, profile.id, ctypes.byref(place))
            return
        found = next(
            (
                instance
                for profile, instance, info in self._instances(handle, profiles)
                if (profile.name, info.placement.start) == (step.profile, step.start)
            ),
            None,
        )
        if found is None:
            # Another program has removed it meanwhile.
            raise NvmlError(CODES["NOT_FOUND"], "nvmlDeviceGetGpuInstances")
        if step.action == DESTROY:
            nvml.call("nvmlGpuInstanceDestroy", found)
        elif step.action == CREATE_COMPUTE:
            self._create_compute(found, t.cast("Compute", step.compute))
        else:
            self._destroy_compute(found, t.cast("Compute", step.compute))

    def _destroy_compute(self, gpu_instance: t.Any, compute: Compute) -> None:
        infos = self._compute_profiles(gpu_instance)
        for instance, info in self._compute(gpu_instance, infos.values()):
            if (info.placement.size, info.placement.start) == compute.place:
                self.nvml.call("nvmlComputeInstanceDestroy", instance)
                return
        raise NvmlError(CODES["NOT_FOUND"], "nvmlGpuInstanceGetComputeInstances")

    def _create_compute(self, gpu_instance: t.Any, compute: Compute) -> None:
        infos = self._compute_profiles(gpu_instance)
        if compute.slices not in infos:
            raise NvmlError(CODES["NOT_SUPPORTED"], "nvmlGpuInstanceCreateComputeInstance")
        profile = infos[compute.slices].id
        if compute.start is None:
            self.nvml.call("nvmlGpuInstanceCreateComputeInstance", gpu_instance, profile)
            return
        place = pynvml.c_nvmlComputeInstancePlacement_t(compute.start, compute.slices)
        function = "nvmlGpuInstanceCreateComputeInstanceWithPlacement"
        self.nvml.call(function, gpu_instance, profile, ctypes.byref(place))

    def settle(self, profile: str, start: int, wanted: t.Sequence[int]) -> list[Compute]:
        """Place all compute instances of a new GPU instance at once: created one by one, the driver's choices may block the last."""
        handle = self.card.handle
        for instance, gpu_instance, info in self._instances(handle, self._known_profiles()):
            if (instance.name, info.placement.start) == (profile, start):
                infos = self._compute_profiles(gpu_instance)
                placed = place_compute((), wanted, self._compute_starts(gpu_instance, infos))
                if placed is None:
                    break
                return placed[1]
        raise NvmlError(CODES["INSUFFICIENT_RESOURCES"], "nvmlGpuInstanceCreateComputeInstance")
