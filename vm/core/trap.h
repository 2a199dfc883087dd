/* The NaN trap: stops at the first operator whose result has a NaN or an infinity. */
#ifndef TS_VM_TRAP_H
#define TS_VM_TRAP_H

#include "vm/core/vm.h"

/* -1 with the error, which names operator, result, index and pass, if a result of the call
 * has one that neither its inputs nor its options explain: an operator that only moves
 * elements is never blamed, nor is a mask of infinities. */
int ts_trap_check(const TsCall *call, bool backward);

/* The same for what is no row. */
int ts_trap_results(TsContext *c, const char *name, int nin, TsTensor *const *in, int nout,
                    TsTensor *const *out, bool backward);

#endif
