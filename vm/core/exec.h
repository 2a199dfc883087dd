/* Every handler that the operator table names. */
#ifndef TS_VM_EXEC_H
#define TS_VM_EXEC_H

#include "vm/core/vm.h"

/* Whether the handler of a DIRECT row takes this call. Given are the inputs as the program has them
 * (no dtype is promoted yet; none is a bare number or on a device, optional ones may be NULL), and
 * the attributes, filled in. True is a
 * promise: inputs of one type that the definition computes in, shapes that it accepts, and a
 * handler that has its bits. Then call->compute, call->nout and out[0..nout), shapes and dtypes,
 * are set, as the definition would have them. False is no error and leaves none: what only looks
 * unlike that, or is wrong, is left to the definition, whose message it gets. */
typedef bool TsDirectFits(TsCall *call, TsMeta *out);

TsHandler ts_exec_pointwise, ts_exec_reduce, ts_exec_scan, ts_exec_random, ts_exec_compose;

#define DECLARE_POINTWISE(name)
#define DECLARE_REDUCE(name)
#define DECLARE_SCAN(name)
#define DECLARE_RANDOM(name)
#define DECLARE_COMPOSE(name)
#define DECLARE_VIEW(name)   TsHandler ts_view_##name;
#define DECLARE_KERNEL(name) TsHandler ts_exec_##name;
#define DECLARE_DIRECT(name)                                                                   \
  TsHandler ts_exec_##name;                                                                    \
  TsDirectFits ts_fits_##name;
#define OP(name, cls, ...) DECLARE_##cls(name)
#include "lib/ops.def"
#undef OP

/* Runs a COMPOSE or DIRECT row, attributes filled in, by its definition in ir/; up to `room`
 * outputs. */
int ts_vm_compose(TsCall *call, int room, int *nout);

#endif
