/* What is said of a call on a mesh for which a device has failed, or has no memory. */
#ifndef TS_VM_MESH_FAILURE_H
#define TS_VM_MESH_FAILURE_H

#include "lib/mesh.h"
#include "vm/core/vm.h"

/* The error in the context, if it is one of these, gets the part's device, and the type of the whole with
 * its layout and what the part has of it. Others stay as they are. -1. */
int ts_mesh_failed_part(TsContext *c, TsOp op, const TsMesh *m, int p, const TsMeta *whole);
/* The same where a tensor comes from one layout to another. */
int ts_mesh_failed_move(TsContext *c, const TsMeta *from, const TsLayout *to);
/* Without what these have said. */
void ts_mesh_failed_bare(char *message);

#endif
