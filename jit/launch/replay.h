/* The launches of a function, as one.
 *
 * A small kernel runs for less time than it takes to launch it. A function on a device launches
 * the same kernels in each run, most of them at the same addresses, since its memory comes from
 * the same pool in the same order. So launches are put off while their kernels are those of an
 * earlier run, and at the end the device launches a record of all of them (a CUDA graph), in
 * which those with other addresses or sizes were changed. Nothing is assumed: a run walks its
 * instructions as ever, and each launch is compared. Another kernel, or bytes that have to
 * move, and those put off are launched before; the run goes on as if nothing had been.
 *
 * Who launches says what bytes the kernel touches (ts_replay_touch), so that launches of a
 * record can wait for those alone whose results they need (jit/launch/replay_order.h), if
 * that is wanted. */
#ifndef TS_JIT_REPLAY_H
#define TS_JIT_REPLAY_H

#include "jit/device/kernel.h"
#include "jit/launch/replay_order.h"

typedef struct TsReplay TsReplay;

TsReplay *ts_replay_new(TsDevice *d); /* NULL: out of memory */
void ts_replay_free(TsReplay *r);

void ts_replay_begin(TsReplay *r);
/* The next launch touches these bytes. Without a word of it nothing is known of that launch. */
void ts_replay_touch(TsReplay *r, const void *at, int64_t nbytes, bool write);
/* Whether kernels of a record that need nothing of each other run side by side. */
void ts_replay_overlap(bool on);
/* Whether launches of a record may begin before the one in front of them ends
 * (jit/launch/dependent.h); on < 0: as it is. Gives what it was. */
bool ts_replay_ahead(int on);
/* For tests: launches that are known but not recorded go in another order, in which each still
 * comes behind those that it waits for. */
void ts_replay_shuffle(bool on);
/* As ts_device_kernel_run. */
int ts_replay_launch(TsReplay *r, TsDeviceKernel *k, int nparam, void *const *arg, int ndim,
                     const int64_t *dim, TsError *err);
/* As ts_device_kernel_run_many; nparam and ndim: of all runs. */
int ts_replay_launch_many(TsReplay *r, TsDeviceKernel *k, int n, int nparam, void *const *arg,
                          int ndim, const int64_t *dim, TsError *err);
int ts_replay_flush(TsReplay *r, TsError *err); /* what was put off is launched now */
int ts_replay_end(TsReplay *r, TsError *err);
bool ts_replay_matches(const TsReplay *r); /* launches so far were those of an earlier run */
/* Nothing is known of what the next launch touches. */
void ts_replay_touch_all(TsReplay *r);

/* ---- several devices, whose kernels may wait for each other: all of them put launches off, or
 * none. At the end there is one record a device, or all is launched in the order of the
 * program. */
typedef struct TsReplayGroup TsReplayGroup;
/* A launch of one device among those of others, which wait for each other. */
typedef struct TsReplayMeeting {
  TsDeviceKernel *kernel;
  int nparam, ndim;
  void *const *arg;
  const int64_t *dim;
} TsReplayMeeting;

TsReplayGroup *ts_replay_group_new(int n, TsDevice *const *list); /* NULL: out of memory */
void ts_replay_group_free(TsReplayGroup *g);
void ts_replay_group_begin(TsReplayGroup *g);
TsReplay *ts_replay_group_of(const TsReplayGroup *g, const TsDevice *d); /* NULL: not of it */
/* Of devices of the group, alike in that all or none are put off. */
int ts_replay_group_meet(TsReplayGroup *g, int n, const TsReplayMeeting *m, TsError *err);
int ts_replay_group_flush(TsReplayGroup *g, TsError *err);
/* *whole: nothing was flushed in between. Where a launch failed, nobody waits any more, and
 * words by which devices wait (devices/flags.h) are new. */
int ts_replay_group_end(TsReplayGroup *g, bool *whole, TsError *err);

/* How its launches go and why so, in words; whole: as a comment, and the program of a
 * persistent one (jit/launch/replay_persistent.c). */
void ts_replay_persistent_text(const TsReplay *r, bool whole, TsText *text);

typedef struct TsReplayStats {
  int64_t runs, launches; /* of records; of kernels in them */
  int64_t early;          /* of these, that begin before the one in front of them ends */
} TsReplayStats;
TsReplayStats ts_replay_stats(void); /* of all functions */

#endif
