// The CUDA driver's library as far as train_digits.py asks it, with one GPU. Nothing computes on it.
// It stands for the real one only where it is asked which GPUs a program sees.

int cuInit(unsigned flags) { return 0 * flags; }
int cuGetErrorName(int status, const char **name) { *name = status ? "CUDA_ERROR_UNKNOWN" : "CUDA_SUCCESS"; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }

int cuDeviceGetName(char *name, int size, int device) {
  const char *told = "NVIDIA imitation";
  for (int i = 0; i < size && (name[i] = told[i]); ++i);
  return device;
}

int cuDeviceGetUuid(unsigned char uuid[16], int device) {
  for (int i = 0; i < 16; ++i) uuid[i] = i;
  return device;
}
