/* Who waits for whom.
 *
 * A task comes behind each earlier one that writes what it touches, or touches what it writes.
 * It waits for the nearest of them; who is behind those by their own waits has been waited for.
 * Where each turn of both tells what bytes it touches and a turn needs some of the other's
 * turns alone, it waits for the counters of those (a fine wait); who comes behind that task
 * through such a wait is not known to come behind all of it, so only whole waits carry on. */
#include <stdlib.h>
#include <string.h>

#include "ir/persistent/program.h"

enum {
  PAIRS = 1 << 16, /* of turns that are compared for one wait */
  LOOK = 1,        /* tasks that a block comes to before the one for which it fetches */
  AHEAD = 4096,    /* bytes that are worth a request */
  MOST_AHEAD =
      8 << 20, /* of a task. 24 MiB, or for a task further on, takes longer on an H100 */
};

static bool conflict(const TsPersistentTask *a, const TsPersistentTask *b) {
  for (int i = 0; i < a->ntouch; i++)
    for (int k = 0; k < b->ntouch; k++)
      if ((a->touch[i].write || b->touch[k].write) &&
          ts_persistent_overlap(a->touch[i].all, b->touch[k].all))
        return true;
  return false;
}

/* ---- fine waits */
static bool turns_meet(const TsPersistentTask *a, int64_t s, const TsPersistentTask *b,
                       int64_t t) {
  for (int i = 0; i < a->ntouch; i++)
    for (int k = 0; k < b->ntouch; k++)
      if ((a->touch[i].write || b->touch[k].write) &&
          ts_persistent_overlap(a->touch[i].turn[s], b->touch[k].turn[t]))
        return true;
  return false;
}

static bool says_turns(const TsPersistentTask *t) {
  for (int i = 0; i < t->ntouch; i++)
    if (!t->touch[i].turn) return false;
  return true;
}

/* What turn `at` of b needs of a's counters. */
static void range_of(const TsPersistentTask *a, const TsPersistentTask *b, int64_t at,
                     int32_t *from, int32_t *to) {
  *from = *to = 0;
  for (int64_t t = 0; t < a->turns; t++) {
    if (!turns_meet(a, t, b, at)) continue;
    int32_t piece = (int32_t)(t / a->piece);
    if (*to == *from) *from = piece;
    *to = piece + 1;
  }
}

/* The ranges of all turns, or NULL: each needs all, or it is not known. */
static const int32_t *ranges(TsPersistent *p, const TsPersistentTask *a,
                             const TsPersistentTask *b) {
  bool fine = false;
  if (a->npiece < 2 || !says_turns(a) || !says_turns(b) || a->turns > PAIRS / b->turns)
    return NULL;
  int32_t *list = ts_arena_alloc(&p->arena, sizeof *list * 2 * (size_t)b->turns);
  for (int64_t s = 0; s < b->turns && list; s++) {
    range_of(a, b, s, &list[2 * s], &list[2 * s + 1]);
    fine |= list[2 * s + 1] - list[2 * s] < a->npiece;
  }
  return fine ? list : NULL;
}

/* ---- waits */
typedef struct Waits {
  TsPersistent *p;
  int words;
  uint64_t *behind; /* by task: those of which all is over before it begins */
  TsPersistentWait *list;
} Waits;

static uint64_t *row(const Waits *w, int i) { return w->behind + (size_t)i * (size_t)w->words; }
static bool has(const uint64_t *set, int i) { return set[i / 64] >> i % 64 & 1; }

static int put_waits(Waits *w, int i, TsError *err) {
  TsPersistent *p = w->p;
  TsPersistentTask *b = &p->task[i];
  uint64_t *own = row(w, i);
  int n = 0;
  for (int k = i; k-- > 0;) {
    if (has(own, k) || !conflict(&p->task[k], b)) continue;
    const int32_t *range = ranges(p, &p->task[k], b);
    w->list[n++] = (TsPersistentWait){.task = k, .range = range};
    if (range) continue;
    const uint64_t *other = row(w, k);
    for (int q = 0; q < w->words; q++) own[q] |= other[q];
    own[k / 64] |= 1ull << k % 64;
  }
  b->wait = ts_arena_alloc(&p->arena, sizeof *b->wait * ((size_t)n + 1));
  if (!b->wait) return ts_error_memory(err);
  /* A whole wait that came later may stand for a fine one. */
  for (int q = 0; q < n; q++)
    if (!w->list[q].range || !has(own, w->list[q].task)) b->wait[b->nwait++] = w->list[q];
  return 0;
}

