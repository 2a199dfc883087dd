/* Tensors that are made where they lie: each device makes its part. */
#ifndef TS_VM_MESH_DRAW_H
#define TS_VM_MESH_DRAW_H

#include "lib/mesh.h"
#include "vm/core/vm.h"

/* What a row without inputs makes (op: zeros, normal, ..) with these attributes, under the layout.
 * Random elements are those of their places in the whole, as if it had been made on one device. */
TsTensor *ts_mesh_draw(TsContext *c, TsOp op, const TsAttr *attr, const TsLayout *l);

#endif
