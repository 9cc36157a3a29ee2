// Asks every GPU what it is, and has it work: copies that are timed, and a kernel whose result is checked.
//
//   nvcc -o device_query device_query.cu && ./device_query
//
// One `name: value` a line. Exit status 0: every device works; 1: one does not; 2: there is no device, or no driver for this
// toolkit. It needs CUDA 11 or newer, and takes memory with plain cudaMalloc.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

namespace {

constexpr int kNoDevice = 2;
constexpr size_t kCopyBytes = 256u << 20;
constexpr int kCopies = 10;
constexpr int kElements = 1 << 20;

void check(cudaError_t status, const char *what) {
  if (status != cudaSuccess) {
    std::fprintf(stderr, "%s: %s (%s)\n", what, cudaGetErrorString(status), cudaGetErrorName(status));
    std::exit(1);
  }
}

// y = a x + y, in whole numbers that a float holds exactly.
__global__ void saxpy(int n, float a, const float *x, float *y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

void print_properties(int device) {
  cudaDeviceProp p;
  check(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties");
  char address[32];
  check(cudaDeviceGetPCIBusId(address, sizeof address, device), "cudaDeviceGetPCIBusId");
  size_t free_bytes = 0, total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");

  std::printf("name: %s\n", p.name);
  std::printf("uuid: GPU-");
  for (int i = 0; i < 16; ++i)
    std::printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", static_cast<unsigned char>(p.uuid.bytes[i]));
  std::printf("\npci_address: %s\n", address);
  std::printf("compute_capability: %d.%d\n", p.major, p.minor);
  std::printf("memory_total_bytes: %zu\n", p.totalGlobalMem);
  std::printf("memory_free_bytes: %zu\n", free_bytes);
  std::printf("memory_bus_width_bits: %d\n", p.memoryBusWidth);
  // Clocks are attributes: CUDA 13 has taken them out of cudaDeviceProp.
  std::printf("memory_clock_khz: %d\n", attribute(cudaDevAttrMemoryClockRate, device));
  std::printf("clock_khz: %d\n", attribute(cudaDevAttrClockRate, device));
  std::printf("ecc: %d\n", p.ECCEnabled);
  std::printf("multiprocessors: %d\n", p.multiProcessorCount);
  std::printf("l2_cache_bytes: %d\n", p.l2CacheSize);
  std::printf("constant_memory_bytes: %zu\n", p.totalConstMem);
  std::printf("warp_size: %d\n", p.warpSize);
  std::printf("registers_per_block: %d\n", p.regsPerBlock);
  std::printf("registers_per_multiprocessor: %d\n", p.regsPerMultiprocessor);
  std::printf("shared_memory_per_block_bytes: %zu\n", p.sharedMemPerBlock);
  std::printf("shared_memory_per_block_optin_bytes: %zu\n", p.sharedMemPerBlockOptin);
  std::printf("shared_memory_per_multiprocessor_bytes: %zu\n", p.sharedMemPerMultiprocessor);
  std::printf("threads_per_block: %d\n", p.maxThreadsPerBlock);
  std::printf("threads_per_multiprocessor: %d\n", p.maxThreadsPerMultiProcessor);
  std::printf("block_size: %d %d %d\n", p.maxThreadsDim[0], p.maxThreadsDim[1], p.maxThreadsDim[2]);
  std::printf("grid_size: %d %d %d\n", p.maxGridSize[0], p.maxGridSize[1], p.maxGridSize[2]);
  std::printf("copy_engines: %d\n", p.asyncEngineCount);
  std::printf("concurrent_kernels: %d\n", p.concurrentKernels);
  std::printf("cooperative_launch: %d\n", p.cooperativeLaunch);
  std::printf("compute_mode: %d\n", attribute(cudaDevAttrComputeMode, device));
  std::printf("unified_addressing: %d\n", p.unifiedAddressing);
  std::printf("managed_memory: %d\n", p.managedMemory);
  std::printf("integrated: %d\n", p.integrated);
}

// GB/s of a copy of which every byte moves *times* times: twice on the device, where it is read and written.
double bandwidth(void *to, const void *from, int times) {
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  check(cudaMemcpyAsync(to, from, kCopyBytes, cudaMemcpyDefault), "cudaMemcpyAsync");  // warm up
  check(cudaEventRecord(start), "cudaEventRecord");
  for (int i = 0; i < kCopies; ++i) check(cudaMemcpyAsync(to, from, kCopyBytes, cudaMemcpyDefault), "cudaMemcpyAsync");
  check(cudaEventRecord(stop), "cudaEventRecord");
  check(cudaEventSynchronize(stop), "cudaEventSynchronize");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start, stop), "cudaEventElapsedTime");
  check(cudaEventDestroy(start), "cudaEventDestroy");
  check(cudaEventDestroy(stop), "cudaEventDestroy");
  return static_cast<double>(kCopyBytes) * kCopies * times / (milliseconds * 1e6);
}

char pattern(size_t i) { return static_cast<char>((i * 2654435761u) >> 24); }

// Returns whether what was copied to the device and from there comes back as it was.
bool measure_copies() {
  char *host = nullptr, *a = nullptr, *b = nullptr;
  check(cudaMallocHost(&host, kCopyBytes), "cudaMallocHost");
  check(cudaMalloc(&a, kCopyBytes), "cudaMalloc");
  check(cudaMalloc(&b, kCopyBytes), "cudaMalloc");
  for (size_t i = 0; i < kCopyBytes; ++i) host[i] = pattern(i);
  // From the host to a, from a to b, from b to the host: each place is cleared before it is written.
  check(cudaMemset(a, 0, kCopyBytes), "cudaMemset");
  std::printf("copy_to_device_gb_per_s: %.1f\n", bandwidth(a, host, 1));
  check(cudaMemset(b, 0, kCopyBytes), "cudaMemset");
  std::printf("copy_on_device_gb_per_s: %.1f\n", bandwidth(b, a, 2));
  std::memset(host, 0, kCopyBytes);
  std::printf("copy_from_device_gb_per_s: %.1f\n", bandwidth(host, b, 1));
  bool same = true;
  for (size_t i = 0; i < kCopyBytes; ++i) same = same && host[i] == pattern(i);
  check(cudaFree(a), "cudaFree");
  check(cudaFree(b), "cudaFree");
  check(cudaFreeHost(host), "cudaFreeHost");
  return same;
}

bool run_kernel() {
  std::vector<float> x(kElements), y(kElements);
  for (int i = 0; i < kElements; ++i) {
    x[i] = static_cast<float>(i % 1000);
    y[i] = static_cast<float>(i % 77);
  }
  float *dx = nullptr, *dy = nullptr;
  const size_t bytes = kElements * sizeof(float);
  check(cudaMalloc(&dx, bytes), "cudaMalloc");
  check(cudaMalloc(&dy, bytes), "cudaMalloc");
  check(cudaMemcpy(dx, x.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  check(cudaMemcpy(dy, y.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  saxpy<<<(kElements + 255) / 256, 256>>>(kElements, 3.0f, dx, dy);
  check(cudaGetLastError(), "launch of the kernel");
  check(cudaDeviceSynchronize(), "kernel");
  std::vector<float> result(kElements);
  check(cudaMemcpy(result.data(), dy, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  check(cudaFree(dx), "cudaFree");
  check(cudaFree(dy), "cudaFree");
  for (int i = 0; i < kElements; ++i)
    if (result[i] != 3.0f * x[i] + y[i]) return false;
  return true;
}

void print_version(const char *name, int version) {
  std::printf("%s: %d.%d\n", name, version / 1000, version % 1000 / 10);
}

}  // namespace

int main() {
  int driver = 0, runtime = 0, count = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  print_version("driver_supports_cuda", driver);  // 0.0: no driver
  print_version("runtime_cuda", runtime);
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    std::printf("devices: 0\n");
    std::fprintf(stderr, "no device can be used: %s\n", cudaGetErrorString(status));
    return kNoDevice;
  }
  std::printf("devices: %d\n", count);
  bool good = true;
  for (int device = 0; device < count; ++device) {
    std::printf("\ndevice: %d\n", device);
    check(cudaSetDevice(device), "cudaSetDevice");
    print_properties(device);
    const bool copied = measure_copies();
    const bool computed = run_kernel();
    std::printf("copy_check: %s\nkernel_check: %s\n", copied ? "passed" : "FAILED", computed ? "passed" : "FAILED");
    good = good && copied && computed;
  }
  return good ? 0 : 1;
}
