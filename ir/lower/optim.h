/* The kernel of an optimiser's step. */
#ifndef TS_IR_LOWER_OPTIM_H
#define TS_IR_LOWER_OPTIM_H

#include "ir/tile/tile.h"

/* in: p g m v as far as they are read; out: p m v. */
typedef struct TsLowerOptim {
  TsOp op;
  int nin, nout;
  TsDtype in[4], out[3];
  bool first, nesterov, decoupled, decays;
} TsLowerOptim;

/* Sizes N, and as bits of an f64 lr, decay, beta1, rest1, beta2, eps, correction. NULL: out of
 * memory. */
TsTile *ts_lower_optim_tile(const TsLowerOptim *o);
/* What the attributes of o's operator say. */
void ts_lower_optim_flags(TsLowerOptim *o, const TsAttr *attr);

#endif
