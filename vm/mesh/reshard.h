/* Moves that a program asks for, as functions that are recorded and captured: the gradient goes
 * back to where the operand lies. */
#ifndef TS_VM_MESH_RESHARD_H
#define TS_VM_MESH_RESHARD_H

#include "ir/graph/custom.h"
#include "lib/mesh.h"

/* To a layout; or, if that is NULL, to one device. asks: how the program says it, a constant. One
 * reference, or NULL without memory. */
TsCustom *ts_mesh_mover(const TsLayout *to, int device, const char *asks);

#endif
