/* A graph of one device in which sums are those of declared leaves, as they are on a mesh. */
#ifndef TS_IR_MESH_CUT_H
#define TS_IR_MESH_CUT_H

#include "ir/graph/graph.h"

/* A copy of g, with its regions, in a module of its own: bound parameters are g's. NULL with the
 * error. */
TsGraph *ts_mesh_cut(const TsGraph *g, int leaves, TsError *err);

#endif
