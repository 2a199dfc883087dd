/* Persistent programs (ir/persistent): generated ones are planned, and the check takes them;
 * faults are put into them, and each that is a race or a deadlock is refused. What is a race or
 * a deadlock is found here by other means: by reachability among all turns, from what templates
 * are known to touch, and by walking blocks until nothing moves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/persistent/program.h"

enum {
  BUFFERS = 5,
  CELLS = 64,
  TILE = 8,
  TURNS = CELLS / TILE,
  TASKS = 10,
  PROGRAMS = 400,
  FAULTS = 60
};

static int failures;

static uint64_t seed = 88172645463325252u;
static int chosen(int n) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return (int)((seed >> 33) % (uint64_t)n);
}

/* ---- kernels: element by element, of all elements one tile each, from the other end */
static const char *const text[] = {
    "tile @map(%x: f32[64]) -> (%y: f32[64]) target sm_90a {\n"
    "  %n = const {value=64} : i64[]\n  %z = const : i64[]\n"
    "  for %r in %z..%n step 8 parallel {\n    %a = load %x[%r] : f32[8]\n"
    "    %b = add %a, %a : f32[8]\n    store %y[%r] = %b\n  }\n}\n",
    "tile @all(%x: f32[64]) -> (%y: f32[64]) target sm_90a {\n"
    "  %n = const {value=64} : i64[]\n  %z = const : i64[]\n"
    "  for %r in %z..%n step 8 parallel {\n    %a = load %x[%z] : f32[64]\n"
    "    %s = sum %a {axis=0} : f32[]\n    %b = broadcast %s : f32[8]\n    store %y[%r] = %b\n"
    "  }\n}\n",
    "tile @back(%x: f32[64]) -> (%y: f32[64]) target sm_90a {\n"
    "  %n = const {value=64} : i64[]\n  %z = const : i64[]\n  %e = const {value=56} : i64[]\n"
    "  for %r in %z..%n step 8 parallel {\n    %q = sub %e, %r : i64[]\n    %a = load %x[%q] : "
    "f32[8]\n"
    "    store %y[%r] = %a\n  }\n}\n",
};
enum { MAP, ALL, BACK, KINDS };

static TsTile *kernel[KINDS];

/* ---- what turns touch: cells [from, to) of a buffer, as known of the templates */
typedef struct Cells {
  int buffer, from, to;
  bool write;
} Cells;

typedef struct Task {
  int kind, in, out;
} Task;

static Task task[TASKS];
static int ntask;

static int cells_of(int i, int turn, Cells *c) {
  const Task *t = &task[i];
  int at = turn * TILE, back = CELLS - TILE - at;
  c[0] = t->kind == ALL   ? (Cells){t->in, 0, CELLS, false}
         : t->kind == MAP ? (Cells){t->in, at, at + TILE, false}
                          : (Cells){t->in, back, back + TILE, false};
  c[1] = (Cells){t->out, at, at + TILE, true};
  return 2;
}

static bool meet(int i, int r, int j, int s) {
  Cells a[2], b[2];
  cells_of(i, r, a), cells_of(j, s, b);
  for (int x = 0; x < 2; x++)
    for (int y = 0; y < 2; y++)
      if ((a[x].write || b[y].write) && a[x].buffer == b[y].buffer && a[x].from < b[y].to &&
          b[y].from < a[x].to)
        return true;
  return false;
}

/* ---- programs */
static uint64_t address(int buffer) { return 4096 + 4096 * (uint64_t)buffer; }

static TsPersistent *program(int64_t blocks) {
  TsPersistentPhase phase = {1, 32};
  TsError err = {0};
  TsPersistent *p = ts_persistent_new();
  int bad = 0;
  ntask = 2 + chosen(TASKS - 1);
  for (int i = 0; i < ntask && !bad; i++) {
    int in = chosen(BUFFERS), out = (in + 1 + chosen(BUFFERS - 1)) % BUFFERS;
    task[i] = (Task){chosen(KINDS), in, out};
    uint64_t arg[2] = {address(in), address(out)};
    bad = ts_persistent_add(p, kernel[task[i].kind], arg, NULL, NULL, &phase, &err);
  }
  if (bad || ts_persistent_plan(p, blocks, blocks, &err)) {
    failures++, printf("%s\n", err.message);
    ts_persistent_free(p);
    return NULL;
  }
  return p;
}

