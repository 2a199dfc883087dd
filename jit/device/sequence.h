/* Kernels that are several (ir/tile/sequence.h) on a device: their temporaries and their runs. */
#ifndef TS_JIT_DEVICE_SEQUENCE_H
#define TS_JIT_DEVICE_SEQUENCE_H

#include "ir/tile/sequence.h"
#include "jit/device/kernel.h"

typedef struct TsDeviceSequence TsDeviceSequence;

/* Any thread; p stays the caller's. queue: as of ts_device_kernel_open_later, NULL: all are
 * ready then. NULL with the error. */
TsDeviceSequence *ts_device_sequence_open(TsDevice *d, const TsTileSequence *p, TsQueue *queue,
                                          TsOpening how, TsError *err);
bool ts_device_sequence_ready(const TsDeviceSequence *p);
int ts_device_sequence_wait(const TsDeviceSequence *p, TsError *err);
/* Of those that are not ready, whether each stands in. */
bool ts_device_sequence_stand_in(const TsDeviceSequence *p);
/* scratch and dim, the whole's sizes: as of ts_device_kernel_run_in. */
int ts_device_sequence_run(TsDeviceSequence *p, void *scratch, void *const *arg,
                           const int64_t *dim, TsError *err);
void ts_device_sequence_free(TsDeviceSequence *p); /* NULL is fine */
int ts_device_sequence_launches(const TsDeviceSequence *p, void *const *arg);
/* Bytes that a run takes beside what is its own. */
int64_t ts_device_sequence_scratch_bytes(TsDeviceSequence *p, const int64_t *dim);
/* As ts_device_kernel_ahead, of the first step: the others come behind it. */
uint64_t ts_device_sequence_ahead(const TsDeviceSequence *p, void *const *arg,
                                  const int64_t *dim);
bool ts_device_sequence_cached(const TsDeviceSequence *p);
bool ts_device_sequence_record(const TsDeviceSequence *p, void *const *arg);

#endif
