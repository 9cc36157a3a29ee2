"""Small CUDA clients without PyTorch, which start quickly and see the driver's own codes.

victim    computes and checks its results, step after step, until a line comes on standard input or CUDA fails
offender  waits for `illegal`, `assertion`, `memory` or `spin` on standard input, and does that
probe     attaches, computes once and ends
hog BYTES PIECE  allocates memory in pieces until none is left, or it has BYTES

Each answer is a line of JSON. A client that met an error stays, with its context, until the command `quit`: as long as it runs, its server
keeps its state.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import sys
import threading
import time
from typing import Any

from harness.bench.gpu_sharing import cuda

BLOCKS, THREADS, ROUNDS = 256, 256, 4000
SPIN_S = 4.0


def say(**answer: Any) -> None:
    """Write an answer."""
    print(json.dumps(answer), flush=True)


def listen(commands: queue.Queue[dict[str, Any]]) -> None:
    """Read commands, and end the process with its input."""
    for line in sys.stdin:
        commands.put(json.loads(line))
    os._exit(0)


class Client:
    def __init__(self) -> None:
        self.commands: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=listen, args=(self.commands,), daemon=True).start()
        self.cuda = cuda.Cuda()
        self.cuda.attach()

    def proof(self) -> dict[str, Any]:
        """Return the facts that prove the mode of this client."""
        return {
            "pid": os.getpid(),
            "mps": self.cuda.attribute(cuda.MPS_ENABLED),
            "multiprocessors": self.cuda.attribute(cuda.MULTIPROCESSOR_COUNT),
        }

    def work(self, cells: ctypes.c_uint64) -> bool:
        """Run one step; return whether the result is right."""
        self.cuda.clear(cells, BLOCKS * THREADS)
        self.cuda.launch("work", BLOCKS, THREADS, cells, ctypes.c_uint32(ROUNDS))
        self.cuda.synchronize()
        last = cells.value + 4 * (BLOCKS * THREADS - 1)
        return self.cuda.read_word(cells.value) == self.cuda.read_word(last) == ROUNDS

    def victim(self) -> None:
        """Compute until a command comes or CUDA fails."""
        cells = self.cuda.allocate(4 * BLOCKS * THREADS)
        self.work(cells)
        say(ready=True, proof=self.proof())
        steps, wrong, longest, before = 0, 0, 0.0, time.monotonic()
        try:
            while self.commands.empty():
                wrong += not self.work(cells)
                steps += 1
                now = time.monotonic()
                longest, before = max(longest, now - before), now
        except cuda.CudaError as error:
            say(
                at=time.monotonic(), steps=steps, wrong=wrong, code=error.code, error=error.name, longest_step_s=longest
            )
        else:
            say(at=time.monotonic(), steps=steps, wrong=wrong, code=0, error="", longest_step_s=longest)
            if self.commands.get().get("do") == "quit":
                return
        self.wait()

    def wait(self) -> None:
        """Wait for the command to quit."""
        while self.commands.get().get("do") != "quit":
            pass

    def offender(self) -> None:
        """Cause the fault of the next command."""
        say(ready=True, proof=self.proof())
        command = self.commands.get()["do"]
        begun = time.monotonic()
        try:
            if command == "memory":
                self.fill()
            elif command == "spin":
                # Long enough to run when the signal comes.
                self.cuda.launch("spin", 1, 1, ctypes.c_uint64(int(SPIN_S * 1e9)))
                say(launched=True)
            else:
                self.cuda.launch(command, 1, 1)
            self.cuda.synchronize()
            say(at=begun, code=0, error="")
        except cuda.CudaError as error:
            say(at=begun, code=error.code, error=error.name, call=error.call)
        self.wait()

    def fill(self) -> None:
        """Allocate all memory, down to a MiB; the last call fails."""
        size = 1 << 34
        while True:
            try:
                self.cuda.allocate(size)
            except cuda.CudaError as error:
                if error.name != "CUDA_ERROR_OUT_OF_MEMORY" or size <= 1 << 20:
                    raise
                size >>= 1

    def probe(self) -> None:
        """Compute once."""
        cells = self.cuda.allocate(4 * BLOCKS * THREADS)
        say(ready=True, right=self.work(cells), proof=self.proof())

    def hog(self, most: int, piece: int) -> None:
        """Allocate memory in pieces, up to a limit."""
        free, total = self.cuda.memory()
        taken, code, name = 0, 0, ""
        try:
            while taken + piece <= most:
                self.cuda.allocate(piece)
                taken += piece
        except cuda.CudaError as error:
            code, name = error.code, error.name
        say(taken=taken, code=code, error=name, free_at_first=free, total=total, proof=self.proof())


def main(arguments: list[str]) -> int:
    """Run a client by its role."""
    role, *rest = arguments
    try:
        client = Client()
        if role == "hog":
            client.hog(*map(int, rest))
        else:
            {"victim": client.victim, "offender": client.offender, "probe": client.probe}[role]()
    except cuda.CudaError as error:
        say(refused=error.name, code=error.code, call=error.call)
        return 3
    except OSError as error:
        say(problem=str(error))
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