/* ---- races, by reachability */
static bool waits(const TsPersistent *p, int j, int s, int i, int r) {
  const TsPersistentTask *t = &p->task[j], *of = &p->task[i];
  for (int k = 0; k < t->nwait; k++) {
    const TsPersistentWait *w = &t->wait[k];
    int piece = (int)(r / of->piece);
    if (w->task == i &&
        (!w->range || (w->range[2 * s] <= piece && piece < w->range[2 * s + 1])))
      return true;
  }
  return false;
}

static bool before[TASKS + 1][TURNS][TASKS + 1]
                  [TURNS]; /* the latter's turn comes before the former's */

static bool has_race(const TsPersistent *p) {
  memset(before, 0, sizeof before);
  for (int j = 0; j < ntask; j++)
    for (int s = 0; s < TURNS; s++)
      for (int i = 0; i < j; i++)
        for (int r = 0; r < TURNS; r++) {
          if (!waits(p, j, s, i, r)) continue;
          before[j][s][i][r] = true;
          for (int k = 0; k < i; k++)
            for (int q = 0; q < TURNS; q++) before[j][s][k][q] |= before[i][r][k][q];
        }
  for (int j = 0; j < ntask; j++)
    for (int s = 0; s < TURNS; s++)
      for (int i = 0; i < j; i++)
        for (int r = 0; r < TURNS; r++)
          if (meet(i, r, j, s) && !before[j][s][i][r]) return true;
  return false;
}

/* ---- deadlocks, by walking */
static bool can_go(const TsPersistent *p, const int64_t *count, int j, int64_t s) {
  const TsPersistentTask *t = &p->task[j];
  for (int k = 0; k < t->nwait; k++) {
    const TsPersistentWait *w = &t->wait[k];
    if (w->task < 0 || w->task >= p->ntask) return false;
    const TsPersistentTask *of = &p->task[w->task];
    int from = w->range ? w->range[2 * s] : 0, to = w->range ? w->range[2 * s + 1] : of->npiece;
    for (int c = from; c < to; c++)
      if (c < 0 || c >= of->npiece || count[of->counter + c] < ts_persistent_piece_turns(of, c))
        return false;
  }
  return true;
}

static bool has_deadlock(const TsPersistent *p) {
  enum { MOST = 32 };
  struct {
    int task;
    int64_t turn;
  } at[MOST];
  int64_t count[1024] = {0};
  int64_t running = p->blocks < p->resident ? p->blocks : p->resident, next = running;
  int64_t block[MOST];
  for (int64_t b = 0; b < running; b++) block[b] = b, at[b].task = -1, at[b].turn = TURNS;
  for (bool moved = true; moved && running;) {
    moved = false;
    for (int64_t b = 0; b < running; b++) {
      while (at[b].task < p->ntask &&
             at[b].turn >= (at[b].task < 0 ? 0 : p->task[at[b].task].turns)) {
        if (++at[b].task == p->ntask) break;
        int64_t turn = block[b] - p->task[at[b].task].first;
        at[b].turn = turn < 0 ? turn + p->blocks : turn;
      }
      if (at[b].task == p->ntask) { /* its place is for the next block */
        if (next < p->blocks)
          block[b] = next++, at[b].task = -1, at[b].turn = TURNS;
        else
          at[b] = at[running - 1], block[b] = block[running - 1], running--, b--;
        moved = true;
        continue;
      }
      if (!can_go(p, count, at[b].task, at[b].turn)) continue;
      count[p->task[at[b].task].counter + at[b].turn / p->task[at[b].task].piece]++;
      at[b].turn += p->blocks;
      moved = true;
    }
  }
  return running > 0;
}

/* ---- faults; each gives back what it changed */
typedef struct Fault {
  TsPersistentTask was;
  int task;
  int64_t blocks;
  TsPersistentWait wait[TASKS + 2];
  int32_t range[2 * TURNS];
} Fault;

