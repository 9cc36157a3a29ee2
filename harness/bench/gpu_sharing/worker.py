"""A program that computes: it reads commands from standard input, a line of JSON each, and answers each with a line on standard output.

{"do": "load", "load": "R32"}  build and warm up
{"do": "run"}                  step until the next line comes; answers when the first block of steps is done
{"do": "stop"}                 the answer has the stamps: [host's monotonic clock, steps done so far] after each block
{"do": "unload"}, {"do": "quit"}

It ends with its standard input, so that no worker outlives the bench. Its first line is its proof of mode.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from harness.bench.gpu_sharing import cuda, loads

# Seconds of warm-up, and between two stamps: short enough to fit a window, long enough that stamping costs nothing.
WARM_UP_S = 1.0
WARM_UP_STEPS = 5
BLOCK_S = 0.06
THREADS = 4

Answer = dict[str, Any]


class Worker:
    def __init__(self, say: Callable[[Answer], None], commands: queue.Queue[Answer]) -> None:
        self.say, self.commands = say, commands
        self.load = ""
        self.step: loads.Step | None = None
        self.torch: Any = None
        self.chunk = 1

    def use_gpu(self) -> None:
        """Import PyTorch and create a context, so that no later command has to."""
        self.torch = importlib.import_module("torch")
        self.torch.set_num_threads(THREADS)
        if self.torch.cuda.is_available():
            first = self.torch.ones(64, 64, device="cuda", dtype=self.torch.bfloat16)
            (first @ first).sum().item()

    def mark(self) -> Callable[[], Any]:
        """Return a function that waits until the steps so far are done. The caller waits one block later, so that the GPU is never idle."""
        if self.torch is None or not self.torch.cuda.is_available():
            return lambda: None
        event = self.torch.cuda.Event()
        event.record()
        return event.synchronize  # type: ignore[no-any-return]

    def prepare(self, load: str) -> Answer:
        """Build a load, and warm up."""
        begun = time.monotonic()
        self.unload()
        self.step = loads.build(load)
        self.load = load
        for _step in range(WARM_UP_STEPS):
            value = self.step()
        self.mark()()
        seconds = WARM_UP_S if self.torch is not None else BLOCK_S
        warm, steps = time.monotonic(), 0
        while steps < WARM_UP_STEPS or time.monotonic() - warm < seconds:
            value = self.step()
            steps += 1
            if steps % WARM_UP_STEPS == 0:
                self.mark()()
        self.mark()()
        self.chunk = max(1, round(BLOCK_S / ((time.monotonic() - warm) / steps)))
        value = float(value.detach().float().mean()) if hasattr(value, "detach") else float(value)
        answer = {"load": load, "seconds": time.monotonic() - begun, "value": value, "finite": math.isfinite(value)}
        if self.torch is not None and self.torch.cuda.is_available():
            answer["memory_gib"] = self.torch.cuda.memory_reserved() / 1024**3
            answer["peak_memory_gib"] = self.torch.cuda.max_memory_reserved() / 1024**3
        return answer

    def run(self) -> Answer:
        """Step until the next command."""
        if self.step is None:
            return {"problem": "nothing is loaded"}
        pause = loads.PAUSE_S.get(self.load, 0)
        stamps: list[tuple[float, int]] = []
        latencies: list[tuple[float, float]] = []
        steps = 0
        waiting: list[tuple[Callable[[], Any], int]] = []
        while self.commands.empty():
            for _step in range(self.chunk):
                value = self.step()
                if pause:
                    latencies.append((time.monotonic(), value))
                    time.sleep(pause)
            steps += self.chunk
            waiting.append((self.mark(), steps))
            if len(waiting) == 2:
                wait, done = waiting.pop(0)
                wait()
                if not stamps:
                    self.say({"running": self.load})
                stamps.append((time.monotonic(), done))
        for wait, done in waiting:
            wait()
            stamps.append((time.monotonic(), done))
        self.commands.get()
        return {"load": self.load, "stamps": stamps, "latencies": latencies}

    def unload(self) -> Answer:
        """Release the load."""
        if self.step is not None:
            self.step = None
            self.load = ""
            if self.torch is not None:
                loads.free()
        return {"unloaded": True}

    def serve(self) -> None:
        """Carry out commands until `quit`."""
        actions: dict[str, Callable[[Answer], Answer]] = {
            "load": lambda command: self.prepare(command["load"]),
            "run": lambda _asked: self.run(),
            "unload": lambda _asked: self.unload(),
        }
        while True:
            command = self.commands.get()
            if command["do"] == "quit":
                return
            if command["do"] in actions:
                self.say(actions[command["do"]](command))


def read(commands: queue.Queue[Answer]) -> None:
    """Read commands, and end the process with its input."""
    for line in sys.stdin:
        commands.put(json.loads(line))
    # The bench has ended. A wait for the GPU may never end, so nothing is cleaned up.
    os._exit(0)


def main(arguments: list[str]) -> int:
    """Run the worker."""
    # Output of libraries goes to standard error: only answers go to standard output.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def say(answer: Answer) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    commands: queue.Queue[Answer] = queue.Queue()
    threading.Thread(target=read, args=(commands,), daemon=True).start()
    worker = Worker(say, commands)
    try:
        if "--gpu" in arguments:
            worker.use_gpu()
        say({"ready": True, "proof": cuda.proof(), "torch": getattr(worker.torch, "__version__", None)})
        worker.serve()
    except Exception as error:  # noqa: BLE001 - whatever it was, the bench is to read it
        say({"problem": f"{type(error).__name__}: {error}".splitlines()[0]})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
