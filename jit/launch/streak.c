/* See jit/launch/streak.h. */
#include "jit/launch/streak.h"

enum {
  ENOUGH = 2 * STREAK_WINDOW, /* launches in a row before any is put off */
  PERIOD = STREAK_WINDOW / 2, /* the longest */
  MISSES = 2
};

static void over(TsStreak *s) {
  s->on = false;
  s->n = s->missed = 0;
}

/* The shortest period of the last launches; 0: none. They lie in order when n is a multiple. */
static int period(const TsStreak *s) {
  for (int p = 1; p <= PERIOD; p++) {
    int i = p;
    while (i < STREAK_WINDOW && s->recent[i] == s->recent[i - p]) i++;
    if (i == STREAK_WINDOW) return p;
  }
  return 0;
}

static void begin_window(TsStreak *s) {
  s->left = s->window;
  ts_replay_begin(s->replay);
}

static bool begin(TsStreak *s) {
  int p = s->n >= ENOUGH && s->n % STREAK_WINDOW == 0 ? period(s) : 0;
  if (!p || (!s->replay && !(s->replay = ts_replay_new(s->d)))) return false;
  s->window = STREAK_WINDOW / p * p;
  s->missed = 0;
  s->on = true;
  begin_window(s);
  return true;
}

static int end_window(TsStreak *s, TsError *err) {
  s->missed = ts_replay_matches(s->replay) ? 0 : s->missed + 1;
  int failed = ts_replay_end(s->replay, err);
  if (failed || s->missed > MISSES)
    over(s);
  else
    begin_window(s);
  return failed;
}

static int another_device(TsStreak *s, TsDevice *d, TsError *err) {
  int failed = ts_streak_end(s, err);
  ts_replay_free(s->replay);
  s->replay = NULL;
  s->d = d;
  return failed;
}

int ts_streak_launch(TsStreak *s, TsDevice *d, TsDeviceKernel *k, int nparam, void *const *arg,
                     int ndim, const int64_t *dim, TsError *err) {
  if (d != s->d && another_device(s, d, err)) return -1;
  if (!s->on && !begin(s)) {
    s->recent[s->n++ % STREAK_WINDOW] = k;
    return ts_device_kernel_run(k, arg, dim, err);
  }
  if (ts_replay_launch(s->replay, k, nparam, arg, ndim, dim, err)) {
    TsError ignored = {0};
    ts_streak_end(s, &ignored);
    return -1;
  }
  return --s->left ? 0 : end_window(s, err);
}

int ts_streak_end(TsStreak *s, TsError *err) {
  bool on = s->on;
  over(s);
  if (!on) return 0;
  TsError ignored = {0};
  int failed = ts_replay_flush(s->replay, err);
  ts_replay_end(s->replay, &ignored); /* of nothing any more */
  return failed;
}

void ts_streak_close(TsStreak *s) {
  ts_replay_free(s->replay);
  *s = (TsStreak){0};
}
