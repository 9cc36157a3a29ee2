"""The calls of CUDA's driver library that the bench needs, by ctypes: a client starts quickly and sees the driver's own codes."""

from __future__ import annotations

import ctypes
import os
from typing import Any

# enum CUdevice_attribute of cuda.h
MULTIPROCESSOR_COUNT = 16
MPS_ENABLED = 133

# PTX that the driver compiles for whatever card there is, from Volta on.
KERNELS = b"""
.version 7.0
.target sm_70
.address_size 64

.extern .func __assertfail (
    .param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function, .param .b64 size);
.global .align 1 .b8 words[8] = {102, 97, 117, 108, 116, 0, 0, 0};

// Each thread adds one *rounds* times to its cell: the right answer is known.
.visible .entry work(.param .u64 cells, .param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %a<4>;
    ld.param.u64 %a1, [cells];
    ld.param.u32 %r1, [rounds];
    cvta.to.global.u64 %a1, %a1;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    mul.wide.u32 %a2, %r5, 4;
    add.u64 %a1, %a1, %a2;
AGAIN:
    ld.volatile.global.u32 %r6, [%a1];
    add.u32 %r6, %r6, 1;
    st.volatile.global.u32 [%a1], %r6;
    sub.u32 %r1, %r1, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra AGAIN;
    ret;
}

// Busy for so many nanoseconds.
.visible .entry spin(.param .u64 nanoseconds)
{
    .reg .pred %p<2>;
    .reg .b64 %a<6>;
    ld.param.u64 %a1, [nanoseconds];
    mov.u64 %a2, %globaltimer;
WAIT:
    mov.u64 %a3, %globaltimer;
    sub.u64 %a4, %a3, %a2;
    setp.lt.u64 %p1, %a4, %a1;
    @%p1 bra WAIT;
    ret;
}

// Writes where nothing is.
.visible .entry illegal()
{
    .reg .b32 %r<2>;
    .reg .b64 %a<2>;
    mov.u64 %a1, 64;
    mov.u32 %r1, 1;
    st.global.u32 [%a1], %r1;
    ret;
}

// What assert(false) is in CUDA C++.
.visible .entry assertion()
{
    .reg .b32 %r<2>;
    .reg .b64 %a<4>;
    mov.u64 %a1, words;
    cvta.global.u64 %a2, %a1;
    mov.u32 %r1, 1;
    mov.u64 %a3, 1;
    {
    .param .b64 p0;
    .param .b64 p1;
    .param .b32 p2;
    .param .b64 p3;
    .param .b64 p4;
    st.param.b64 [p0], %a2;
    st.param.b64 [p1], %a2;
    st.param.b32 [p2], %r1;
    st.param.b64 [p3], %a2;
    st.param.b64 [p4], %a3;
    call.uni __assertfail, (p0, p1, p2, p3, p4);
    }
    ret;
}
"""


class CudaError(Exception):
    """A call of the driver's library failed."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call}: {name} ({code})")
        self.call, self.code, self.name = call, code, name


class Cuda:
    """The library, initialised; *attach* makes a context on the first GPU that it shows.

    :raises OSError: there is no library.
    :raises CudaError: a call failed, in every method.
    """

    def __init__(self) -> None:
        self.library: Any = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.functions: dict[str, Any] = {}

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the library."""
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            error_name = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(error_name))
            raise CudaError(name, code, (error_name.value or b"unknown").decode())

    def attribute(self, number: int) -> int | None:
        """Read an attribute of the device; None where this driver does not know it."""
        value = ctypes.c_int()
        try:
            self.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.device)
        except CudaError:
            return None
        return value.value

    def uuid(self) -> str:
        """Read the UUID of the device."""
        raw = (ctypes.c_ubyte * 16)()
        self.call("cuDeviceGetUuid_v2", ctypes.byref(raw), self.device)
        digits = bytes(raw).hex()
        return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def attach(self) -> None:
        """Create a context, and load the kernels."""
        context, module = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuModuleLoadData", ctypes.byref(module), KERNELS)
        for name in ("work", "spin", "illegal", "assertion"):
            function = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            self.functions[name] = function

    def launch(self, name: str, blocks: int, threads: int, *values: Any) -> None:
        """Launch a kernel."""
        pointers = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(value) for value in values))
        function = self.functions[name]
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self.call("cuCtxSynchronize")

    def allocate(self, size: int) -> ctypes.c_uint64:
        """Allocate memory of the GPU."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def clear(self, address: ctypes.c_uint64, count: int) -> None:
        """Set words of 32 bits to 0."""
        self.call("cuMemsetD32_v2", address, 0, ctypes.c_size_t(count))

    def read_word(self, address: int) -> int:
        """Read a word of 32 bits."""
        word = ctypes.c_uint32()
        self.call("cuMemcpyDtoH_v2", ctypes.byref(word), ctypes.c_uint64(address), ctypes.c_size_t(4))
        return word.value

    def memory(self) -> tuple[int, int]:
        """Return the free and the total bytes that this client sees."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value


def proof() -> dict[str, Any]:
    """Return the facts that prove the mode of this process; nulls where there is no GPU."""
    found: dict[str, Any] = {
        "pid": os.getpid(),
        "mps": None,
        "multiprocessors": None,
        "uuid": None,
        "pipe_directory": os.environ.get("CUDA_MPS_PIPE_DIRECTORY"),
    }
    try:
        cuda = Cuda()
    except (OSError, CudaError) as error:
        return {**found, "problem": str(error)}
    found["mps"] = cuda.attribute(MPS_ENABLED)
    found["multiprocessors"] = cuda.attribute(MULTIPROCESSOR_COUNT)
    found["uuid"] = cuda.uuid()
    return found
