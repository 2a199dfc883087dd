/* See jit/launch/dependent.h. */
#include "jit/launch/dependent.h"

#include "ir/tile/ahead.h"

enum { MOST = 16 /* pieces that a launch writes */ };

/* Of a device, whose launches come from one thread. */
typedef struct Last {
  bool known;
  uint64_t queued;  /* of the device, behind it */
  uint64_t skipped; /* of the device, before it */
  int n;
  TsAccess wrote[MOST];
} Last;

static Last last[TS_MAX_DEVICES];

static Last *of(const TsDevice *d) { return &last[d->index]; }

/* What a parameter at this address is of; NULL: that was not said. */
static const TsAccess *access_of(const TsAccesses *a, const void *at) {
  for (int i = 0; i < a->n; i++)
    if ((uintptr_t)at - a->of[i].at < a->of[i].nbytes) return &a->of[i];
  return NULL;
}

bool ts_dependent_may(const TsAccesses *before, const TsAccesses *a, const TsDependentRun *r) {
  if (before->n < 0 || a->n <= 0) return false;
  uint64_t ahead = ts_device_kernel_ahead(r->kernel, r->arg, r->dim);
  if (ahead == TS_TILE_AHEAD_ALL) return !ts_access_meet(before, a);
  for (int i = 0; i < 64; i++) {
    if (!(ahead >> i & 1)) continue;
    const TsAccess *read = access_of(a, r->arg[i]);
    if (!read || ts_access_meet(before, &(TsAccesses){read, 1})) return false;
  }
  return true;
}

void ts_dependent_begin(TsDevice *d, const TsAccesses *a, const TsDependentRun *r) {
  Last *l = of(d);
  bool known = l->known && l->queued == d->queued && a->n > 0;
  d->dependent = known && ts_dependent_may(&(TsAccesses){l->wrote, l->n}, a, r);
  l->queued = d->queued, l->skipped = d->skipped;
}

void ts_dependent_end(TsDevice *d, const TsAccesses *a, bool failed) {
  Last *l = of(d);
  d->dependent = false;
  l->n = 0;
  l->known = !failed && a->n > 0 && l->queued != d->queued && l->skipped == d->skipped;
  l->queued = d->queued;
  for (int i = 0; i < a->n && l->known; i++) {
    if (!a->of[i].write) continue;
    l->known = l->n < MOST;
    if (l->known) l->wrote[l->n++] = a->of[i];
  }
}
