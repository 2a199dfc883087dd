/* A function with loops or branches, for a mesh: what stands between these becomes functions, which run in
 * pieces as the loops' own functions do (vm/core/spread.h). */
#ifndef TS_IR_MESH_OUTLINE_H
#define TS_IR_MESH_OUTLINE_H

#include "ir/graph/graph.h"

/* Nodes that a plan has: others stay outside of its functions. */
bool ts_mesh_is_plain(const TsNode *n);
/* Nodes of g that stay outside, in its loops as well: each(arg, node, why); why NULL: it is a loop or a branch,
 * whose functions run in pieces. */
void ts_mesh_outside(const TsGraph *g, void (*each)(void *, const TsNode *, const char *),
                     void *arg);
/* A copy of g, in a module of its own, in which plain nodes between others are calls of functions of
 * them, in the functions of loops as well. Bound parameters are g's. NULL with the error. */
TsGraph *ts_mesh_outline(const TsGraph *g, TsError *err);

#endif
