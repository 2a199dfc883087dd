/* Automatic casts of operands to 16 bits or f32 (TsContext.autocast). */
#ifndef TS_VM_AUTOCAST_H
#define TS_VM_AUTOCAST_H

#include "vm/core/vm.h"

/* As ts_vm_call, whose part it is, of a call that the program makes while casts are on. */
int ts_autocast_call(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                     int room, int *nout, TsTensor **out);

#endif
