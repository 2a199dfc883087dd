/* What is sent is started as soon as its summands are there, and done when somebody reads it.
 *
 * The list that the order has made is the program of one order of work. Here a join becomes two steps
 * where that helps: its start goes forward, behind the steps that make what it reads, and its done
 * stays in front of the first piece that reads what it gives. All devices come to the starts in the order
 * of the new list, and since they run one behind the other, the start of a join may read what one before
 * it gives. What is brought together (a move) needs memory from its start on, so only so many bytes are
 * on their way at a time; summands are there anyway. A join with nothing to compute beside it stays one
 * step. */
#include <stdlib.h>
#include <string.h>

#include "ir/mesh/order.h"

typedef struct Join {
  int at, start, done; /* steps: itself, and before which it starts and is done */
  int64_t bytes;       /* of what it gives, on one device */
  bool moves, stays;   /* stays: it is one step */
} Join;

typedef struct Flight {
  TsMeshPlan *p;
  int *writer, *reader; /* by value: the last step that writes it, the first one that is no such join
                         * and reads it */
  int *join_of;         /* by value: the join that writes it, or -1 */
  bool *often;          /* by value: it is written more than once */
  double *until;        /* by step: what pieces before it cost */
  Join *join;
  int njoin, *own, *list; /* list: of joins */
} Flight;

static bool may_fly(const Flight *f, const TsMeshStep *s) {
  const TsMeshPlan *p = f->p;
  if (!s->join || s->again) return false;
  TsMeshJoinKind kind = p->join[s->at].kind;
  if (kind != TS_JOIN_move && kind != TS_JOIN_sum && kind != TS_JOIN_send) return false;
  int n = ts_step_writes(p, s, f->own);
  for (int k = 0; k < n; k++)
    if (f->often[f->own[k]]) return false;
  n = ts_step_reads(p, s, f->own);
  for (int k = 0; k < n; k++)
    if (f->often[f->own[k]]) return false;
  return true;
}

static int64_t bytes_of(const TsMeshPlan *p, int what) {
  const TsMeshSlot *s = &p->slot[what / p->space.nmicro];
  TsMeta m = ts_layout_part(ts_layout_of(&s->meta), &s->meta, what % p->space.nmicro);
  return ts_meta_nbytes(&m);
}

static void find_uses(Flight *f, const double *cost) {
  TsMeshPlan *p = f->p;
  double sum = 0;
  for (int i = 0; i < p->nslot * p->space.nmicro; i++)
    f->writer[i] = -1, f->reader[i] = p->nstep, f->join_of[i] = -1;
  for (int i = 0; i < p->nstep; i++) {
    int n = ts_step_writes(p, &p->step[i], f->own);
    for (int k = 0; k < n; k++) {
      f->often[f->own[k]] |= f->writer[f->own[k]] >= 0;
      f->writer[f->own[k]] = i;
    }
    f->until[i] = sum;
    sum += cost[i];
  }
  f->until[p->nstep] = sum;
  for (int i = 0; i < p->nstep; i++) {
    const TsMeshStep *s = &p->step[i];
    bool flies = may_fly(f, s);
    int n = flies ? 0 : ts_step_reads(p, s, f->own);
    for (int k = 0; k < n; k++)
      if (f->reader[f->own[k]] == p->nstep) f->reader[f->own[k]] = i;
    if (!flies) continue;
    const TsMeshJoin *of = &p->join[s->at];
    Join *j = &f->join[f->njoin];
    *j = (Join){.at = i, .moves = of->kind == TS_JOIN_move};
    n = ts_step_writes(p, s, f->own);
    for (int k = 0; k < n; k++)
      j->bytes += bytes_of(p, f->own[k]), f->join_of[f->own[k]] = f->njoin;
    f->njoin++;
  }
}

/* From the last join on, so that those who read it are known: one that is on its way when it is read by
 * a join is done no later than that. */
static void find_dones(Flight *f) {
  const TsMeshPlan *p = f->p;
  for (int i = 0; i < f->njoin; i++) f->join[i].done = p->nstep;
  for (int i = f->njoin; i-- > 0;) {
    Join *j = &f->join[i];
    int n = ts_step_writes(p, &p->step[j->at], f->own);
    for (int k = 0; k < n; k++)
      if (f->reader[f->own[k]] < j->done) j->done = f->reader[f->own[k]];
    if (j->stays) j->done = j->at;
    n = ts_step_reads(p, &p->step[j->at], f->own);
    for (int k = 0; k < n; k++) {
      int by = f->join_of[f->own[k]];
      if (by >= 0 && j->done < f->join[by].done) f->join[by].done = j->done;
    }
  }
}

/* Moves keep their order, and while so many bytes are on their way one waits for the next that is done, if
 * it is more than a small part of them. moving: those that may be on their way still. */
static void keep_within(Flight *f, Join *j, int *moving, int *nmoving) {
  enum { SMALL = 64 };
  while (j->start < j->at) {
    int64_t bytes = 0;
    int next = j->at, n = 0;
    for (int i = 0; i < *nmoving; i++) {
      const Join *k = &f->join[moving[i]];
      if (k->done <= j->start) continue;
      moving[n++] = moving[i];
      bytes += k->bytes;
      if (k->done < next) next = k->done;
    }
    *nmoving = n;
    if (bytes < f->p->overlap.ahead || j->bytes <= f->p->overlap.ahead / SMALL) break;
    j->start = next;
  }
  moving[(*nmoving)++] = (int)(j - f->join);
}

