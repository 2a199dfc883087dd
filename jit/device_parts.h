/* Kernels that are several (ir/tile_parts.h) on a device: their temporaries and their runs. */
#ifndef TS_JIT_DEVICE_PARTS_H
#define TS_JIT_DEVICE_PARTS_H

#include "ir/tile_parts.h"
#include "jit/device_kernel.h"

typedef struct TsDeviceParts TsDeviceParts;

/* p stays the caller's. NULL with the error. */
TsDeviceParts *ts_device_parts_open(TsDevice *d, const TsTileParts *p, TsError *err);
int ts_device_parts_run(TsDeviceParts *p, void *const *arg, TsError *err);
void ts_device_parts_free(TsDeviceParts *p); /* NULL is fine */
int ts_device_parts_launches(const TsDeviceParts *p);
/* Whether a run takes memory that is not its own. */
bool ts_device_parts_scratch(const TsDeviceParts *p);
bool ts_device_parts_cached(const TsDeviceParts *p);
bool ts_device_parts_record(const TsDeviceParts *p, void *const *arg);

#endif
