/* A kernel of Tile IR on a device that is not the CPU, whatever its kind. */
#ifndef TS_JIT_DEVICE_KERNEL_H
#define TS_JIT_DEVICE_KERNEL_H

#include "devices/device.h"
#include "ir/tile/tile.h"
#include "jit/code/queue.h"

typedef struct TsDeviceKernel TsDeviceKernel;

/* The numbers of the device for schedules; NULL with the sentence: no kernels for it. */
const TsTarget *ts_device_target(TsDevice *d, const char **why);

/* k: block form, or explicit form with roles; stays the caller's. Any thread. Who asks for the
 * same kernel while it is open gets the same one. NULL with the error. */
TsDeviceKernel *ts_device_kernel_open(TsDevice *d, const TsTile *k, TsError *err);
/* The same by its key, of ts_device_kernel_key. */
TsDeviceKernel *ts_device_kernel_open_as(TsDevice *d, const TsTile *k, const uint8_t key[32],
                                         TsError *err);
/* The same without waiting: the queue opens it. It may not run before it is ready, but where it
 * stands in. */
typedef struct TsOpening {
  bool soon;      /* before others that are not */
  bool known_now; /* what is on the disk is opened at once: a matter of half a millisecond */
} TsOpening;
TsDeviceKernel *ts_device_kernel_open_later(TsDevice *d, const TsTile *k, const uint8_t key[32],
                                            TsQueue *queue, TsOpening how, TsError *err);
bool ts_device_kernel_ready(const TsDeviceKernel *k); /* or it could not be opened */
/* Until it is; what has not begun this thread does. -1 with the error: it could not be
 * opened. */
int ts_device_kernel_wait(TsDeviceKernel *k, TsError *err);
bool ts_device_kernel_takes_time(const TsDevice *d); /* to open, there: no simulation */
/* The queue is stopped: what it did not begin cannot be opened. */
void ts_device_kernel_abandon(TsQueue *queue);
/* What opening k, which is not several, is expected to take: as long as others took, compiled
 * or from the disk; 0 while it is open. */
double ts_device_kernel_cost(TsDevice *d, const TsTile *k, const uint8_t key[32]);
/* Its code is on disk. */
bool ts_device_kernel_known(const TsDevice *d, const TsTile *k, const uint8_t key[32]);
void ts_device_kernel_key(const TsTile *k, uint8_t key[32]);
/* Whether runs give its bits before it is ready, slowly and one at a time
 * (jit/device/stand_in.h). */
bool ts_device_kernel_stands_in(TsDeviceKernel *k);
/* Queued in the device's order. arg: device addresses of the parameters; dim: symbolic
 * sizes. */
int ts_device_kernel_run(TsDeviceKernel *k, void *const *arg, const int64_t *dim, TsError *err);
/* The same with memory of the caller's for what it takes meanwhile, or NULL. */
int ts_device_kernel_run_in(TsDeviceKernel *k, void *scratch, void *const *arg,
                            const int64_t *dim, TsError *err);
/* Runs in one launch: how many at most, 1 where there is no such code; with other parameters,
 * which begin at multiples of 16 bytes, and sizes 0, other sizes being the same. arg and dim:
 * of one run behind the other. */
int ts_device_kernel_most(const TsDeviceKernel *k);
int ts_device_kernel_run_many(TsDeviceKernel *k, int n, void *const *arg, const int64_t *dim,
                              TsError *err);
/* For tests: whether the keys of kernels that run are kept, each once; those kept since, at most so
 * many; gives how many there are. */
void ts_device_kernel_watch(bool on);
int ts_device_kernel_watched(uint8_t (*keys)[32], int most);
/* A run of one kernel, of those that a run is made of. */
typedef struct TsDeviceLeaf {
  TsDeviceKernel *kernel;
  const TsTile *k; /* of it, or NULL: there is none at hand */
  void *scratch;   /* that it runs in; NULL: it would take some, or needs none */
  void *const *arg;
  const int64_t *dim;
} TsDeviceLeaf;

/* Instead of being launched, runs of this thread are given to `by`, one kernel after the other,
 * until by is NULL. */
typedef int TsDeviceGather(void *with, const TsDeviceLeaf *leaf, TsError *err);
void ts_device_kernel_gather(TsDeviceGather *by, void *with);
void ts_device_kernel_free(TsDeviceKernel *k);
/* How many were freed so far: who remembers addresses of kernels forgets them when it
 * changes. */
unsigned ts_device_kernel_freed(void);
/* How many bytes a run with these sizes takes. */
int64_t ts_device_kernel_scratch_bytes(const TsDeviceKernel *k, const int64_t *dim);
/* Parameters, by bit, that the first launch of a run may touch before it waits for the launch in
 * front of it (ir/tile/ahead.h). */
uint64_t ts_device_kernel_ahead(const TsDeviceKernel *k, void *const *arg, const int64_t *dim);
/* Memory that runs of it share and others do not see: an address that stands for it; or
 * NULL. */
const void *ts_device_kernel_memory(const TsDeviceKernel *k);
/* Whether it is one launch, and waits for nothing that only it knows. */
bool ts_device_kernel_simple(const TsDeviceKernel *k);
int ts_device_kernel_launches(const TsDeviceKernel *k, void *const *arg); /* of a run */
/* Whether a run with these parameters is launches and nothing else: copies are not recorded. */
bool ts_device_kernel_records(const TsDeviceKernel *k, void *const *arg);
TsDevice *ts_device_kernel_device(const TsDeviceKernel *k);
bool ts_device_kernel_cached(const TsDeviceKernel *k); /* its code came from the disk */
/* What opening it took: our compiler, and the driver's with loading. */
void ts_device_kernel_times(const TsDeviceKernel *k, double *llvm_usec, double *driver_usec);

#endif
