/* Who looks at what a kernel is given before it runs: the debugger of kernels. */
#ifndef TS_JIT_CATCH_H
#define TS_JIT_CATCH_H

#include <string.h>

#include "devices/device.h"
#include "lib/error.h"

typedef struct TsCatch {
  uint8_t key[32]; /* of ts_kernel_digest */
  void *with;
  /* d NULL: the CPU. arg: as of the kernel, on its device. */
  int (*look)(void *with, TsDevice *d, void *const *arg, const int64_t *dim, TsError *err);
} TsCatch;

/* NULL: nobody. The program's thread sets it, and its runs look at it. */
extern const TsCatch *ts_catch;

static inline bool ts_catch_wants(const uint8_t key[32]) {
  return ts_catch && !memcmp(ts_catch->key, key, sizeof ts_catch->key);
}

#endif
