/* A graph in which rows that are done by others on a mesh (vm/mesh/define.h) are these others. */
#ifndef TS_VM_MESH_EXPAND_H
#define TS_VM_MESH_EXPAND_H

#include "ir/graph/graph.h"
#include "vm/core/vm.h"

/* A module of its own; its bound parameters are g's. NULL with the error. */
TsGraph *ts_mesh_expand(TsContext *c, const TsGraph *g);
/* A function of a control operator as one by itself, called on these arguments: their layouts are those of its
 * parameters, and others follow from them. NULL with the error; or without one where it has nodes that no
 * plan has, draws among them. */
TsGraph *ts_mesh_region(TsContext *c, const TsGraph *g, TsTensor *const *args);
/* Whether it is called on tensors that are spread over a mesh. */
bool ts_mesh_spreads(const TsGraph *g);
/* The same for one device, with sums over the leaves that the program has declared.
 * Its bound tensors are held by it: ts_capture_release frees it, also for a job that outlives who
 * asked for it. */
TsGraph *ts_mesh_leaved(TsContext *c, const TsGraph *g);

#endif
