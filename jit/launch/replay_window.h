/* Small eager calls in a row, launched together.
 *
 * To launch a kernel takes the driver three times as long as a kernel of a few elements runs. A
 * loop of such calls launches the same kernels again and again, at other addresses. So once a
 * sequence of them has repeated for a while, launches are put off, a window of some sixty at a
 * time, and go as one record in which addresses are changed (jit/launch/replay.h), a third of the
 * time. What waits is launched when a window is full and before anything looks: bytes that
 * move, other kernels, functions, memory that runs out. Only kernels that are over in a moment
 * are put off, so a program that stops in the midst of a window loses no time by it that one
 * would notice. Rejected: a thread that launches what waits too long, which would have to lock
 * all of this. */
#ifndef TS_JIT_REPLAY_WINDOW_H
#define TS_JIT_REPLAY_WINDOW_H

#include "jit/launch/replay.h"

enum { TS_REPLAY_WINDOW = 64 }; /* launches at most */

typedef struct TsReplayWindow {
  TsDevice *d;
  TsReplay *replay; /* of d; made with the first streak */
  TsDeviceKernel *recent[TS_REPLAY_WINDOW];
  int n;      /* small launches in a row */
  int window; /* a multiple of the period */
  int left;   /* of the window */
  int missed; /* windows in a row that were another sequence */
  bool on;
} TsReplayWindow;

/* As ts_device_kernel_run, for a small kernel of d. */
int ts_replay_window_launch(TsReplayWindow *s, TsDevice *d, TsDeviceKernel *k, int nparam,
                            void *const *arg, int ndim, const int64_t *dim, TsError *err);
/* What waits is launched, and the next streak has to show itself first. */
int ts_replay_window_end(TsReplayWindow *s, TsError *err);
void ts_replay_window_close(TsReplayWindow *s); /* what waits is forgotten */

#endif
