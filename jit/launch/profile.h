/* Where a device's time goes, kernel by kernel. While it is on, launches run one at a time
 * between two events of the device, and nothing is replayed. */
#ifndef TS_JIT_PROFILE_H
#define TS_JIT_PROFILE_H

#include "jit/device/kernel.h"

typedef struct TsProfileRow {
  char name[120]; /* operators of the kernel, and their lines */
  int64_t count;
  double usec, bytes, flops; /* of all; bytes of the operands, each once */
} TsProfileRow;

bool ts_profile_on(void);    /* or what the program does is recorded (lib/activity.h) */
void ts_profile_start(void); /* forgets what there was */
void ts_profile_stop(void);
/* What the next launch is. */
void ts_profile_label(const char *name, double bytes, double flops);
/* So many bytes of it lie in the memory of other devices. */
void ts_profile_far(double bytes);
/* As ts_device_kernel_run, measured. */
int ts_profile_launch(TsDeviceKernel *k, void *const *arg, const int64_t *dim, TsError *err);
int ts_profile_launch_many(TsDeviceKernel *k, int n, void *const *arg, const int64_t *dim,
                           TsError *err);
/* The dearest first. */
const TsProfileRow *ts_profile_rows(int *n);

#endif
