/* The kernels that plans share. */
#include <stdlib.h>
#include <string.h>

#include "jit/offload_state.h"

static Shared *add(TsOffloader *o, TsDevice *d, const uint8_t key[32], TsDeviceKernel *kernel) {
  Shared *s = calloc(1, sizeof *s), **at = &o->shared[(key[0] | key[1] << 8) % OFFLOAD_BUCKETS];
  if (!s) return NULL;
  *s = (Shared){.next = *at, .device = d->index, .kernel = kernel};
  memcpy(s->key, key, sizeof s->key);
  o->stats.kernels++;
  o->stats.cached += ts_device_kernel_cached(kernel);
  return *at = s;
}

TsDeviceKernel *ts_offload_kernel(TsOffloader *o, TsDevice *d, const TsTile *k, TsError *err) {
  uint8_t key[32];
  ts_device_kernel_key(d, k, key);
  for (Shared *s = o->shared[(key[0] | key[1] << 8) % OFFLOAD_BUCKETS]; s; s = s->next)
    if (s->device == d->index && !memcmp(s->key, key, sizeof key)) return s->kernel;
  TsDeviceKernel *kernel = ts_device_kernel_open(d, k, err);
  if (!kernel || add(o, d, key, kernel)) return kernel;
  ts_device_kernel_free(kernel);
  return ts_error_set(err, TS_ERR_memory, "out of memory"), NULL;
}

void ts_offload_drop_kernels(TsOffloader *o) {
  for (int i = 0; i < OFFLOAD_BUCKETS; i++) {
    for (Shared *s = o->shared[i], *next; s; s = next) {
      next = s->next;
      ts_device_kernel_free(s->kernel);
      free(s);
    }
    o->shared[i] = NULL;
  }
}
