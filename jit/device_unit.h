/* A kernel of a device as an instruction of the VM. */
#ifndef TS_JIT_DEVICE_UNIT_H
#define TS_JIT_DEVICE_UNIT_H

#include "jit/device_kernel.h"
#include "vm/fused.h"

/* What has to be known before a kernel runs, seeds and whether indices are in range, stays the
 * host's; false with the error where a kernel asks for it. */
bool ts_device_takes(const TsSchedKernel *k, TsError *err);

/* With one reference. Takes the kernel over; NULL: no memory, and it stays the caller's. */
TsFused *ts_device_unit(TsDevice *d, TsDeviceKernel *kernel, const TsSchedKernel *from,
                        TsLayouts *layouts);

#endif
