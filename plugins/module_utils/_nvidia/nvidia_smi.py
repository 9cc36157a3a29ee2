# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How nvidia-smi ends."""

from __future__ import annotations

# It did what it was asked, and the settings that a card keeps itself are damaged (nvidia-smi(1), RETURN VALUE). gpu_health reports that.
DAMAGED_INFOROM = 14
DONE = (0, DAMAGED_INFOROM)
