/* See jit/launch/replay_window.h. */
#include "jit/launch/replay_window.h"

enum {
  ENOUGH = 2 * TS_REPLAY_WINDOW, /* launches in a row before any is put off */
  PERIOD = TS_REPLAY_WINDOW / 2, /* the longest */
  MISSES = 2
};

static void over(TsReplayWindow *s) {
  s->on = false;
  s->n = s->missed = 0;
}

/* The shortest period of the last launches; 0: none. They lie in order when n is a multiple. */
static int period(const TsReplayWindow *s) {
  for (int p = 1; p <= PERIOD; p++) {
    int i = p;
    while (i < TS_REPLAY_WINDOW && s->recent[i] == s->recent[i - p]) i++;
    if (i == TS_REPLAY_WINDOW) return p;
  }
  return 0;
}

static void begin_window(TsReplayWindow *s) {
  s->left = s->window;
  ts_replay_begin(s->replay);
}

static bool begin(TsReplayWindow *s) {
  int p = s->n >= ENOUGH && s->n % TS_REPLAY_WINDOW == 0 ? period(s) : 0;
  if (!p || (!s->replay && !(s->replay = ts_replay_new(s->d)))) return false;
  s->window = TS_REPLAY_WINDOW / p * p;
  s->missed = 0;
  s->on = true;
  begin_window(s);
  return true;
}

static int end_window(TsReplayWindow *s, TsError *err) {
  s->missed = ts_replay_matches(s->replay) ? 0 : s->missed + 1;
  int failed = ts_replay_end(s->replay, err);
  if (failed || s->missed > MISSES)
    over(s);
  else
    begin_window(s);
  return failed;
}

static int another_device(TsReplayWindow *s, TsDevice *d, TsError *err) {
  int failed = ts_replay_window_end(s, err);
  ts_replay_free(s->replay);
  s->replay = NULL;
  s->d = d;
  return failed;
}

int ts_replay_window_launch(TsReplayWindow *s, TsDevice *d, TsDeviceKernel *k, int nparam,
                            void *const *arg, int ndim, const int64_t *dim, TsError *err) {
  if (d != s->d && another_device(s, d, err)) return -1;
  if (!s->on && !begin(s)) {
    s->recent[s->n++ % TS_REPLAY_WINDOW] = k;
    return ts_device_kernel_run(k, arg, dim, err);
  }
  if (ts_replay_launch(s->replay, k, nparam, arg, ndim, dim, err)) {
    TsError ignored = {0};
    ts_replay_window_end(s, &ignored);
    return -1;
  }
  return --s->left ? 0 : end_window(s, err);
}

int ts_replay_window_end(TsReplayWindow *s, TsError *err) {
  bool on = s->on;
  over(s);
  if (!on) return 0;
  TsError ignored = {0};
  int failed = ts_replay_flush(s->replay, err);
  ts_replay_end(s->replay, &ignored); /* of nothing any more */
  return failed;
}

void ts_replay_window_close(TsReplayWindow *s) {
  ts_replay_free(s->replay);
  *s = (TsReplayWindow){0};
}
