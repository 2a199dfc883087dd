/* A call on tensors of a mesh, part by part. */
#ifndef TS_VM_MESH_CALL_H
#define TS_VM_MESH_CALL_H

#include "vm/core/vm.h"

/* TsContext.want: how the result of the next call of a row is to lie; operands move so that it
 * does, as far as the rule of the row can say so. */
/* Runs call, of which some input is on a mesh; out: the inferred types. call->out is set. */
int ts_mesh_call(TsCall *call, const TsMeta *out);
/* Runs a call of one device over the leaves that the program has declared (TsContext.leaves).
 * 1: done; 0: it has nothing to be cut; -1. */
int ts_leaves_call(TsCall *call, const TsMeta *out);

#endif
