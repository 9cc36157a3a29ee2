# SPDX-License-Identifier: GPL-3.0-or-later
"""What would make a job fit."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import answer, cards, cures, memory

from tests.unit.support.gpu_fit import job


def test_what_costs_nothing_comes_first() -> None:
    request = job(batch=4, sequence=2048)
    found = cures.cures(request, "formula", 20 * 2**30)
    assert found[0]["option"] == "--chunked-loss"
    assert all(row["saves_bytes"] > 0 for row in found)
    need, options = (
        memory.estimate(request),
        {"chunked_loss": True, "optimizer_in_backward": True, "checkpointing": True},
    )
    assert need.high - found[0]["saves_bytes"] == memory.estimate(job(batch=4, sequence=2048, chunked_loss=True)).high
    assert memory.estimate(job(batch=4, sequence=2048, **options)).high < need.high - found[0]["saves_bytes"]


def test_a_job_that_fits_needs_none() -> None:
    assert cures.cures(job(), "formula", 2**40) == []


def test_nothing_is_said_where_nothing_helps() -> None:
    assert cures.cures(job(task="infer", batch=1), "formula", 2**20) == []


def test_a_network_of_images_has_a_smaller_batch() -> None:
    found = cures.cures(job(torchvision="resnet50", batch=512, dtype="amp"), "table", 20 * 2**30)
    assert [row["option"] for row in found] == ["--batch 256"]


def test_the_answer_for_a_card_names_the_cures() -> None:
    notes = answer.estimate(job(batch=4, sequence=2048), [cards.find("RTX 4090")])["cards"][0]["notes"]
    assert any(note.startswith("on RTX 4090 it surely fits with --chunked-loss (saves") for note in notes)
