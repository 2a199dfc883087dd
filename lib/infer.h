/* Every dtype and shape rule that the operator table names. A rule reads
 * inf->in and inf->attr and fills inf->compute, inf->nout, inf->out[]: the dtype
 * rule runs first and sets out[].dtype of every output, the shape rule sets nout
 * and the sizes. Returns 0, or -1 with inf->err filled. */
#ifndef TS_LIB_INFER_H
#define TS_LIB_INFER_H

#include "lib/op.h"

#define OP(n, c, arity, t, dtype, shape, ...)                                                  \
  TsRule ts_dtype_rule_##dtype, ts_shape_rule_##shape;
#include "lib/ops.def"
#undef OP

#endif
