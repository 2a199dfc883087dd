/* Runs as records: what GPUs of this process are given in a run of a mesh program is put off and launched
 * as one record a device (jit/launch/replay.h), where all that they send each other goes by kernels. */
#ifndef TS_JIT_MESH_RECORD_H
#define TS_JIT_MESH_RECORD_H

#include "jit/mesh/state.h"

/* Around a run; begin says whether end is due: 0, or -1 with the error, unless there is one. */
bool ts_mesh_record_begin(TsMeshRun *r);
int ts_mesh_record_end(TsMeshRun *r);
void ts_mesh_record_free(TsMeshRun *r);

#endif
