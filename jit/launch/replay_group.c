/* Replay on several devices whose kernels wait for each other: see jit/launch/replay.h. A launch that waits
 * for others may be put off, as long as all of them are; so what one device launches, all do. */
#include <stdlib.h>

#include "devices/flags.h"
#include "devices/meet.h"
#include "jit/launch/replay_state.h"

/* ---- of a group: in the order of the program */
static TsReplay *next_of(const TsReplayGroup *g) {
  TsReplay *next = NULL;
  for (int i = 0; i < g->n; i++) {
    TsReplay *r = g->member[i];
    if (r->launched < r->now.n &&
        (!next || r->now.launch[r->launched].order < next->now.launch[next->launched].order))
      next = r;
  }
  return next;
}

/* Some may wait for launches that never come: that ends, and words by which they wait begin anew, before
 * memory that they use goes. */
static void forsake(void) {
  TsFlags *f;
  for (int i = 0; (f = ts_flags_at(i)); i++)
    if (f->lane == ts_flags_lane()) ts_flags_drop(f); /* others' launches are all there */
}

/* Those that wait for each other follow each other, with no code loaded in between. */
int ts_replay_group_rest(TsReplayGroup *g, TsError *err) {
  int failed = 0;
  bool together = false;
  for (int i = 0; i < g->n; i++) g->member[i]->off = g->member[i]->busy = true;
  for (TsReplay *r; !failed && (r = next_of(g)); r->launched++) {
    bool meets = r->now.launch[r->launched].meets;
    if (meets != together) ts_device_together(together = meets);
    failed = ts_replay_step(r, r->launched, err);
  }
  if (together) ts_device_together(false);
  for (int i = 0; i < g->n; i++)
    g->member[i]->launched = g->member[i]->now.n, g->member[i]->busy = false;
  if (failed) forsake();
  return failed;
}

/* ---- groups */
void ts_replay_group_begin(TsReplayGroup *g) {
  g->order = 0, g->meeting = g->due = false;
  for (int i = 0; i < g->n; i++) ts_replay_begin(g->member[i]);
}

TsReplay *ts_replay_group_of(const TsReplayGroup *g, const TsDevice *d) {
  for (int i = 0; i < g->n; i++)
    if (g->member[i]->d == d) return g->member[i];
  return NULL;
}

int ts_replay_group_flush(TsReplayGroup *g, TsError *err) {
  for (int i = 0; i < g->n; i++) g->member[i]->off = g->member[i]->cut = true;
  return ts_replay_group_rest(g, err);
}

static bool all_record(const TsReplayGroup *g, int n, const TsReplayMeeting *m) {
  for (int i = 0; i < n; i++)
    if (m[i].nparam > MOST_ARGS || !ts_device_kernel_records(m[i].kernel, m[i].arg) ||
        !ts_replay_group_of(g, ts_device_kernel_device(m[i].kernel)))
      return false;
  return true;
}

/* What cannot be put off goes behind what was. */
static int meet_now(TsReplayGroup *g, int n, const TsReplayMeeting *m, TsError *err) {
  int failed = ts_replay_group_flush(g, err);
  if (failed) return -1;
  ts_device_together(true);
  for (int i = 0; i < n && !failed; i++)
    failed = ts_device_kernel_run(m[i].kernel, m[i].arg, m[i].dim, err);
  ts_device_together(false);
  return failed;
}

/* All of them are put off or none is, whatever memory there is. */
int ts_replay_group_meet(TsReplayGroup *g, int n, const TsReplayMeeting *m, TsError *err) {
  int before[TS_MAX_DEVICES][3], failed = 0;
  if (!all_record(g, n, m)) return meet_now(g, n, m, err);
  for (int i = 0; i < g->n; i++) {
    const Sequence *s = &g->member[i]->now;
    before[i][0] = s->n, before[i][1] = s->nword, before[i][2] = s->naccess;
  }
  g->meeting = true;
  for (int i = 0; i < n && !failed; i++) {
    TsReplay *r = ts_replay_group_of(g, ts_device_kernel_device(m[i].kernel));
    int had = r->now.n;
    if (!ts_replay_has_room(r, m[i].nparam + m[i].ndim))
      failed = ts_error_memory(err);
    else
      failed =
          ts_replay_launch(r, m[i].kernel, m[i].nparam, m[i].arg, m[i].ndim, m[i].dim, err);
    TS_ASSERT(failed || r->now.n == had + 1);
  }
  g->meeting = false;
  for (int i = 0; i < g->n && failed; i++) {
    Sequence *s = &g->member[i]->now;
    s->n = before[i][0], s->nword = before[i][1], s->naccess = before[i][2];
  }
  if (failed) { /* what waits by these words is launched before they go */
    TsError ignored;
    g->due = false;
    (void)ts_replay_group_flush(g, &ignored);
    return -1;
  }
  if (!g->due) return 0;
  g->due = false;
  return ts_replay_group_rest(g, err);
}

/* One record a device, if all have one. Code of records is there before one of them runs. */
static int launch_records(TsReplayGroup *g, TsError *err) {
  bool ready = true;
  int failed = 0;
  for (int i = 0; i < g->n; i++) {
    TsReplay *r = g->member[i];
    r->busy = true;
    if (r->known) ts_replay_prepare(r, r->known);
    r->busy = false;
    ready &= !r->now.n || (r->known && r->known->record);
  }
  if (!ready) return ts_replay_group_rest(g, err);
  ts_device_together(true);
  for (int i = 0; i < g->n && !failed; i++) {
    TsReplay *r = g->member[i];
    if (r->now.n) failed = r->d->run->record_launch(r->d, r->known->record, err);
    r->launched = r->now.n;
  }
  ts_device_together(false);
  if (failed) forsake();
  return failed;
}

int ts_replay_group_end(TsReplayGroup *g, bool *whole, TsError *err) {
  bool known = true, cut = false;
  for (int i = 0; i < g->n; i++) {
    TsReplay *r = g->member[i];
    r->known = ts_replay_known(r);
    known &= r->known || !r->now.n;
    cut |= r->cut;
  }
  int failed = known && !cut ? launch_records(g, err) : ts_replay_group_rest(g, err);
  for (int i = 0; i < g->n; i++) {
    TsReplay *r = g->member[i];
    if (!r->known && !r->cut && r->now.n >= LEAST) ts_replay_keep(r);
    ts_replay_hold(r, false);
  }
  *whole = !cut;
  return failed;
}

void ts_replay_group_free(TsReplayGroup *g) {
  for (int i = 0; g && i < g->n; i++) ts_replay_free(g->member[i]);
  free(g);
}

TsReplayGroup *ts_replay_group_new(int n, TsDevice *const *list) {
  TsReplayGroup *g = calloc(1, sizeof *g);
  for (int i = 0; g && i < n; i++) {
    if (!(g->member[i] = ts_replay_new(list[i]))) return ts_replay_group_free(g), NULL;
    g->member[i]->group = g;
    g->n++;
  }
  return g;
}
