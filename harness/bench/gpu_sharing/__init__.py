"""What programs that share a GPU cost each other: loads alone, time-sliced and under MPS; limits of memory; who dies with whom."""
