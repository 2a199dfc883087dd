/* Launches of a program on its device: what each touches is said before; small ones are put
 * off, those of a function are replayed, or each is measured. */
#ifndef TS_JIT_LAUNCH_H
#define TS_JIT_LAUNCH_H

#include "jit/device/kernel.h"
#include "jit/launch/replay.h"
#include "jit/launch/replay_window.h"
#include "vm/core/context.h"

/* What the next launch touches, as far as it was said; n < 0: that is not all. */
enum { TS_LAUNCH_TOUCHES = 32 };
typedef struct TsLaunchTouched {
  int n;
  TsAccess of[TS_LAUNCH_TOUCHES];
} TsLaunchTouched;

/* Of a context, whose offloader begins with it. */
typedef struct TsLaunches {
  TsReplay *replay;      /* of the function that runs, or NULL */
  TsReplayGroup *group;  /* of the function over several devices that runs, or NULL */
  TsReplayWindow window; /* of small eager calls */
  TsLaunchTouched touched;
  bool guarded;  /* indices were looked at of which nobody knows yet */
  bool prepares; /* nothing is launched */
} TsLaunches;

static inline TsLaunches *ts_launches(TsContext *c) { return (TsLaunches *)c->offloader; }

/* The next launch reads, or writes, the bytes of t. To be said of all that it touches, or of
 * nothing. */
struct TsTensor;
void ts_launch_touch(TsContext *c, const struct TsTensor *t, const void *at, bool write);
void ts_launch_touch_bytes(TsContext *c, const void *at, int64_t nbytes, bool write);
/* -1 with the error. arg: device addresses; dim: sizes. */
int ts_launch(TsContext *c, TsDeviceKernel *k, int nparam, void *const *arg, int ndim,
              const int64_t *dim);
/* As ts_device_kernel_run_many; nparam and ndim are those of one run. */
int ts_launch_many(TsContext *c, TsDeviceKernel *k, int n, int nparam, void *const *arg,
                   int ndim, const int64_t *dim);
/* One that is over in a moment: it may be put off. */
int ts_launch_small(TsContext *c, TsDeviceKernel *k, int nparam, void *const *arg, int ndim,
                    const int64_t *dim);
int ts_launch_small_ones(TsContext *c); /* those that were put off */
/* n kernels of as many devices that wait for each other: nothing comes between them. On failure words
 * by which they wait are to begin anew (devices/flags.h). */
int ts_launch_meet(TsContext *c, int n, const TsReplayMeeting *m);

/* Of a function, as enter, leave and forget of vm/core/offload.h. */
void ts_launch_enter(TsContext *c, int device, void **slot);
int ts_launch_leave(TsContext *c);
void ts_launch_forget(void *slot);
int ts_launch_flush(TsContext *c); /* all that was put off */
/* A function over several devices: its launches on all of them are put off together, in records of
 * *slot. false: that cannot be, and nothing is to be left. */
bool ts_launch_group_enter(TsContext *c, int n, TsDevice *const *list, TsReplayGroup **slot);
int ts_launch_group_leave(TsContext *c, bool *whole); /* as ts_replay_group_end */

#endif
