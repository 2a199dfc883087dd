/* What reductions are, for the VM and for kernels. */
#ifndef TS_LIB_REDUCE_H
#define TS_LIB_REDUCE_H

#include "lib/dtype.h"

/* Elements of a leaf of the canonical order, and its lanes. */
enum { TS_RED_LEAF = 4096, TS_RED_LANES_f32 = 256, TS_RED_LANES_f64 = 128 };

/* Squares of large numbers leave the type where a variance, its root or a norm does not. Such
 * a result, one that is not finite, is made once more of elements times a power of two that
 * even the largest sum of squares of them fits, and scaled back. */
static inline double ts_reduce_small(TsDtype d) { return d == TS_DT_f64 ? 0x1p-600 : 0x1p-80; }

#endif
