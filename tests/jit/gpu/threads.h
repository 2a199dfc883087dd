/* A kernel whose code is one of threads, for tests of that code: ts_device_threads without the
 * table of kernels that are open. */
#ifndef TESTS_JIT_GPU_THREADS_H
#define TESTS_JIT_GPU_THREADS_H

#include "jit/device/kind.h"

/* NULL with the error. */
static inline void *open_threads(TsDevice *d, const TsTile *k, TsError *why) {
  uint8_t key[32];
  ts_device_kernel_key(k, key);
  return ts_device_threads.open(d, k, key, why);
}

#endif
