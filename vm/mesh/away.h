/* Parts of a tensor that other processes have. All processes run the whole program, each with its own
 * parts alone; of others' there is a tensor with a type and without elements, on the device
 * TS_DEVICE_AWAY. Calls on such give such again and compute nothing, so that each process knows
 * the types of all parts, and lists what is sent between any two of them (vm/mesh/wire.h). */
#ifndef TS_VM_MESH_AWAY_H
#define TS_VM_MESH_AWAY_H

#include "vm/core/vm.h"

/* A call of which some input is away: its outputs are. fixed: their sizes are known. */
int ts_away_call(TsCall *call, const TsMeta *out, bool fixed);
void ts_away_open(void); /* the device; once a process */
/* "cpu:0@2" is a device of a rank, "cpu:0" one that each process has for itself (rank -1): its place in
 * the list there. 0 or -1. */
int ts_away_find(const char *name, int *place, int *rank, TsError *err);

#endif
