/* Control instructions of bytecode: functions called by condition, in loops, over slices. */
#ifndef TS_VM_CONTROL_H
#define TS_VM_CONTROL_H

#include "vm/bytecode.h"

/* Runs one; sub are the frames of the code's functions. Outputs get one reference each. */
int ts_control_run(TsContext *c, const TsInstr *i, const TsCode *code, TsFrame *const *sub,
                   TsTensor *const *in, TsTensor **out);

#endif
