/* What is said of a run that failed: which device, what it was to do, and what of the plan it holds. */
#ifndef TS_JIT_MESH_FAILURE_H
#define TS_JIT_MESH_FAILURE_H

#include "jit/mesh/state.h"

/* A step of the plan has failed, with the error in the context; the slots are as they were then. s: or NULL, it
 * was about arguments or results. whose: the device that ran a piece, or -1: several had to do with it. Failures of devices and of memory get the
 * device, the operator, its tensor and line; others stay as they are. -1. */
int ts_mesh_failure(TsMeshRun *r, const TsMeshStep *s, int whose);

#endif
