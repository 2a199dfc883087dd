/* See ir/lower/fft/plans.h. */
#include "ir/lower/fft/plans.h"

#include <stdatomic.h>

static _Atomic(const TsFftPlans *) plans;

void ts_fft_plans_use(const TsFftPlans *p) { atomic_store(&plans, p); }

TsFftPlan *ts_fft_plans_take(int type, int what, int64_t n) {
  const TsFftPlans *p = atomic_load(&plans);
  return p ? p->take(type, what, n) : NULL;
}

void ts_fft_plans_give(TsFftPlan *p) {
  if (p) atomic_load(&plans)->give(p);
}
