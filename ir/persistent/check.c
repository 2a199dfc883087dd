/* The proof that a program may be launched.
 *
 * Needs: tasks with what they touch, waits, counters, blocks. Keeps the program. Gives 0, or -1
 * with what is wrong. Four things are proven, in the order of the functions:
 *
 *   counters: each has one task, whose turns add up to what is waited for.
 *
 *   No deadlock: all blocks run at the same time, each does its turns in the order of the tasks,
 *   and waits for earlier tasks alone. Of those that wait the one with the earliest task waits for
 *   turns that nobody keeps from being done. Turns of a task that wait for each other have a block
 *   each, and begin without waiting for one another.
 *
 *   Order: of two tasks of which one writes what the other touches, the later one's turns come
 *   behind those of the earlier one that touch the same: by a wait for all of its turns, or for
 *   the counters of those turns, or behind a task that came behind all of it.
 *
 *   Ahead: nobody writes what is fetched before a wait.
 *
 * What tasks touch is what ir/persistent/footprint.c finds in their kernels. */
#include <stdlib.h>
#include <string.h>

#include "ir/persistent/program.h"

typedef struct Check {
  const TsPersistent *p;
  int words;
  uint64_t *behind; /* by task: tasks of which all is over before a turn of it begins */
  TsError *err;
} Check;

static int wrong(const Check *c, const char *rule, int a, int b) {
  const TsPersistent *p = c->p;
  const char *name[2] = {p->task[a].k->name, b >= 0 ? p->task[b].k->name : ""};
  if (b < 0)
    return ts_error_set(c->err, TS_ERR_value, "persistent: task %d (@%.40s) %s", a, name[0],
                        rule);
  return ts_error_set(c->err, TS_ERR_value, "persistent: task %d (@%.40s) %s task %d (@%.40s)",
                      a, name[0], rule, b, name[1]);
}

/* ---- counters */
static int counters(const Check *c) {
  const TsPersistent *p = c->p;
  int next = 0;
  for (int i = 0; i < p->ntask; i++) {
    const TsPersistentTask *t = &p->task[i];
    if (t->counter != next || t->npiece < 1 || t->npiece > TS_PERSISTENT_PIECES || t->piece < 1)
      return wrong(c, "has counters that are not its own", i, -1);
    if ((t->npiece - 1) * t->piece >= t->turns || t->npiece * t->piece < t->turns)
      return wrong(c, "has turns without a counter", i, -1);
    if (t->side < 1 || t->turns != (t->rounds + t->side - 1) / t->side)
      return wrong(c, "has rounds without a turn", i, -1);
    next += t->npiece;
  }
  if (next == p->ncounter) return 0;
  return ts_error_set(c->err, TS_ERR_value, "persistent: %d counters, not %d", p->ncounter,
                      next);
}

/* ---- deadlock */
static int waits(const Check *c, int i) {
  const TsPersistentTask *t = &c->p->task[i];
  for (int k = 0; k < t->nwait; k++) {
    const TsPersistentWait *w = &t->wait[k];
    if (w->task < 0 || w->task >= c->p->ntask)
      return wrong(c, "waits for a task that there is not", i, -1);
    if (w->task >= i)
      return wrong(c, "waits for a task that is not in front of it:", i, w->task);
    for (int64_t s = 0; w->range && s < t->turns; s++)
      if (w->range[2 * s] < 0 || w->range[2 * s] > w->range[2 * s + 1] ||
          w->range[2 * s + 1] > c->p->task[w->task].npiece)
        return wrong(c, "waits for counters that are not those of", i, w->task);
  }
  return 0;
}

static int deadlocks(const Check *c) {
  const TsPersistent *p = c->p;
  if (p->blocks < 1 || p->blocks > p->resident)
    return ts_error_set(
        c->err, TS_ERR_value,
        "persistent: %lld blocks wait for each other, of which %lld run at a time",
        (long long)p->blocks, (long long)p->resident);
  for (int i = 0; i < p->ntask; i++) {
    const TsPersistentTask *t = &p->task[i];
    if (t->first < 0 || t->first >= p->blocks)
      return wrong(c, "begins at a block that there is not", i, -1);
    if (t->chained && t->turns > p->blocks)
      return wrong(c, "has turns that wait for each other, and no block for each", i, -1);
    for (int k = 0; k < t->nwait && t->chained; k++)
      if (t->wait[k].range)
        return wrong(c, "has turns that wait for each other, and begins by parts of", i,
                     t->wait[k].task);
    if (waits(c, i)) return -1;
  }
  return 0;
}

