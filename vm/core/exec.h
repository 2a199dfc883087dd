/* Every handler that the operator table names. */
#ifndef TS_VM_EXEC_H
#define TS_VM_EXEC_H

#include "vm/core/vm.h"

TsHandler ts_exec_pointwise, ts_exec_reduce, ts_exec_scan, ts_exec_random, ts_exec_compose;

#define DECLARE_POINTWISE(name)
#define DECLARE_REDUCE(name)
#define DECLARE_SCAN(name)
#define DECLARE_RANDOM(name)
#define DECLARE_COMPOSE(name)
#define DECLARE_VIEW(name)   TsHandler ts_view_##name;
#define DECLARE_KERNEL(name) TsHandler ts_exec_##name;
#define OP(name, cls, ...)   DECLARE_##cls(name)
#include "lib/ops.def"
#undef OP

/* Runs a COMPOSE row by its definition in ir/; up to `room` outputs. */
int ts_vm_compose(TsCall *call, int room, int *nout);

#endif
