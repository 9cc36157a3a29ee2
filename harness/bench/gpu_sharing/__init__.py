"""The cost of sharing a GPU: loads alone, time-sliced and under MPS; memory limits; the effect of a crash on other programs."""
