/* A kernel of a device as an instruction of the VM. */
#ifndef TS_JIT_DEVICE_INSTRUCTION_H
#define TS_JIT_DEVICE_INSTRUCTION_H

#include "jit/device/kernel.h"
#include "vm/code/fused.h"

/* Seeds and streams are filled in by the host for each run, and indices are looked at
 * before, which needs their bytes there. With one reference. Takes the kernel over; NULL: no
 * memory, and it stays the caller's. */
TsFused *ts_device_instruction(TsDevice *d, TsDeviceKernel *kernel, const TsSchedKernel *from,
                               TsLayouts *layouts);
/* Its results are parts of one, which begin so many bytes behind its beginning. */
void ts_device_instruction_join(TsFused *f, const int64_t *shift);

#endif
