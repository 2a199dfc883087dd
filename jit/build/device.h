/* Kernels of a function that are opened on a device: what that is expected to cost, and several
 * at a time. Layers of a model have the same kernels, so there are fewer than groups. */
#ifndef TS_JIT_BUILD_DEVICE_H
#define TS_JIT_BUILD_DEVICE_H

#include "jit/device/kernel.h"

typedef struct TsDeviceSet TsDeviceSet;

/* The different kernels of n, of which some may be NULL; they must outlive it. NULL: no memory,
 * which err says. */
TsDeviceSet *ts_device_set(TsDevice *d, int n, const TsTile *const *k, TsError *err);
double ts_device_set_usec(const TsDeviceSet *s); /* that is left to do */
bool ts_device_set_known(const TsDeviceSet *s);  /* all are open, or on disk */
/* Opens them, in some threads; they stay open with the set. Those that cannot be opened say why
 * to who opens them next. -1 where memory ran out. */
int ts_device_set_open(TsDeviceSet *s, TsError *err);
void ts_device_set_free(TsDeviceSet *s); /* NULL is fine */

#endif