/* ---- order */
static uint64_t *row(const Check *c, int i) { return c->behind + (size_t)i * (size_t)c->words; }
static bool has(const uint64_t *set, int i) { return set[i / 64] >> i % 64 & 1; }

/* What no counter says all turns of t wait for. */
static bool waits_for_some(const TsPersistentTask *t, const TsPersistentWait *w) {
  for (int64_t s = 0; w->range && s < t->turns; s++)
    if (w->range[2 * s] == w->range[2 * s + 1]) return false;
  return true;
}

static void close(const Check *c, int i) {
  const TsPersistentTask *t = &c->p->task[i];
  uint64_t *own = row(c, i);
  for (int k = 0; k < t->nwait; k++) {
    const TsPersistentWait *w = &t->wait[k];
    if (!waits_for_some(t, w)) continue;
    const uint64_t *other = row(c, w->task);
    for (int q = 0; q < c->words; q++) own[q] |= other[q];
    if (!w->range) own[w->task / 64] |= 1ull << w->task % 64;
  }
}

/* Whether turn s of t comes behind turn r of task a. */
static bool comes_behind(const TsPersistentTask *t, int64_t s, int a, int64_t piece) {
  for (int k = 0; k < t->nwait; k++) {
    const TsPersistentWait *w = &t->wait[k];
    if (w->task == a &&
        (!w->range || (w->range[2 * s] <= piece && piece < w->range[2 * s + 1])))
      return true;
  }
  return false;
}

/* Of turn s of t, what it touches; all where that is not known. */
static TsPersistentBytes bytes_of(const TsPersistentTask *t, int touch, int64_t s) {
  const TsPersistentTouch *x = &t->touch[touch];
  return x->turn ? x->turn[s] : x->all;
}

static bool waits_fine(const TsPersistentTask *t, int a) {
  for (int k = 0; k < t->nwait; k++)
    if (t->wait[k].task == a) return true;
  return false;
}

static bool in_order(const TsPersistentTask *a, int number, int x, const TsPersistentTask *b,
                     int y) {
  for (int64_t s = 0; s < b->turns; s++)
    for (int64_t r = 0; r < a->turns; r++)
      if (ts_persistent_overlap(bytes_of(a, x, r), bytes_of(b, y, s)) &&
          !comes_behind(b, s, number, r / a->piece))
        return false;
  return true;
}

static int pair(const Check *c, int i, int k) {
  const TsPersistentTask *a = &c->p->task[k], *b = &c->p->task[i];
  for (int x = 0; x < a->ntouch; x++)
    for (int y = 0; y < b->ntouch; y++) {
      bool writes = a->touch[x].write, after = b->touch[y].write;
      if (!(writes || after) || !ts_persistent_overlap(a->touch[x].all, b->touch[y].all))
        continue;
      if (waits_fine(b, k) && in_order(a, k, x, b, y)) continue;
      return wrong(c,
                   writes && after ? "writes what no wait puts behind the writes of"
                   : writes        ? "reads what no wait puts behind the writes of"
                                   : "writes what no wait puts behind the reads of",
                   i, k);
    }
  return 0;
}

static int order(const Check *c) {
  for (int i = 0; i < c->p->ntask; i++) {
    close(c, i);
    for (int k = 0; k < i; k++)
      if (!has(row(c, i), k) && pair(c, i, k)) return -1;
  }
  return 0;
}

/* ---- what is fetched ahead */
static int ahead(const Check *c) {
  const TsPersistent *p = c->p;
  for (int i = 0; i < p->ntask; i++)
    for (int a = 0; a < p->task[i].nahead; a++)
      for (int k = 0; k < p->ntask; k++)
        for (int x = 0; x < p->task[k].ntouch; x++)
          if (p->task[k].touch[x].write &&
              ts_persistent_overlap(p->task[k].touch[x].all, p->task[i].ahead[a]))
            return wrong(c, "fetches before it waits what is written by", i, k);
  return 0;
}

int ts_persistent_check(const TsPersistent *p, TsError *err) {
  Check c = {.p = p, .words = p->ntask / 64 + 1, .err = err};
  c.behind = calloc((size_t)p->ntask * (size_t)c.words + 1, sizeof *c.behind);
  if (!c.behind) return ts_error_memory(err);
  int failed = counters(&c) || deadlocks(&c) || order(&c) || ahead(&c);
  free(c.behind);
  return failed ? -1 : 0;
}
