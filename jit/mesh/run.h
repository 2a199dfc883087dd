/* Captured functions on a mesh: the pieces of their plan (ir/mesh/partition.h), each a function of
 * one device with kernels of its own, and what devices send each other in between. */
#ifndef TS_JIT_MESH_RUN_H
#define TS_JIT_MESH_RUN_H

#include "ir/mesh/partition.h"
#include "jit/jit.h"
#include "vm/mesh/collective.h"

typedef struct TsMeshRun TsMeshRun;

/* For g as it is called now, with the leaves that are declared; how: in micro-batches, in a pipeline, or
 * NULL. NULL with the error, or without one where it cannot be cut into pieces. g must outlive it. */
TsMeshRun *ts_mesh_run_new(TsContext *c, const TsGraph *g, const TsMeshHow *how);
void ts_mesh_run_free(TsMeshRun *r);
int ts_mesh_run_leaves(const TsMeshRun *r);
const TsMeshPlan *ts_mesh_run_plan(const TsMeshRun *r);
/* A piece of the plan as a function of one device, with its bytecode; all are the run's. NULL with
 * the error. */
TsJitFunction *ts_mesh_run_piece(TsMeshRun *r, int at, TsCode **code, TsFrame **frame);
/* What a join of the plan sends; false: nothing. */
bool ts_mesh_run_sent(const TsMeshRun *r, int join, TsCollective *sent);
/* Notes what devices will send each other in a run on these arguments (vm/mesh/collective.h). */
int ts_mesh_run_tell(TsMeshRun *r, TsTensor *const *args);
/* args: by parameter of g. Results get one reference each. */
int ts_mesh_run(TsMeshRun *r, TsTensor *const *args, TsTensor **results);

#endif
