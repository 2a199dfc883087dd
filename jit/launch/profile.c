/* See jit/launch/profile.h. The thread of the context alone launches, so nothing here is locked. */
#include "jit/launch/profile.h"

#include "jit/device/marks.h"
#include "lib/clock.h"
#include "lib/activity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
  bool on;
  TsProfileRow next; /* what is launched next */
  double far;        /* bytes of it over links */
  TsProfileRow *row;
  int n, cap;
} profile;

bool ts_profile_on(void) { return profile.on || ts_activities; }

void ts_profile_start(void) {
  profile.n = 0, profile.far = 0;
  profile.on = true;
}

void ts_profile_stop(void) { profile.on = false; }

void ts_profile_label(const char *name, double bytes, double flops) {
  if (!ts_profile_on()) return;
  profile.next = (TsProfileRow){.bytes = bytes, .flops = flops};
  snprintf(profile.next.name, sizeof profile.next.name, "%s", name ? name : "");
}

void ts_profile_far(double bytes) { profile.far += bytes; }

static TsProfileRow *row_of(const char *name) {
  for (int i = 0; i < profile.n; i++)
    if (!strcmp(profile.row[i].name, name)) return &profile.row[i];
  if (profile.n == profile.cap) {
    int cap = profile.cap ? 2 * profile.cap : 64;
    TsProfileRow *more = realloc(profile.row, sizeof *more * (size_t)cap);
    if (!more) return NULL;
    profile.row = more, profile.cap = cap;
  }
  TsProfileRow *r = &profile.row[profile.n++];
  *r = (TsProfileRow){.count = 0};
  memcpy(r->name, name, sizeof r->name);
  return r;
}

static void note(const char *device, double usec) {
  TsProfileRow *next = &profile.next;
  if (!next->name[0]) snprintf(next->name, sizeof next->name, "without a name");
  TsProfileRow *r = profile.on ? row_of(next->name) : NULL;
  if (r) {
    r->count++;
    r->usec += usec, r->bytes += next->bytes, r->flops += next->flops;
  }
  TsActivity *w = ts_activity_begin(TS_ACTIVITY_kernel, next->name, device);
  if (w) ts_activity_leave(w, (int64_t)(usec * 1e3), (int64_t)next->bytes, next->flops);
  *next = (TsProfileRow){.count = 0};
}

/* Events of the device, made once; of one without events, the host's clock. */
static bool events_of(TsDevice *d, void *event[2]) {
  static void *kept[TS_MAX_DEVICES][2];
  TsError err = {0};
  if (!d->run || !d->run->event_new) return false;
  for (int i = 0; i < 2; i++) {
    if (!kept[d->index][i] && d->run->event_new(d, &kept[d->index][i], &err)) return false;
    event[i] = kept[d->index][i];
  }
  return true;
}

static int run(TsDeviceKernel *k, int n, void *const *arg, const int64_t *dim, TsError *err) {
  return n > 1 ? ts_device_kernel_run_many(k, n, arg, dim, err)
               : ts_device_kernel_run(k, arg, dim, err);
}

int ts_profile_launch_many(TsDeviceKernel *k, int n, void *const *arg, const int64_t *dim,
                           TsError *err) {
  TsDevice *d = ts_device_kernel_device(k);
  void *event[2];
  bool events = events_of(d, event);
  if (ts_marks_collecting())
    ts_marks_label(profile.next.name, profile.next.bytes, profile.far, profile.next.flops);
  profile.far = 0;
  double usec = ts_clock_usec();
  if (events && d->run->event_record(d, event[0], NULL, err)) return -1;
  if (run(k, n, arg, dim, err)) return -1;
  if (!events) return note(d->name, ts_clock_usec() - usec), 0;
  if (d->run->event_record(d, event[1], NULL, err) || d->run->event_wait(d, event[1], err) ||
      d->run->event_usec(d, event[0], event[1], &usec, err))
    return -1;
  note(d->name, usec);
  return 0;
}

int ts_profile_launch(TsDeviceKernel *k, void *const *arg, const int64_t *dim, TsError *err) {
  return ts_profile_launch_many(k, 1, arg, dim, err);
}

static int dearer(const void *a, const void *b) {
  double x = ((const TsProfileRow *)a)->usec, y = ((const TsProfileRow *)b)->usec;
  return (x < y) - (x > y);
}

const TsProfileRow *ts_profile_rows(int *n) {
  if (profile.n) qsort(profile.row, (size_t)profile.n, sizeof *profile.row, dearer);
  *n = profile.n;
  return profile.row;
}
