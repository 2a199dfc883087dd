/* Reductions of strided arrays, threaded: plain pointers in, contiguous values out.
 * Cuts the work into leaves and panels, stages what the kernels cannot read, and
 * combines leaves. The result depends on the values and the logical lengths alone. */
#ifndef TS_VM_REDUCE_H
#define TS_VM_REDUCE_H

#include "lib/reduce.h"
#include "lib/dtype.h"
#include "vm/kernels/convert.h"
#include "vm/kernels/rows/reduce.h"

typedef enum TsReduceOp {
  TS_REDUCE_sum,
  TS_REDUCE_prod,
  TS_REDUCE_min, /* of nothing: the greatest value of the accumulator */
  TS_REDUCE_max,
  TS_REDUCE_argmin, /* logical index over the reduced axes; of nothing: -1 */
  TS_REDUCE_argmax,
  TS_REDUCE_any,
  TS_REDUCE_all,
  TS_REDUCE_count_nonzero,
  TS_REDUCE_mean,      /* sum / N */
  TS_REDUCE_var,       /* mean, then sum of (x-mean)^2 / (N - correction), 0 if that is < 0 */
  TS_REDUCE_std,       /* its square root */
  TS_REDUCE_logsumexp, /* s + log(sum exp(x-s)), s = the maximum, or 0 if that is not finite */
} TsReduceOp;

enum { TS_REDUCE_DIMS = 16 };

/* The accumulator, which is the output's type, is f32 for f32 and narrower floats, f64,
 * i64 for integers and for argmin .. count_nonzero, and the complex type itself (sum,
 * prod, mean and the three tests only). A mean, var or logsumexp needs a float. */
typedef struct TsReduce {
  TsReduceOp op;
  TsReduceMap map; /* of sum, prod, min, max; pow, sqdev and exp for floats only */
  TsDtype dtype;   /* of x; not in blocks */
  int nouter, ninner;
  const int64_t *outer_dim, *outer_stride; /* strides in elements, of any sign */
  const int64_t *inner_dim, *inner_stride; /* the reduced axes, in logical order */
  const void *x;
  void *out;     /* contiguous over the outer dims */
  const void *c; /* for map sqdev and exp: one value of the accumulator's type an output */
  double p;      /* the exponent of map pow */
  double correction;
} TsReduce;

typedef struct TsReduceTables {
  const TsReduceKernels *reduce;
  const TsConvertKernels *convert;
} TsReduceTables;

/* 0, or -1 when there is no memory for partial results. */
int ts_reduce(const TsReduce *r, const TsReduceTables *t);

#endif
