/* All kernels of one instruction set. */
#ifndef TS_VM_KERNELS_H
#define TS_VM_KERNELS_H

#include <stdbool.h>

#include "vm/kernels/attention/attention.h"
#include "vm/kernels/attention/grad.h"
#include "vm/kernels/blas/blas.h"
#include "vm/kernels/batch_norm.h"
#include "vm/kernels/blocks_dot.h"
#include "vm/kernels/conv.h"
#include "vm/kernels/convert.h"
#include "vm/kernels/copy.h"
#include "vm/kernels/distance.h"
#include "vm/kernels/fft/fft.h"
#include "vm/kernels/gemm/gemm.h"
#include "vm/kernels/gemm/amx.h"
#include "vm/kernels/gemm/pairs.h"
#include "vm/kernels/optim.h"
#include "vm/kernels/pointwise/pointwise.h"
#include "vm/kernels/pointwise/complex.h"
#include "vm/kernels/pointwise/int.h"
#include "vm/kernels/pool.h"
#include "vm/kernels/random.h"
#include "vm/kernels/rows/reduce.h"
#include "vm/kernels/rope.h"
#include "vm/kernels/rows/rows.h"
#include "vm/kernels/rows/grad.h"
#include "vm/kernels/scaled.h"
#include "vm/kernels/sparse.h"

/* Every group of kernels: a folder of functions that vm/kernels/<group>*.c fill
 * in, once for each instruction set. */
#define TS_KERNEL_GROUPS(X)                                                                    \
  X(attention, TsAttentionKernels)                                                             \
  X(attention_grad, TsAttentionGradKernels)                                                    \
  X(batch_norm, TsBatchNormKernels)                                                            \
  X(blas, TsBlasKernels)                                                                       \
  X(blocks_dot, TsBlocksDotKernels)                                                            \
  X(conv, TsConvKernels)                                                                       \
  X(convert, TsConvertKernels)                                                                 \
  X(copy, TsCopyKernels)                                                                       \
  X(distance, TsDistanceKernels)                                                               \
  X(fft, TsFftKernels)                                                                         \
  X(gemm, TsGemmKernels)                                                                       \
  X(gemm_amx, TsGemmAmxKernels)                                                                \
  X(gemm_pairs, TsGemmPairsKernels)                                                            \
  X(optim, TsOptimKernels)                                                                     \
  X(pointwise, TsPointwiseKernels)                                                             \
  X(pointwise_complex, TsPointwiseComplexKernels)                                              \
  X(pointwise_int, TsPointwiseIntKernels)                                                      \
  X(pool, TsPoolKernels)                                                                       \
  X(random, TsRandomKernels)                                                                   \
  X(reduce, TsReduceKernels)                                                                   \
  X(rope, TsRopeKernels)                                                                       \
  X(rows, TsRowsKernels)                                                                       \
  X(rows_grad, TsRowsGradKernels)                                                              \
  X(scaled, TsScaledKernels)                                                                   \
  X(sparse, TsSparseKernels)

typedef struct TsKernels {
  const char *isa; /* "avx512", "avx2", "base" */
#define GROUP(name, type) type name;
  TS_KERNEL_GROUPS(GROUP)
#undef GROUP
} TsKernels;

/* The kernels of the named instruction set, or of the best that the CPU has for
 * NULL. NULL if the name is unknown or the CPU lacks it. All sets give the same
 * bits. Safe from all threads. */
const TsKernels *ts_kernels_of(const char *isa);
/* The same, and copies and conversions (vm/core/copy.h) are done by them from now on in the whole
 * process: by who opens a context, and nobody who only looks. */
const TsKernels *ts_kernels_use(const char *isa);
/* Whether the CPU has the named instruction set and there are kernels for it. */
bool ts_kernels_have(const char *isa);

#endif
