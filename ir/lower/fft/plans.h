/* Where plans of transforms (lib/fft.h) come from: the VM makes them, with its own kernels,
 * and keeps them for its own transforms, and ir must not name the VM. So here is what
 * kernels of transforms ask for, and who opens a context says who answers; tables of all
 * instruction sets have the same bits. */
#ifndef TS_IR_LOWER_FFT_PLANS_H
#define TS_IR_LOWER_FFT_PLANS_H

#include "lib/fft.h"

/* take: NULL without memory, or if it was interrupted; each is given back. Any thread. */
typedef struct TsFftPlans {
  TsFftPlan *(*take)(int type, int what, int64_t n);
  void (*give)(TsFftPlan *p);
} TsFftPlans;

/* p is kept. */
void ts_fft_plans_use(const TsFftPlans *p);
/* As of the table; take gives NULL, too, where nobody answers. */
TsFftPlan *ts_fft_plans_take(int type, int what, int64_t n);
void ts_fft_plans_give(TsFftPlan *p); /* NULL is fine */

#endif