static void spoil(TsPersistent *p, Fault *f) {
  f->task = chosen(ntask), f->was = p->task[f->task], f->blocks = p->blocks;
  TsPersistentTask *t = &p->task[f->task];
  if (t->nwait) memcpy(f->wait, t->wait, sizeof *f->wait * (size_t)t->nwait);
  t->wait = f->wait;
  int k = t->nwait ? chosen(t->nwait) : -1;
  switch (chosen(7)) {
  case 0: /* a wait is forgotten */
    if (k >= 0) f->wait[k] = f->wait[--t->nwait];
    break;
  case 1: /* it is for another task, perhaps a later one */
    if (k >= 0) f->wait[k] = (TsPersistentWait){.task = chosen(ntask + 1)};
    break;
  case 2: /* one more */ f->wait[t->nwait++] = (TsPersistentWait){.task = chosen(ntask)}; break;
  case 3: /* it is for fewer counters, or for some that are not there */
    if (k < 0) break;
    for (int s = 0; s < TURNS; s++) {
      int n = p->task[f->wait[k].task].npiece, from = chosen(n + 1);
      f->range[2 * s] = from, f->range[2 * s + 1] = from + chosen(n + 2 - from);
    }
    f->wait[k].range = f->range;
    break;
  case 4: p->blocks += 1 + chosen(4); break; /* more blocks than run at a time */
  case 5: t->first = chosen((int)p->blocks + 2); break;
  default: /* the waits of a neighbour */
    if (f->task > 0) {
      const TsPersistentTask *other = &p->task[f->task - 1];
      memcpy(f->wait, other->wait, sizeof *f->wait * (size_t)other->nwait);
      t->nwait = other->nwait;
    }
  }
}

static void mend(TsPersistent *p, const Fault *f) {
  p->task[f->task] = f->was;
  p->blocks = f->blocks;
}

static bool odd_turns(const TsPersistent *p) {
  for (int i = 0; i < p->ntask; i++)
    if (p->task[i].first >= p->blocks) return true;
  return false;
}

/* ---- what a chained task and what is fetched ahead need */
static void rules(void) {
  TsError err = {0};
  TsPersistent *p = program(4);
  if (!p) return;
  p->task[1].chained = true; /* 8 turns on 4 blocks */
  if (!ts_persistent_check(p, &err)) failures++, printf("turns without a block each\n");
  p->task[1].chained = false;
  TsPersistentBytes written = {address(task[1].out), 64};
  p->task[0].ahead = &written, p->task[0].nahead = 1;
  if (!ts_persistent_check(p, &err)) failures++, printf("what is written, fetched ahead\n");
  p->task[0].nahead = 0;
  p->task[0].piece++;
  if (!ts_persistent_check(p, &err) && p->task[0].npiece > 1) failures++, printf("counters\n");
  p->task[0].piece--;
  p->ncounter++;
  if (!ts_persistent_check(p, &err)) failures++, printf("a counter more\n");
  ts_persistent_free(p);
}

int main(void) {
  int races = 0, deadlocks = 0, harmless = 0, fine = 0, refused = 0;
  TsError err = {0};
  for (int i = 0; i < KINDS; i++)
    if (!(kernel[i] = ts_tile_parse(text[i], &err))) return printf("%s\n", err.message), 1;
  for (int n = 0; n < PROGRAMS && !failures; n++) {
    TsPersistent *p = program(1 + chosen(6));
    if (!p) break;
    fine += p->nfine;
    err = (TsError){0};
    if (has_race(p) || has_deadlock(p))
      failures++, printf("program %d: the plan is wrong\n", n);
    if (ts_persistent_check(p, &err)) failures++, printf("program %d: %s\n", n, err.message);
    for (int k = 0; k < FAULTS; k++) {
      Fault f;
      spoil(p, &f);
      bool accepted = !ts_persistent_check(p, &err), lost = odd_turns(p);
      bool late = false;
      for (int i = 0; i < p->task[f.task].nwait; i++)
        late |= p->task[f.task].wait[i].task >= f.task;
      bool deadlock = lost || late || has_deadlock(p), race = !late && has_race(p);
      bool bad = deadlock || race;
      races += race, deadlocks += deadlock, harmless += !bad, refused += !accepted && !bad;
      if (accepted && bad)
        failures++, printf("program %d, fault %d: a %s is accepted\n", n, k,
                           race ? "race" : "deadlock");
      mend(p, &f);
    }
    ts_persistent_free(p);
  }
  rules();
  for (int i = 0; i < KINDS; i++) ts_tile_free(kernel[i]);
  if (races < 1000 || deadlocks < 1000 || harmless < 1000 || fine < 100)
    failures++, printf("%d races, %d deadlocks, %d harmless, %d fine waits\n", races, deadlocks,
                       harmless, fine);
  printf("%d races and %d deadlocks refused, %d of %d harmless faults too\n", races, deadlocks,
         refused, harmless);
  return failures != 0;
}
