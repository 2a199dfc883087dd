/* Who was waited for in vain, and in what. */
#include "jit/collective/collective.h"
#include "jit/collective/state.h"
#include "vm/core/context.h"
#include "vm/mesh/collective.h"

enum { GROUPS = 64 };

/* The numbers of the last operations of each group, among those that were noted. */
static struct {
  const TsFlags *of;
  uint64_t noted[TS_FLAGS_RECENT];
} recent[GROUPS];

static uint64_t *noted_of(const TsFlags *f, uint64_t which) {
  int i = 0;
  while (i < GROUPS - 1 && recent[i].of && recent[i].of != f) i++;
  recent[i].of = f;
  return &recent[i].noted[which % TS_FLAGS_RECENT];
}

void ts_collective_queued(TsFlags *f, int nth, int n) {
  uint64_t total = 0;
  ts_collective_noted(0, &total);
  f->used = true, f->done++;
  *noted_of(f, f->done) = total - (uint64_t)(n - 1 - nth);
}

static const TsCollective *what(const TsFlags *f, uint64_t which, uint64_t done) {
  uint64_t total = 0;
  if (!which || which > done || which + TS_FLAGS_RECENT <= done) return NULL;
  uint64_t number = *noted_of(f, which);
  ts_collective_noted(0, &total);
  return number && number <= total ? ts_collective_noted((int)(total - number), &total) : NULL;
}

static int say(TsContext *c, const TsFlags *f, int who, int missing, const TsCollective *k) {
  char before[TS_META_TEXT], after[TS_META_TEXT];
  if (!k)
    ts_error_set(&c->err, TS_ERR_device, "%s did not come to a collective in which %s waited",
                 f->device[missing]->name, f->device[who]->name);
  else
    ts_error_set(
        &c->err, TS_ERR_device, "%s did not come to %s of %s: %s -> %s%s%s%s: %s waited",
        f->device[missing]->name, ts_collective_name(k->kind), k->asks ? k->asks : "a call",
        ts_meta_text(&k->before, before), ts_meta_text(&k->meta, after), *k->place ? " (" : "",
        k->place, *k->place ? ")" : "", f->device[who]->name);
  return ts_error_hint(&c->err,
                       "for %d ms; sums since then are wrong, and so is what was made of them",
                       TS_FLAGS_PATIENCE);
}

int ts_collective_tell(TsContext *c) {
  TsFlags *f;
  for (int i = 0; (f = ts_flags_at(i)); i++) {
    int who = 0, missing = 0;
    uint64_t which = 0, done = f->done;
    if (!f->used) continue;
    int bad = ts_flags_look(f, &who, &missing, &which, &c->err);
    if (bad) return bad < 0 ? -1 : say(c, f, who, missing, what(f, which, done));
  }
  return 0;
}
