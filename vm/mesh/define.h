/* Rows that are done by others where they are spread over a mesh or summed over leaves. */
#ifndef TS_VM_MESH_DEFINE_H
#define TS_VM_MESH_DEFINE_H

#include "vm/core/vm.h"

/* 1: call->out is set; 0: the row is done by itself; -1. out: the inferred types. */
int ts_mesh_define(TsCall *call, const TsMeta *out);

#endif
