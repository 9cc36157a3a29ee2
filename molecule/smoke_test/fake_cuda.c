// A fake of the CUDA driver's library, with one GPU, for the calls of train_digits.py. Nothing computes on it.
// It only lists the GPUs that a program sees.

int cuInit(unsigned flags) { return 0 * flags; }
int cuGetErrorName(int status, const char **name) { *name = status ? "CUDA_ERROR_UNKNOWN" : "CUDA_SUCCESS"; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }

int cuDeviceGetName(char *name, int size, int device) {
  const char *text = "NVIDIA fake";
  for (int i = 0; i < size && (name[i] = text[i]); ++i);
  return device;
}

int cuDeviceGetUuid(unsigned char uuid[16], int device) {
  for (int i = 0; i < 16; ++i) uuid[i] = i;
  return device;
}
