/* The kernels that plans share. */
#include <stdlib.h>
#include <string.h>

#include "jit/eager/state.h"

static Shared **bucket(TsOffloader *o, const uint8_t key[32]) {
  return &o->shared[(key[0] | key[1] << 8) % OFFLOAD_BUCKETS];
}

static const Shared *find(TsOffloader *o, const TsDevice *d, const uint8_t key[32]) {
  const Shared *s = *bucket(o, key);
  while (s && (s->device != d->index || memcmp(s->key, key, sizeof s->key))) s = s->next;
  return s;
}

/* The kernel is the table's, or freed for want of memory. */
static TsDeviceKernel *added(TsOffloader *o, const TsDevice *d, const uint8_t key[32],
                             TsDeviceKernel *kernel, TsError *err) {
  Shared *s = calloc(1, sizeof *s), **at = bucket(o, key);
  if (!s) {
    ts_device_kernel_free(kernel);
    return ts_error_memory(err), NULL;
  }
  *s = (Shared){.next = *at, .device = d->index, .kernel = kernel};
  memcpy(s->key, key, sizeof s->key);
  o->stats.kernels++;
  o->stats.cached += ts_device_kernel_cached(kernel);
  *at = s;
  return kernel;
}

/* One that could not be compiled is none. */
static TsDeviceKernel *found(const Shared *s, bool later, TsError *err) {
  if (later && !ts_device_kernel_ready(s->kernel)) return s->kernel;
  return ts_device_kernel_wait(s->kernel, err) ? NULL : s->kernel;
}

bool ts_offload_can(TsOffloader *o, int op, int device, TsDeviceKernel **k) {
  TsError err;
  if (!ts_device_kernel_ready(*k) && ts_offload_brief(o)) return o->stats.meanwhile++, false;
  if (!ts_device_kernel_ready(*k) && ts_offload_unhurried(o) && ts_device_kernel_stands_in(*k))
    return o->stats.meanwhile++, true;
  if (o->launches.prepares && o->at.call) return true; /* it is not launched */
  if (!ts_device_kernel_wait(*k, &err)) return true;
  o->stats.refused++;
  ts_offload_refused(o, (TsOp)op, device, err.message);
  *k = NULL;
  return false;
}

static TsDeviceKernel *open_kernel(TsOffloader *o, TsDevice *d, const TsTile *k, bool later,
                                   TsError *err) {
  uint8_t key[32];
  bool brief = ts_offload_brief(o);
  TsOpening how = {.soon = !brief, .known_now = !brief && !o->launches.prepares};
  ts_device_kernel_key(k, key);
  const Shared *s = find(o, d, key);
  if (s) return found(s, later, err);
  TsDeviceKernel *kernel = later ? ts_device_kernel_open_later(d, k, key, o->queue, how, err)
                                 : ts_device_kernel_open_as(d, k, key, err);
  return kernel ? added(o, d, key, kernel, err) : NULL;
}

TsDeviceKernel *ts_offload_kernel(TsOffloader *o, TsDevice *d, const TsTile *k, TsError *err) {
  bool side_by_side = k->sequence && ts_offload_defers(o);
  bool later =
      ts_offload_brief(o) || ts_offload_unhurried(o) || side_by_side || o->launches.prepares;
  return open_kernel(o, d, k, later, err);
}

TsDeviceKernel *ts_offload_kernel_later(TsOffloader *o, TsDevice *d, const TsTile *k,
                                        TsError *err) {
  return open_kernel(o, d, k, ts_offload_defers(o), err);
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
