/* See devices/flags.h. */
#include "devices/flags.h"

#include <stdlib.h>
#include <string.h>

#include "devices/aside.h"

enum { MOST = 64 }; /* groups that have words, which may have much room */

static TsFlags **group;
static int ngroup, cap, turned;
static uint64_t asked; /* how often anyone asked for a group */

void ts_flags_turn(int lane) { turned = lane; }
int ts_flags_lane(void) { return turned; }

int64_t ts_flags_patience(int64_t ms) {
  static int64_t patience = 4000;
  if (ms > 0) patience = ms;
  return patience;
}

TsFlags *ts_flags_at(int i) { return i < ngroup ? group[i] : NULL; }

static int64_t nbytes(const TsFlags *f) { return ts_flags_words(f->n) * 4; }

static void drop_room(TsFlags *f) {
  int64_t size = (int64_t)TS_FLAGS_ROOM * TS_FLAGS_ROOMS;
  for (int i = 0; i < f->n; i++) {
    if (f->room[i]) f->device[i]->free(f->device[i], f->room[i], size);
    f->room[i] = NULL;
  }
}

static void drop_words(TsFlags *f) {
  for (int i = 0; i < f->n; i++) {
    if (f->words[i]) f->device[i]->free(f->device[i], f->words[i], nbytes(f));
    f->words[i] = NULL;
  }
  drop_room(f);
  f->used = false, f->done = 0;
}

/* All are zeros before one of them runs anything that looks at them. */
static int make_words(TsFlags *f, TsError *err) {
  void *zeros = calloc(1, (size_t)nbytes(f));
  int failed = zeros ? 0 : ts_error_memory(err);
  for (int i = 0; i < f->n && !failed; i++) {
    TsDevice *d = f->device[i];
    failed = ts_device_use(d, err) || !(f->words[i] = d->alloc(d, nbytes(f), err)) ||
             d->upload(d, f->words[i], zeros, nbytes(f), err);
  }
  for (int i = 0; i < f->n && !failed; i++)
    if (f->device[i]->synchronize) failed = f->device[i]->synchronize(f->device[i], err);
  if (failed) drop_words(f);
  free(zeros);
  return failed ? -1 : 0;
}

static TsFlags *find(int n, TsDevice *const *list, int lane) {
  for (int i = 0; i < ngroup; i++)
    if (group[i]->n == n && group[i]->lane == lane &&
        !memcmp(group[i]->device, list, sizeof *list * (size_t)n))
      return group[i];
  return NULL;
}

static TsFlags *add(int n, TsDevice *const *list, int lane, TsError *err) {
  if (ngroup == cap) {
    int more = cap ? 2 * cap : MOST;
    TsFlags **all = realloc(group, sizeof *all * (size_t)more);
    if (!all) return ts_error_memory(err), NULL;
    group = all, cap = more;
  }
  TsFlags *f = calloc(1, sizeof *f);
  if (!f) return ts_error_memory(err), NULL;
  f->n = n, f->lane = lane;
  memcpy(f->device, list, sizeof *list * (size_t)n);
  return group[ngroup++] = f;
}

/* Where as many groups have words as may, the one that nobody has asked for the longest loses
 * its own: of those that were looked at since they were used, so that nobody who is missing is
 * forgotten. */
static int make_place(TsError *err) {
  TsFlags *oldest = NULL;
  int n = 0;
  for (int i = 0; i < ngroup; i++) {
    TsFlags *f = group[i];
    if (!f->words[0]) continue;
    n++;
    if (!f->used && (!oldest || f->asked < oldest->asked)) oldest = f;
  }
  if (n < MOST) return 0;
  if (!oldest)
    return ts_error_set(err, TS_ERR_device, "more than %d groups of devices at work", MOST);
  ts_flags_drop(oldest);
  return 0;
}

TsFlags *ts_flags_of(int n, TsDevice *const *list, int lane, TsError *err) {
  TsFlags *f = find(n, list, lane);
  if (!f && !(f = add(n, list, lane, err))) return NULL;
  f->asked = ++asked;
  return f->words[0] || (!make_place(err) && !make_words(f, err)) ? f : NULL;
}

int ts_flags_make_room(TsFlags *f, TsError *err) {
  int64_t size = (int64_t)TS_FLAGS_ROOM * TS_FLAGS_ROOMS;
  bool failed = false;
  if (f->room[0]) return 0;
  for (int i = 0; i < f->n && !failed; i++) {
    TsDevice *d = f->device[i];
    failed = ts_device_use(d, err) || !(f->room[i] = d->alloc(d, size, err));
  }
  if (failed) drop_room(f);
  return failed ? -1 : 0;
}

void ts_flags_drop(TsFlags *f) {
  TsError ignored = {0};
  for (int i = 0; i < f->n; i++)
    if (f->device[i]->synchronize) f->device[i]->synchronize(f->device[i], &ignored);
  drop_words(f);
}

void ts_flags_close(void) {
  for (int i = 0; i < ngroup; i++) {
    if (group[i]->words[0]) ts_flags_drop(group[i]);
    free(group[i]);
  }
  free(group);
  group = NULL, ngroup = cap = 0;
}

/* The first word says who was missed, and slot 0, in which every operation meets, how many
 * meetings a device has been through. */
int ts_flags_look(TsFlags *f, int *who, int *missing, uint64_t *which, TsError *err) {
  for (int i = 0; i < f->n && f->lane; i++) /* it is looked at when it has landed */
    if (ts_device_aside_flying(f->device[i])) return 0;
  int64_t own = 2 + f->n;
  int32_t *read = malloc(sizeof *read * (size_t)(own * f->n));
  int found = -1, failed = read ? 0 : ts_error_memory(err);
  if (!f->words[0] || failed) return free(read), failed;
  for (int i = 0; i < f->n && !failed; i++) {
    TsDevice *d = f->device[i];
    failed = d->download(d, read + i * own, f->words[i], own * 4, err);
  }
  for (int i = 0; i < f->n && !failed && found < 0; i++)
    if (read[i * own] > 0 && read[i * own] <= f->n) found = i;
  if (found >= 0) {
    *who = found, *missing = (int)read[found * own] - 1;
    *which = (uint32_t)read[*missing * own + 1 + f->n] + 1;
  }
  free(read);
  f->used = false;
  if (found < 0) return failed ? -1 : 0;
  ts_flags_drop(f);
  return 1;
}
