/* The NaN trap: stops at the first operator whose result has a NaN or an infinity. */
#ifndef TS_VM_TRAP_H
#define TS_VM_TRAP_H

#include "vm/vm.h"

/* -1 with the error, which names operator, output and index, if an output of the call has
 * one that its inputs do not explain: an operator that only moves elements is never blamed. */
int ts_trap_check(const TsCall *call);

#endif
