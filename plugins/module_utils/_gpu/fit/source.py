# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a job: a model's configuration, and other files of JSON. They are data, and links are refused."""

from __future__ import annotations

import json
import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import directories
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import nets, wording
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit.request import NAME
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

FILE_LIMIT = 4 * 2**20


def read_json(path: str, variable: str) -> t.Any:
    """Read a file of JSON.

    :raises Refusal: it cannot be read, or is none.
    """
    try:
        text = directories.read_file(path, limit=FILE_LIMIT).decode("utf-8-sig")
        return json.loads(text, parse_constant=_no_number)
    except OSError as error:
        if os.path.islink(path) and os.path.isfile(path):
            # The cache of Hugging Face is made of links.
            raise Refusal(
                f"`{variable}`: {path} is a link: give the file behind it, {os.path.realpath(path)}"
            ) from error
        raise Refusal(
            f"`{variable}`: {path} cannot be read ({error.strerror or error}): give a regular file, no link"
        ) from error
    except (ValueError, RecursionError) as error:
        raise Refusal(f"`{variable}`: {path} is no JSON in UTF-8: give a file of JSON") from error


def _no_number(text: str) -> t.NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def is_name(model: str) -> bool:
    """Return whether a model can be a name of torchvision, and is no file."""
    return model.isidentifier() and not os.path.exists(model)


def title(text: str) -> str:
    """Return the end of a text as the name of a job."""
    return wording.printable(text)[-NAME:]


def is_entry(model: str) -> bool:
    """Return whether a model is a Python entry point, PATH:FUNCTION."""
    path, colon, name = model.rpartition(":")
    return bool(colon) and path.endswith(".py") and name.isidentifier()


def described(given: JsonObject, model: str) -> JsonObject:
    """Return a job with the content of its model: a name of torchvision, or the file of a configuration."""
    if not model:
        return dict(given)
    if is_entry(model):
        raise Refusal(
            "`model` is a Python entry point, which is traced alone: give a config.json or a name of torchvision"
        )
    other = sorted({"config", "torchvision"} & set(given))
    if other:
        raise Refusal(f"`model` is given twice, as `{other[0]}` besides: remove one")
    if model in nets.NAMES:
        return {**given, "torchvision": model}
    path = os.path.join(model, "config.json") if os.path.isdir(model) else model
    if model.endswith(".py"):
        raise Refusal(
            f"`model`: {model} is a file of Python: name the function that builds the model, as {model}:build"
        )
    if path != model and not os.path.exists(path):
        raise Refusal(f"`model`: the directory {model} has no config.json: give one that has")
    if not os.path.exists(path) and re.fullmatch(r"[\w-]+/[\w.-]+", model):
        raise Refusal(
            f"`model`: {model} is no file; if it is a model of the Hugging Face Hub, fetch its configuration, and give the file: "
            f"hf download {model} config.json --local-dir {model.partition('/')[2]} (this program uses no network)"
        )
    if not os.path.exists(path):
        near = wording.nearest(model, nets.NAMES)
        raise Refusal(f"`model`: {model} is neither a file nor a name of torchvision; the nearest are {near}")
    stem = os.path.basename(os.path.abspath(path)).rpartition(".")[0]
    # A file of the usual name is in a folder with the name of the model.
    name = os.path.basename(os.path.dirname(os.path.abspath(path))) if stem == "config" else stem
    return {"name": title(name or model), **given, "config": read_json(path, "model")}
