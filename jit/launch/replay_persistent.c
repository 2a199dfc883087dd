/* A sequence of launches as one persistent launch (jit/persistent/persistent.h), where that is
 * wanted; else, and where there is none, it is recorded. */
#include "jit/launch/replay_state.h"

#include <stdio.h>
#include <string.h>

enum { RESTLESS = 16 /* runs in a row that differ: a record is changed in less time */ };

static int each(void *with, TsError *err) {
  TsReplay *r = with;
  int failed = 0;
  for (int i = 0; i < r->now.n && !failed; i++)
    failed = ts_replay_launch_in(&r->now, i, r->now.launch[i].room, err);
  return failed;
}

void ts_replay_persistent_drop(Sequence *s) {
  ts_persistent_close(s->persistent);
  s->persistent = NULL;
  s->alone = false;
  s->changed = 0;
}

static bool same(const Sequence *a, const Sequence *b) {
  for (int i = 0; i < a->n; i++)
    if (a->launch[i].room != b->launch[i].room) return false;
  return !memcmp(a->word, b->word, sizeof *a->word * (size_t)a->nword);
}

static bool without(TsReplay *r, Sequence *s, const char *why) {
  ts_replay_persistent_drop(s);
  s->alone = true;
  snprintf(r->why, sizeof r->why, "%s", why);
  return false;
}

static bool again(TsReplay *r, Sequence *s) {
  TsError err = {0};
  if (same(s, &r->now)) return s->changed = 0, true;
  if (++s->changed > RESTLESS)
    return without(r, s, "addresses or sizes of its kernels differ from call to call");
  if (!ts_persistent_again(s->persistent, each, r, &err)) return true;
  return without(r, s, err.code ? err.message : "its kernels are others than before");
}

bool ts_replay_persistent(TsReplay *r, Sequence *s) {
  TsError err = {0};
  bool wanted = ts_persistent_wanted()->on && !r->group;
  if (!wanted && s->persistent) ts_replay_persistent_drop(s);
  if (!wanted || s->alone) return false;
  if (s->persistent) return again(r, s);
  if (!(s->persistent = ts_persistent_open(r->d, each, r, &err)))
    return without(r, s, err.message);
  r->why[0] = 0;
  return true;
}

/* ---- for people */
void ts_replay_persistent_text(const TsReplay *r, bool whole, TsText *text) {
  const Sequence *s = NULL;
  for (int k = 0; k < KEPT; k++)
    if (r->kept[k].n && (!s || r->kept[k].used > s->used)) s = &r->kept[k];
  bool on = ts_persistent_wanted()->on;
  if (whole) ts_text_str(text, "// launches: ");
  if (s && s->persistent)
    ts_persistent_summary(ts_persistent_of(s->persistent), text);
  else if (s && s->record)
    ts_text_format(text, "%d, replayed as one record", s->n);
  else if (s)
    ts_text_format(text, "%d, one behind the other", s->n);
  else
    ts_text_str(text, "none that repeat so far");
  if (!on)
    ts_text_str(text, "; no persistent kernel: jit.persistent is off");
  else if (r->why[0] && !(s && s->persistent))
    ts_text_format(text, "; no persistent kernel: %s", r->why);
  if (whole) ts_text_char(text, '\n');
  if (whole && s && s->persistent) ts_persistent_text(ts_persistent_of(s->persistent), text);
}
