/* Has cuDNN convolve an image on the first GPU and compares the result with one computed here. Exit status 0: equal. */

#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime.h>
#include <cudnn.h>

enum { CHANNELS = 3, SIDE = 32, FILTERS = 4, KERNEL = 3, OUT = SIDE - KERNEL + 1 };

static int last;

static void ends(const char *words, const char *call) {
  fprintf(stderr, "%s: %s\n", call, words);
  exit(1);
}

#define CUDA(call) \
  if ((last = (int)(call)) != cudaSuccess) ends(cudaGetErrorString((cudaError_t)last), #call)
#define CUDNN(call) \
  if ((last = (int)(call)) != CUDNN_STATUS_SUCCESS) ends(cudnnGetErrorString((cudnnStatus_t)last), #call)

int main(void) {
  static float image[CHANNELS][SIDE][SIDE], filters[FILTERS][CHANNELS][KERNEL][KERNEL];
  static float result[FILTERS][OUT][OUT];
  /* Small whole numbers: their sums are exact in any order, also in the lower precision of tensor cores. */
  for (int c = 0; c < CHANNELS; ++c)
    for (int y = 0; y < SIDE; ++y)
      for (int x = 0; x < SIDE; ++x) image[c][y][x] = (float)((7 * c + 3 * y + x) % 11 - 5);
  for (int f = 0; f < FILTERS; ++f)
    for (int c = 0; c < CHANNELS; ++c)
      for (int y = 0; y < KERNEL; ++y)
        for (int x = 0; x < KERNEL; ++x) filters[f][c][y][x] = (float)((5 * f + 2 * c + y + x) % 7 - 3);

  cudnnHandle_t cudnn;
  cudnnTensorDescriptor_t in, out;
  cudnnFilterDescriptor_t weights;
  cudnnConvolutionDescriptor_t convolution;
  CUDNN(cudnnCreate(&cudnn));
  CUDNN(cudnnCreateTensorDescriptor(&in));
  CUDNN(cudnnCreateTensorDescriptor(&out));
  CUDNN(cudnnCreateFilterDescriptor(&weights));
  CUDNN(cudnnCreateConvolutionDescriptor(&convolution));
  CUDNN(cudnnSetTensor4dDescriptor(in, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, CHANNELS, SIDE, SIDE));
  CUDNN(cudnnSetTensor4dDescriptor(out, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, FILTERS, OUT, OUT));
  CUDNN(cudnnSetFilter4dDescriptor(weights, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, FILTERS, CHANNELS, KERNEL, KERNEL));
  CUDNN(cudnnSetConvolution2dDescriptor(convolution, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  const cudnnConvolutionFwdAlgo_t algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  size_t needed = 0;
  CUDNN(cudnnGetConvolutionForwardWorkspaceSize(cudnn, in, weights, convolution, out, algorithm, &needed));

  void *d_image, *d_filters, *d_result, *workspace;
  CUDA(cudaMalloc(&d_image, sizeof image));
  CUDA(cudaMalloc(&d_filters, sizeof filters));
  CUDA(cudaMalloc(&d_result, sizeof result));
  CUDA(cudaMalloc(&workspace, needed ? needed : 1));
  CUDA(cudaMemcpy(d_image, image, sizeof image, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpy(d_filters, filters, sizeof filters, cudaMemcpyHostToDevice));
  const float one = 1, zero = 0;
  CUDNN(cudnnConvolutionForward(cudnn, &one, in, d_image, weights, d_filters, convolution, algorithm, workspace, needed, &zero, out,
                                d_result));
  CUDA(cudaMemcpy(result, d_result, sizeof result, cudaMemcpyDeviceToHost));

  for (int f = 0; f < FILTERS; ++f)
    for (int y = 0; y < OUT; ++y)
      for (int x = 0; x < OUT; ++x) {
        float sum = 0;
        for (int c = 0; c < CHANNELS; ++c)
          for (int j = 0; j < KERNEL; ++j)
            for (int i = 0; i < KERNEL; ++i) sum += image[c][y + j][x + i] * filters[f][c][j][i];
        if (result[f][y][x] != sum) {
          printf("filter %d, row %d, column %d: %g, and not %g\n", f, y, x, result[f][y][x], sum);
          return 1;
        }
      }
  printf("cudnn: %zu\nconvolution: passed, %d values equal\n", cudnnGetVersion(), FILTERS * OUT * OUT);
  return 0;
}
