/* The device that accepts everything and runs nothing: it keeps bytes where CPU
 * kernels may not look, so that tests can prove who moved them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/backends.h"
#include "devices/memory.h"

static void *null_alloc(TsDevice *d, int64_t nbytes, TsError *err) {
  void *at = ts_memory_should_fail() ? NULL : malloc(nbytes ? (size_t)nbytes : 1);
  if (!at) return ts_device_full(d, nbytes, err), NULL;
  d->live += nbytes;
  if (d->live > d->peak) d->peak = d->live;
  return ts_memory_spoiled(at, nbytes);
}

static void null_free(TsDevice *d, void *at, int64_t nbytes) {
  d->live -= nbytes;
  free(at);
}

static int null_copy(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err) {
  (void)d, (void)err;
  memcpy(to, from, (size_t)nbytes);
  return 0;
}

static void null_describe(TsDevice *d, char *text, int size) {
  snprintf(text, (size_t)size, "keeps tensors, runs nothing; %lld bytes", (long long)d->live);
}

void ts_null_device(TsDevice *d) {
  d->alloc = null_alloc;
  d->free = null_free;
  d->upload = null_copy;
  d->download = null_copy;
  d->describe = null_describe;
}
