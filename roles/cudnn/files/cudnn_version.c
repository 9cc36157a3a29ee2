/* Prints the version in the headers and that of the library that is really loaded; exit status 1 when they differ. */

#include <stddef.h>
#include <stdio.h>

#include <cudnn_version.h>

/* cudnn.h declares it too, but wants CUDA's headers, which a host without a toolkit does not have. */
size_t cudnnGetVersion(void);

int main(void) {
  size_t library = cudnnGetVersion();
  printf("headers: %d\nlibrary: %zu\n", CUDNN_VERSION, library);
  return library == CUDNN_VERSION ? 0 : 1;
}