/* Behind the steps that make what it reads. */
static void find_starts(Flight *f) {
  const TsMeshPlan *p = f->p;
  int before = 0, nmoving = 0; /* before: the start of the last move */
  for (int i = 0; i < f->njoin; i++) {
    Join *j = &f->join[i];
    int n = ts_step_reads(p, &p->step[j->at], f->own), start = j->moves ? before : 0;
    for (int k = 0; k < n; k++) {
      int by = f->join_of[f->own[k]], there = f->writer[f->own[k]] + 1;
      if (by >= 0 && !f->join[by].stays) there = f->join[by].start;
      if (there > start) start = there;
    }
    j->start = j->stays || start > j->at ? j->at : start;
    if (j->stays) continue;
    if (!j->moves) continue;
    keep_within(f, j, f->list, &nmoving);
    before = j->start;
  }
}

/* One that stays is waited for at once, so it goes first. */
static void let_first(Flight *f) {
  bool *stays = f->often; /* by step from here on: values that are written twice are known */
  for (int i = 0; i < f->p->nstep; i++) stays[i] = false;
  for (int i = 0; i < f->njoin; i++) stays[f->join[i].at] = f->join[i].stays;
  for (int i = 0; i < f->njoin; i++) {
    Join *j = &f->join[i];
    while (!j->stays && j->start + 1 < j->done && stays[j->start]) j->start++;
  }
}

/* Those that have nothing to compute beside them stay; that may leave others with nothing. */
static bool more_stay(Flight *f) {
  bool more = false;
  for (int i = 0; i < f->njoin; i++) {
    Join *j = &f->join[i];
    if (j->stays) continue;
    double beside = j->done > j->start ? f->until[j->done] - f->until[j->start] : 0;
    if (beside > 0 && beside >= f->p->overlap.least) continue;
    j->stays = more = true;
  }
  return more;
}

/* ---- the new list */
typedef struct Event {
  int before, rank, join; /* a step; rank: what is done comes first, then starts by their order */
} Event;

static int by_time(const void *a, const void *b) {
  const Event *x = a, *y = b;
  if (x->before != y->before) return x->before - y->before;
  return x->rank != y->rank ? x->rank - y->rank : x->join - y->join;
}

static int write_list(Flight *f) {
  TsMeshPlan *p = f->p;
  Event *event = malloc(sizeof *event * (2 * (size_t)f->njoin + 1));
  TsMeshStep *list = malloc(sizeof *list * (size_t)(p->nstep + f->njoin + 1));
  int n = 0, nevent = 0, at = 0, next = 0;
  if (!event || !list) {
    free(event);
    free(list);
    return -1;
  }
  for (int i = 0; i < f->njoin; i++) {
    if (f->join[i].stays) continue;
    event[nevent++] = (Event){f->join[i].start, 1, i};
    event[nevent++] = (Event){f->join[i].done, 0, i};
  }
  qsort(event, (size_t)nevent, sizeof *event, by_time);
  for (int i = 0; i <= p->nstep; i++) {
    for (; at < nevent && event[at].before == i; at++) {
      list[n] = p->step[f->join[event[at].join].at];
      list[n++].does = event[at].rank ? TS_STEP_start : TS_STEP_done;
    }
    if (i == p->nstep) break;
    bool flies = next < f->njoin && f->join[next].at == i && !f->join[next].stays;
    next += next < f->njoin && f->join[next].at == i;
    if (!flies) list[n++] = p->step[i];
  }
  free(event);
  free(p->step);
  p->step = list, p->nstep = n;
  return 0;
}

int ts_mesh_fly(TsMeshPlan *p, const double *cost) {
  size_t n = (size_t)(p->nslot * p->space.nmicro) + 1, steps = (size_t)p->nstep + 1;
  int room = 1, failed = -1;
  for (int i = 0; i < p->nstep; i++) {
    int most = ts_step_most(p, &p->step[i]);
    if (most > room) room = most;
  }
  Flight f = {.p = p};
  f.writer = malloc(3 * n * sizeof *f.writer);
  f.often = calloc(n > steps ? n : steps, sizeof *f.often);
  f.until = malloc(steps * sizeof *f.until);
  f.join = malloc(steps * sizeof *f.join);
  f.list = malloc(steps * sizeof *f.list);
  f.own = malloc(sizeof *f.own * (size_t)room);
  if (f.writer && f.often && f.until && f.join && f.list && f.own) {
    f.reader = f.writer + n, f.join_of = f.reader + n;
    find_uses(&f, cost);
    do {
      find_dones(&f);
      find_starts(&f);
    } while (more_stay(&f));
    let_first(&f);
    failed = write_list(&f);
  }
  free(f.writer);
  free(f.often);
  free(f.until);
  free(f.join);
  free(f.list);
  free(f.own);
  return failed;
}
