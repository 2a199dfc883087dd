/* Kernels of devices that run before they are compiled.
 *
 * What a matrix unit adds up, and what a processor's own 2^x gives, has bits of its own, so the VM
 * cannot run such a call until there is code. Its kernel in Tile IR can: memory is fetched, the
 * interpreter runs with the unit's arithmetic (ir/tile/run/unit.c), the device's own functions
 * are asked of the device, by one small kernel that takes a tenth of the time to compile,
 * and what was written goes back. The bits are those of the code, for units whose arithmetic is
 * known: compute capability 9.0. */
#ifndef TS_JIT_STAND_IN_H
#define TS_JIT_STAND_IN_H

#include "devices/device.h"
#include "ir/tile/tile.h"

/* Whether runs of k on d can be stood in for. */
bool ts_stand_in_can(const TsDevice *d, const TsTile *k);
/* arg, dim: as of ts_device_kernel_run. Returns when all is done. */
int ts_stand_in_run(TsDevice *d, const TsTile *k, void *const *arg, const int64_t *dim,
                    TsError *err);
/* Fetches the memory of the parameters, d NULL: of the CPU, calls run with the copies, and, if they
 * are to be kept, gives back what k writes. */
typedef int TsStandInRun(void *with, const TsTile *k, void *const *at, const int64_t *dim,
                         TsError *err);
int ts_stand_in_here(TsDevice *d, const TsTile *k, void *const *arg, const int64_t *dim,
                     TsStandInRun *run, void *with, bool keep, TsError *err);
/* The kernel of the device's own functions, the caller's: y[i] = f(x[i]), i < N, in f32; W of
 * 0, 1, 2 is 2^x, 1/x, the logarithm to base 2. NULL: no memory. */
TsTile *ts_stand_in_functions(void);
/* Frees those that were opened. */
void ts_stand_in_close(void);

#endif
