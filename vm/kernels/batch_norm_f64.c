/* Normalising by given statistics in f64. */
#include <stdbool.h>

#include "vm/kernels/batch_norm.h"
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/simd/f64.h"

#define exports(name) TS_ISA(ts_batch_norm_##name##_f64)
#include "vm/kernels/batch_norm.inc"
