/* Kernels that are several (ir/tile/parts.h) on a device: their temporaries and their runs. */
#ifndef TS_JIT_DEVICE_PARTS_H
#define TS_JIT_DEVICE_PARTS_H

#include "ir/tile/parts.h"
#include "jit/device/kernel.h"

typedef struct TsDeviceParts TsDeviceParts;

/* Any thread; p stays the caller's. queue: as of ts_device_kernel_open_later, NULL: all are ready then. NULL
 * with the error. */
TsDeviceParts *ts_device_parts_open(TsDevice *d, const TsTileParts *p, TsQueue *queue,
                                    TsOpening how, TsError *err);
bool ts_device_parts_ready(const TsDeviceParts *p);
int ts_device_parts_wait(const TsDeviceParts *p, TsError *err);
/* Of those that are not ready, whether each stands in. */
bool ts_device_parts_stand_in(const TsDeviceParts *p);
/* scratch and dim, the whole's sizes: as of ts_device_kernel_run_in. */
int ts_device_parts_run(TsDeviceParts *p, void *scratch, void *const *arg, const int64_t *dim,
                        TsError *err);
void ts_device_parts_free(TsDeviceParts *p); /* NULL is fine */
int ts_device_parts_launches(const TsDeviceParts *p);
/* Bytes that a run takes beside what is its own. */
int64_t ts_device_parts_scratch_bytes(TsDeviceParts *p, const int64_t *dim);
bool ts_device_parts_cached(const TsDeviceParts *p);
bool ts_device_parts_record(const TsDeviceParts *p, void *const *arg);

#endif
