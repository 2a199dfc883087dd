/* What programs share that run kernels with roles on a GPU: numbers, memory, a loaded
 * kernel. */
#ifndef TESTS_JIT_GPU_DEVICE_H
#define TESTS_JIT_GPU_DEVICE_H

#include <stdio.h>
#include <stdlib.h>

#include "devices/driver/cuda_api.h"
#include "jit/gpu/roles.h"

static int failed;
static TsDevice *gpu;
static TsError err;

#define MUST(x)                                                                                \
  do                                                                                           \
    if (x) {                                                                                   \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #x, err.message);                          \
      exit(1);                                                                                 \
    }                                                                                          \
  while (0)

static uint64_t rnd(void) {
  static uint64_t s = 88172645463325252u;
  s ^= s << 13, s ^= s >> 7, s ^= s << 17;
  return s;
}

/* About normal: four uniform numbers. */
static __attribute__((unused)) float normal(void) {
  uint64_t u = rnd();
  int sum = 0;
  for (int i = 0; i < 4; i++) sum += (int)(u >> 16 * i & 0xffff);
  return (float)(sum - 2 * 65535) * (1.7320508f / 65535);
}

static __attribute__((unused)) int by_time(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void *on_device(const void *x, int64_t nbytes) {
  void *at = gpu->alloc(gpu, nbytes + 256, &err);
  MUST(!at);
  if (x) MUST(gpu->upload(gpu, at, x, nbytes, &err));
  return at;
}

typedef struct Loaded {
  TsTile *tile;
  TsGpuRoles info;
  void *module, *function, *scratch;
} Loaded;

/* Takes the kernel over. */
static __attribute__((unused)) Loaded load_tile(TsTile *tile) {
  Loaded k = {.tile = tile};
  TsText ptx = {0};
  MUST(!tile);
  MUST(ts_gpu_roles_text(tile, false, &k.info, &ptx, &err));
  MUST(gpu->run->module_new(gpu, ptx.at, ptx.len + 1, &k.module, &err));
  MUST(gpu->run->kernel(gpu, k.module, k.info.name, (int)k.info.shared, &k.function, &err));
  ts_text_free(&ptx);
  if (k.info.scratch) {
    void *zeros = calloc(1, (size_t)k.info.scratch);
    k.scratch = on_device(zeros, k.info.scratch);
    free(zeros);
  }
  return k;
}

static __attribute__((unused)) void unload_tile(Loaded *k) {
  gpu->run->module_free(gpu, k->module);
  if (k->scratch) gpu->free(gpu, k->scratch, k->info.scratch + 256);
  ts_tile_free(k->tile);
}

/* Queued. */
static __attribute__((unused)) void launch_tile(const Loaded *k, void *const *arg,
                                                const int64_t *dim) {
  MUST(ts_gpu_roles_launch(gpu, k->function, k->tile, &k->info, arg, k->scratch, dim, &err));
}

#endif
