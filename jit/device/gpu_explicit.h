/* Kernels with roles (jit/gpu/roles.h) loaded on a device: the disk cache, scratch, addresses. */
#ifndef TS_JIT_GPU_EXPLICIT_H
#define TS_JIT_GPU_EXPLICIT_H

#include "jit/gpu/roles.h"

typedef struct TsGpuExplicit TsGpuExplicit;

/* k stays the caller's. Any thread. NULL with the error. */
TsGpuExplicit *ts_gpu_explicit_open(TsDevice *d, const TsTile *k, TsError *err);
/* Queued in the device's order. The copy engine wants addresses that are multiples of 16:
 * parameters that lie elsewhere are copied. */
int ts_gpu_explicit_run(TsGpuExplicit *g, void *const *arg, const int64_t *dim, TsError *err);
void ts_gpu_explicit_free(TsGpuExplicit *g);
/* Its code is on disk. */
bool ts_gpu_explicit_known(const TsDevice *d, const TsTile *k);
bool ts_gpu_explicit_cached(const TsGpuExplicit *g);
bool ts_gpu_explicit_scratch(const TsGpuExplicit *g); /* has memory that its runs share */
/* What compiling it took: our compiler and the driver's; 0: it came from the disk. */
void ts_gpu_explicit_times(const TsGpuExplicit *g, double *llvm_usec, double *driver_usec);
/* Whether a run is one launch and nothing else. */
bool ts_gpu_explicit_plain(const TsGpuExplicit *g, void *const *arg);

#endif
