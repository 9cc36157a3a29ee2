// SPDX-License-Identifier: GPL-3.0-or-later
// A fake, made by Rigwright's tests.
#pragma once
#include <stddef.h>
#include "cudnn_version.h"
size_t cudnnGetVersion(void);
size_t cudnnGetCudartVersion(void);
