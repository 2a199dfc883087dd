/* Numbers of floats narrower than f64, one by one: what kernels ask of a type when they are
 * made. */
#ifndef TS_LIB_NARROW_H
#define TS_LIB_NARROW_H

#include "lib/dtype.h"

/* The largest number of type d (bf16, f16, fp8, f32, f64) below x, which is finite. */
double ts_narrow_below(TsDtype d, double x);

#endif