/* ---- counters */
static void cut(TsPersistentTask *t) {
  t->piece = (t->turns + TS_PERSISTENT_PIECES - 1) / TS_PERSISTENT_PIECES;
  t->npiece = (int)((t->turns + t->piece - 1) / t->piece);
}

/* One for a task of which nobody waits for parts. */
static void join(TsPersistent *p) {
  bool *fine = calloc((size_t)p->ntask + 1, sizeof *fine);
  for (int i = 0; i < p->ntask; i++)
    for (int k = 0; k < p->task[i].nwait; k++) {
      const TsPersistentWait *w = &p->task[i].wait[k];
      if (fine && w->range) fine[w->task] = true;
      p->nfine += w->range != NULL, p->nwhole += w->range == NULL;
    }
  for (int i = 0; i < p->ntask; i++) {
    TsPersistentTask *t = &p->task[i];
    if (fine && !fine[i]) t->piece = t->turns, t->npiece = 1;
    t->counter = p->ncounter;
    p->ncounter += t->npiece;
  }
  free(fine);
}

/* ---- what is fetched before a wait */
static bool is_written(const TsPersistent *p, const TsPersistentBytes *b) {
  for (int i = 0; i < p->ntask; i++)
    for (int k = 0; k < p->task[i].ntouch; k++)
      if (p->task[i].touch[k].write && ts_persistent_overlap(p->task[i].touch[k].all, *b))
        return true;
  return false;
}

/* Of one task, into the list of the one at which blocks come by before. */
static void add_ahead(const TsPersistent *p, TsPersistentTask *to, const TsPersistentTask *t) {
  uint64_t room = MOST_AHEAD;
  for (int i = 0; i < t->ntouch && t->nwait; i++) {
    TsPersistentBytes b = t->touch[i].all;
    if (t->touch[i].write || b.nbytes < AHEAD || is_written(p, &b)) continue;
    if (b.nbytes > room) b.nbytes = room;
    room -= b.nbytes;
    if (b.nbytes) to->ahead[to->nahead++] = b;
  }
}

static int put_ahead(TsPersistent *p, int i, TsError *err) {
  TsPersistentTask *to = &p->task[i];
  int first = i ? i + LOOK : 0, most = 0;
  for (int k = first; k <= i + LOOK && k < p->ntask; k++) most += p->task[k].ntouch;
  to->nahead = 0;
  to->ahead = ts_arena_alloc(&p->arena, sizeof *to->ahead * (size_t)(most + 1));
  if (!to->ahead) return ts_error_memory(err);
  for (int k = first; k <= i + LOOK && k < p->ntask; k++) add_ahead(p, to, &p->task[k]);
  return 0;
}

/* Small tasks begin where the one before ended, so that neighbours lie on different blocks. */
static void place(TsPersistent *p) {
  int64_t at = 0;
  for (int i = 0; i < p->ntask; i++) {
    p->task[i].first = at % p->blocks;
    at += p->task[i].turns;
  }
}

int ts_persistent_plan(TsPersistent *p, int64_t blocks, int64_t resident, TsError *err) {
  Waits w = {.p = p, .words = p->ntask / 64 + 1};
  size_t n = (size_t)p->ntask;
  p->blocks = blocks, p->resident = resident;
  p->ncounter = p->nfine = p->nwhole = 0;
  w.behind = calloc(n * (size_t)w.words + 1, sizeof *w.behind);
  w.list = malloc(sizeof *w.list * (n + 1));
  int failed = !w.behind || !w.list ? ts_error_memory(err) : 0;
  for (int i = 0; i < p->ntask && !failed; i++) {
    p->task[i].nwait = 0;
    cut(&p->task[i]);
    failed = put_waits(&w, i, err);
  }
  for (int i = 0; i < p->ntask && !failed; i++) failed = put_ahead(p, i, err);
  if (!failed) join(p), place(p);
  free(w.behind);
  free(w.list);
  return failed;
}
