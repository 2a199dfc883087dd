/* Tensors that are only planned with: a type and a layout, no elements. Calls on them give such
 * again, and note what devices would send each other; so a program is planned for machines that
 * are not there (dist.tensor{abstract = true}, f:collectives). Whoever reads one gets an error. */
#ifndef TS_VM_MESH_PLANNED_H
#define TS_VM_MESH_PLANNED_H

#include "lib/mesh.h"
#include "vm/core/vm.h"

/* whole: type and layout. NULL with the error. */
TsTensor *ts_mesh_planned(TsContext *c, const TsMeta *whole);
/* A call with these operands computes nothing. */
bool ts_mesh_plans(const TsContext *c, int nin, TsTensor *const *in);
/* Devices of the mesh that are not there: an error, else 0. */
int ts_mesh_there(TsContext *c, const TsMesh *m);
/* The results of a call without operands, as copies on all of c->abstract: they are planned. */
int ts_mesh_abstract(TsCall *call, const TsMeta *out);

#endif
