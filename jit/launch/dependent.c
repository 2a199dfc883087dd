/* See jit/launch/dependent.h. */
#include "jit/launch/dependent.h"

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

void ts_dependent_begin(TsDevice *d, const TsAccesses *a) {
  Last *l = of(d);
  bool known = l->known && l->queued == d->queued && a->n > 0;
  d->dependent = known && !ts_access_meet(&(TsAccesses){l->wrote, l->n}, a);
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
