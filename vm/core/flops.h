/* Floating-point operations of one call, as they are counted for rates: a multiply-add is two. */
#ifndef TS_VM_FLOPS_H
#define TS_VM_FLOPS_H

#include "lib/op.h"

/* in: NULL for an absent input; out: the first result. 0 where nothing is counted for the operator.
 * Products, convolutions: 2 a multiply-add, also with what is masked or padded. Attention: its two
 * products, and five in its gradient. Transforms: 5 n log2 n each, as their authors count
 * (fftw.org/speed). Element by element: one an element. */
double ts_flops(TsOp op, int nin, const TsMeta *const *in, const TsMeta *out);

#endif
