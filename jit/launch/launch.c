/* See jit/launch/launch.h. */
#include "jit/launch/launch.h"

#include "devices/meet.h"
#include "jit/device/marks.h"
#include "jit/launch/dependent.h"
#include "jit/launch/profile.h"
#include "jit/persistent/persistent.h"
#include "vm/core/tensor.h"

int ts_launch_small_ones(TsContext *c) {
  TsLaunches *l = ts_launches(c);
  c->waiting = l->guarded;
  return ts_replay_window_end(&l->window, &c->err);
}

/* ---- what launches touch */
void ts_launch_touch_bytes(TsContext *c, const void *at, int64_t nbytes, bool write) {
  TsLaunches *l = ts_launches(c);
  TsLaunchTouched *t = &l->touched;
  if (l->prepares) return;
  if (l->replay) {
    ts_replay_touch(l->replay, at, nbytes, write);
  } else if (nbytes > 0 && t->n >= 0) {
    bool room = t->n < TS_LAUNCH_TOUCHES;
    if (room) t->of[t->n] = (TsAccess){(uintptr_t)at, (uint64_t)nbytes, write};
    t->n = room ? t->n + 1 : -1;
  }
}

/* From the first element on, or before it where strides are negative. */
void ts_launch_touch(TsContext *c, const TsTensor *t, const void *at, bool write) {
  int64_t below = 0, above = ts_tensor_numel(t) > 0, size = ts_dtypes[t->meta.dtype].nbytes;
  for (int i = 0; i < t->meta.ndim && above; i++) {
    int64_t far = (t->meta.dim[i] - 1) * t->stride[i];
    *(far < 0 ? &below : &above) += far;
  }
  bool whole = ts_dtype_in_blocks(t->meta.dtype);
  int64_t nbytes = whole ? t->storage->nbytes : (above - below) * size;
  if (t->storage->lent && ts_profile_on()) ts_profile_far((double)nbytes);
  ts_launch_touch_bytes(c, (const char *)at + below * size, nbytes, write);
}

/* ---- launches */
/* Kernels that need memory of their own may find none where garbage holds it. */
static int run_kernel(TsContext *c, TsDeviceKernel *k, void *const *arg, const int64_t *dim) {
  int failed = ts_device_kernel_run(k, arg, dim, &c->err);
  return failed && ts_context_once_more(c) ? ts_device_kernel_run(k, arg, dim, &c->err)
                                           : failed;
}

/* What was said is of this launch alone. */
static int run_touching(TsContext *c, TsDeviceKernel *k, void *const *arg, const int64_t *dim) {
  TsDevice *d = ts_device_kernel_device(k);
  TsLaunchTouched *t = &ts_launches(c)->touched;
  TsAccesses a = {t->of, t->n};
  ts_dependent_begin(d, &a, &(TsDependentRun){k, arg, dim});
  int failed = run_kernel(c, k, arg, dim);
  ts_dependent_end(d, &a, failed);
  t->n = 0;
  return failed;
}

/* Who puts launches of k off, or NULL. What was said of the next one is of that. */
static TsReplay *replay_of(TsLaunches *l, const TsDeviceKernel *k) {
  TsLaunchTouched *t = &l->touched;
  if (l->replay || !l->group) return l->replay;
  TsReplay *r = ts_replay_group_of(l->group, ts_device_kernel_device(k));
  if (r && t->n < 0) ts_replay_touch_all(r);
  for (int i = 0; r && i < t->n; i++)
    ts_replay_touch(r, (const void *)t->of[i].at, (int64_t)t->of[i].nbytes, t->of[i].write);
  if (r) t->n = 0;
  return r;
}

int ts_launch(TsContext *c, TsDeviceKernel *k, int nparam, void *const *arg, int ndim,
              const int64_t *dim) {
  TsLaunches *l = ts_launches(c);
  if (l->prepares) return 0;
  int failed = ts_launch_small_ones(c);
  TsReplay *r = failed || ts_profile_on() ? NULL : replay_of(l, k);
  if (!failed)
    failed = ts_profile_on() ? ts_profile_launch(k, arg, dim, &c->err)
             : r             ? ts_replay_launch(r, k, nparam, arg, ndim, dim, &c->err)
                             : run_touching(c, k, arg, dim);
  l->touched.n = 0;
  return failed;
}

