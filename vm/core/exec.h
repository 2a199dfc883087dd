/* Every handler that the operator table names. */
#ifndef TS_VM_EXEC_H
#define TS_VM_EXEC_H

#include "vm/core/vm.h"

/* Whether the handler of a DIRECT row takes this call, of which the attributes are filled in:
 * calls that only look unlike what it is for, and wrong ones, are left to the definition. Then
 * the results' types and their number are set. */
typedef bool TsDirectFits(TsCall *call, TsMeta *out);

TsHandler ts_exec_pointwise, ts_exec_reduce, ts_exec_scan, ts_exec_random, ts_exec_compose;

#define DECLARE_POINTWISE(name)
#define DECLARE_REDUCE(name)
#define DECLARE_SCAN(name)
#define DECLARE_RANDOM(name)
#define DECLARE_COMPOSE(name)
#define DECLARE_VIEW(name)   TsHandler ts_view_##name;
#define DECLARE_KERNEL(name) TsHandler ts_exec_##name;
#define DECLARE_DIRECT(name)                                                                    \
  TsHandler ts_exec_##name;                                                                    \
  TsDirectFits ts_fits_##name;
#define OP(name, cls, ...) DECLARE_##cls(name)
#include "lib/ops.def"
#undef OP

/* Runs a COMPOSE or DIRECT row, attributes filled in, by its definition in ir/; up to `room` outputs. */
int ts_vm_compose(TsCall *call, int room, int *nout);

#endif
