// SPDX-License-Identifier: GPL-3.0-or-later
// A fake, made by Rigwright's tests.
#pragma once
#define CUDNN_MAJOR (@number@ / 10000)
#define CUDNN_MINOR (@number@ / 100 % 100)
#define CUDNN_PATCHLEVEL (@number@ % 100)
#define CUDNN_VERSION @number@
