/* Who was waited for in vain, and in what. */
#include <stdlib.h>
#include <string.h>

#include "devices/aside.h"
#include "jit/collective/collective.h"
#include "jit/collective/state.h"
#include "vm/core/context.h"
#include "vm/mesh/collective.h"

/* The last operations of each group: their meetings, begin < number <= end, and which they are
 * of those that were noted. */
typedef struct Operation {
  uint64_t begin, end, noted;
} Operation;

typedef struct Recent {
  const TsFlags *of;
  int next;
  Operation last[TS_FLAGS_RECENT];
} Recent;

static int64_t queued;

int64_t ts_collective_meetings(void) { return queued; }

static Recent **recent;
static int nrecent;

/* NULL: there is no memory, and an error will not say in what somebody was missing. */
static Recent *recent_of(const TsFlags *f) {
  int i = 0;
  while (i < nrecent && recent[i]->of != f) i++;
  if (i < nrecent) return recent[i];
  Recent **all = realloc(recent, sizeof *all * (size_t)(nrecent + 1));
  if (all) recent = all;
  Recent *r = all ? calloc(1, sizeof *r) : NULL;
  if (!r) return NULL;
  r->of = f;
  return recent[nrecent++] = r;
}

void ts_collective_queued(TsFlags *f, int64_t meetings, int nth, int n) {
  uint64_t total = 0, begin = f->done;
  Recent *r = recent_of(f);
  ts_collective_noted(0, &total);
  for (int k = 0; k < f->n; k++) /* words of a lane are of one order of a device alone */
    if (ts_device_aside_on(f->device[k]) != (f->lane != 0))
      TS_BUG("%s meets others in the wrong order of its work", f->device[k]->name);
  queued += meetings;
  f->used = true, f->done += (uint64_t)meetings;
  if (!r) return;
  if (!begin) memset(r->last, 0, sizeof r->last); /* words are new */
  r->last[r->next] = (Operation){begin, f->done, total - (uint64_t)(n - 1 - nth)};
  r->next = (r->next + 1) % TS_FLAGS_RECENT;
}

static const TsCollective *what(const TsFlags *f, uint64_t which) {
  uint64_t total = 0, number = 0;
  const Recent *r = recent_of(f);
  for (int i = 0; i < TS_FLAGS_RECENT && r; i++)
    if (r->last[i].begin < which && which <= r->last[i].end) number = r->last[i].noted;
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
  return ts_error_hint(
      &c->err,
      "for %lld ms, as dist.patience says; sums since then are wrong, and so is what "
      "was made of them",
      (long long)ts_flags_patience(0));
}

int ts_collective_tell(TsContext *c) {
  TsFlags *f;
  for (int i = 0; (f = ts_flags_at(i)); i++) {
    int who = 0, missing = 0;
    uint64_t which = 0;
    if (!f->used) continue;
    int bad = ts_flags_look(f, &who, &missing, &which, &c->err);
    if (bad) return bad < 0 ? -1 : say(c, f, who, missing, what(f, which));
  }
  return 0;
}
