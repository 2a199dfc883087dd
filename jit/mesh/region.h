/* Functions of control operators over a mesh, in pieces (vm/core/spread.h). */
#ifndef TS_JIT_MESH_REGION_H
#define TS_JIT_MESH_REGION_H

#include "vm/core/spread.h"

extern const TsSpread ts_mesh_regions;

#endif
