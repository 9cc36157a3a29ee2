"""The end of an agent that runs commands on a host: what its client does then."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from harness.sandbox import clients

Frames = list[tuple[int, bytes]]
REQUEST = {"command": "true", "user": "root", "seconds": 1}


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[[Frames], dict[str, object]]:
    """Return the answer to a request when docker sends these frames, then the end."""

    def ask(frames: Frames) -> dict[str, object]:
        monkeypatch.setattr(clients.Agent, "__init__", lambda self: None)
        monkeypatch.setattr(clients.Agent, "send", lambda self, text: None)
        agent = clients.Agent()  # type: ignore[call-arg]
        agent.frames: Iterator[tuple[int, bytes]] = iter(frames)  # type: ignore[misc]
        return agent.ask(REQUEST)

    return ask


def test_an_answer_in_parts_is_put_together(answered: Callable[[Frames], dict[str, object]]) -> None:
    text = json.dumps({"rc": 0, "stdout": "a\nb\n", "stderr": ""}).encode() + b"\n"
    assert answered([(1, text[:9]), (2, b"warning\n"), (1, text[9:])]) == json.loads(text)


@pytest.mark.parametrize(
    "frames", [[], [(1, b'{"rc"')], [(1, b"OCI runtime exec failed: exec failed\r\n")]], ids=["none", "half", "docker"]
)
def test_a_host_that_stops_is_a_connection_error(
    answered: Callable[[Frames], dict[str, object]], frames: Frames
) -> None:
    with pytest.raises(ConnectionError, match="the host stopped during `true`"):
        answered(frames)
