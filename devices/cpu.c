/* The CPU as a device. cpu:1.. of --devices cpu:N share its threads and have
 * allocations of their own, so that residency and meshes work without a GPU. */
#include <stdio.h>
#include <string.h>

#include "devices/backends.h"
#include "devices/cpu_pool.h"
#include "devices/memory.h"

static void *cpu_alloc(TsDevice *d, int64_t nbytes, TsError *err) {
  void *at = ts_memory_alloc(nbytes);
  if (!at) return ts_device_full(d, nbytes, err), NULL;
  d->live += nbytes;
  if (d->live > d->peak) d->peak = d->live;
  return at;
}

static void cpu_free(TsDevice *d, void *at, int64_t nbytes) {
  d->live -= nbytes;
  ts_memory_free(at, nbytes);
}

static int cpu_copy(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err) {
  (void)d, (void)err;
  memcpy(to, from, (size_t)nbytes);
  return 0;
}

static void cpu_describe(TsDevice *d, char *text, int size) {
  snprintf(text, (size_t)size, "%d threads, %.1f MiB in tensors, %.1f MiB at most",
           ts_cpu_threads(), (double)d->live / 1048576, (double)d->peak / 1048576);
}

void ts_cpu_device(TsDevice *d) {
  d->host_memory = d->runs_kernels = true;
  d->alloc = cpu_alloc;
  d->free = cpu_free;
  d->upload = cpu_copy;
  d->download = cpu_copy;
  d->describe = cpu_describe;
}
