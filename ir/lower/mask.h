/* Masks of attention for kernels on matrix units (ir/tile/gpu/attention_mask.h): where the
 * operand lies, and the part of a kernel that lays it out. */
#ifndef TS_IR_LOWER_MASK_H
#define TS_IR_LOWER_MASK_H

#include "ir/sched/sched.h"
#include "ir/tile/gpu/attention_mask.h"
#include "ir/tile/sequence.h"

/* False: no kernel takes it. Expanded axes count as those that do not move. */
bool ts_lower_mask(TsGpuMaskFrom *from, TsVal mask, TsDtype inputs, TsLayoutFn *layout,
                   void *arg);
/* A parameter of the whole that lies so. */
void ts_lower_mask_param(TsTile *whole, const TsGpuMaskFrom *from);

/* Adds the part that makes m of the argument `from`, to be run unless `unless` is written by
 * others; none where the operand lies so. The argument that has m; INT_MIN with the error. */
int ts_lower_mask_step(TsTileSequence *to, const TsGpuMask *m, const TsGpuMaskFrom *from,
                       TsDtype inputs, bool transposed, int arg, int unless, TsError *err);

#endif
