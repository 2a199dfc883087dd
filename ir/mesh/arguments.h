/* What a plan has in common with whoever runs it: slots of arguments, of results, and of the values
 * that updates write. */
#ifndef TS_IR_MESH_ARGUMENTS_H
#define TS_IR_MESH_ARGUMENTS_H

#include "ir/mesh/slots.h"

/* A slot for each parameter, under its layout; batches are split into micro-batches. A failure is that of a. */
void ts_arguments_add(TsSlots *a);
/* The slot of result i, of update i, as whoever called reads it when all groups have run; -1 with a's failure. */
int ts_arguments_result(TsSlots *a, int i);
int ts_arguments_update(TsSlots *a, int i);

#endif
