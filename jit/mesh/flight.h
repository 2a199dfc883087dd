/* Joins beside what devices compute: the second orders of devices (devices/aside.h). */
#ifndef TS_JIT_MESH_FLIGHT_H
#define TS_JIT_MESH_FLIGHT_H

#include "jit/mesh/state.h"

/* What the plan of g is to do at a time: by what its devices are, by TESSERA_OVERLAP and by the program. -1
 * with the error. */
int ts_mesh_overlap_of(TsContext *c, const TsGraph *g, TsOverlap *o);

/* From here on what devices of the n joins are given goes beside their own work: 1; 0: they cannot, or other
 * processes take part, and all stays in its place; -1 with the error. */
int ts_mesh_aside(TsMeshRun *r, int n, const TsMeshStep *s);
/* Behind it, of the n steps that ran so: 0 or -1. */
int ts_mesh_started(TsMeshRun *r, int n, const TsMeshStep *s, int failed);
/* The devices wait for a join that was started. */
int ts_mesh_done(TsMeshRun *r, const TsMeshStep *s);
/* All that is on its way is waited for by the devices, whatever went wrong. 0 or -1. */
int ts_mesh_land(TsMeshRun *r);

#endif