int ts_launch_many(TsContext *c, TsDeviceKernel *k, int n, int nparam, void *const *arg,
                   int ndim, const int64_t *dim) {
  TsLaunches *l = ts_launches(c);
  if (n == 1) return ts_launch(c, k, nparam, arg, ndim, dim);
  TsReplay *r = ts_profile_on() ? NULL : replay_of(l, k);
  l->touched.n = 0;
  if (ts_launch_small_ones(c)) return -1;
  if (ts_profile_on()) return ts_profile_launch_many(k, n, arg, dim, &c->err);
  return r ? ts_replay_launch_many(r, k, n, n * nparam, arg, n * ndim, dim, &c->err)
           : ts_device_kernel_run_many(k, n, arg, dim, &c->err);
}

int ts_launch_small(TsContext *c, TsDeviceKernel *k, int nparam, void *const *arg, int ndim,
                    const int64_t *dim) {
  TsLaunches *l = ts_launches(c);
  if (l->prepares) return 0;
  int failed = ts_replay_window_launch(&l->window, ts_device_kernel_device(k), k, nparam, arg,
                                       ndim, dim, &c->err);
  c->waiting = l->window.on || l->guarded;
  return failed;
}

int ts_launch_meet(TsContext *c, int n, const TsReplayMeeting *m) {
  TsLaunches *l = ts_launches(c);
  l->touched.n = 0;
  if (l->group && !l->replay)
    return ts_launch_small_ones(c) || ts_replay_group_meet(l->group, n, m, &c->err) ? -1 : 0;
  int failed = ts_launch_flush(c);
  if (failed) return -1;
  ts_device_together(true);
  for (int i = 0; i < n && !failed; i++)
    failed = ts_device_kernel_run(m[i].kernel, m[i].arg, m[i].dim, &c->err);
  ts_device_together(false);
  return failed;
}

/* ---- functions */
void ts_launch_enter(TsContext *c, int device, void **slot) {
  TsLaunches *l = ts_launches(c);
  if (ts_launch_small_ones(c)) /* whoever waits for the device is told again */
    ts_error_clear(&c->err);
  if (!*slot) *slot = ts_replay_new(ts_device_at(device));
  l->replay = *slot;
  c->replaying = l->replay != NULL;
  if (l->replay) ts_replay_begin(l->replay);
}

int ts_launch_leave(TsContext *c) {
  TsReplay *r = ts_launches(c)->replay;
  ts_launches(c)->replay = NULL;
  c->replaying = false;
  int failed = r ? ts_replay_end(r, &c->err) : 0;
  if (r && ts_persistent_asks()) ts_launches(c)->guarded = c->waiting = true;
  return failed;
}

void ts_launch_forget(void *slot) { ts_replay_free(slot); }

int ts_launch_flush(TsContext *c) {
  const TsLaunches *l = ts_launches(c);
  if (ts_launch_small_ones(c)) return -1;
  if (l->group && ts_replay_group_flush(l->group, &c->err)) return -1;
  return l->replay ? ts_replay_flush(l->replay, &c->err) : 0;
}

/* ---- over several devices */
bool ts_launch_group_enter(TsContext *c, int n, TsDevice *const *list, TsReplayGroup **slot) {
  TsLaunches *l = ts_launches(c);
  if (c->replaying || l->prepares || ts_profile_on() || ts_marks_collecting()) return false;
  if (ts_launch_small_ones(c)) ts_error_clear(&c->err); /* as above */
  if (!*slot && !(*slot = ts_replay_group_new(n, list))) return false;
  l->group = *slot;
  c->replaying = true;
  ts_replay_group_begin(l->group);
  return true;
}

int ts_launch_group_leave(TsContext *c, bool *whole) {
  TsLaunches *l = ts_launches(c);
  TsReplayGroup *g = l->group;
  TsError kept = c->err; /* of what failed before */
  int failed = ts_launch_small_ones(c);
  l->group = NULL;
  c->replaying = false;
  if (ts_replay_group_end(g, whole, &c->err)) failed = -1;
  if (kept.code) c->err = kept;
  return failed;
}
