/* Roles, barriers and asynchronous copies of the interpreter of Tile IR.
 *
 * The roles of a block are coroutines: one runs until it has to wait, then the next. When all
 * wait, the copy engine finishes one copy, the oldest; when it has none either, nobody will
 * ever go on, and the error says who waits for what. So the outcome is the same at each run,
 * and copies come as late as the barriers allow. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/run/state.h"

enum { STACK = 256 << 10, WARP = 32 };

/* ---- copies under way */
static TsTileRunCopy *new_copy(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunCopy *c = r->spare;
  if (c)
    r->spare = c->next;
  else
    c = ts_arena_alloc(&r->arena, sizeof *c);
  if (!c) return ts_tile_run_fail(r, s, TS_ERR_memory, "out of memory"), NULL;
  *c = (TsTileRunCopy){.stmt = s};
  return c;
}

static void append(TsTileRunCopies *list, TsTileRunCopy *c) {
  if (list->last)
    list->last->next = c;
  else
    list->first = c;
  list->last = c;
}

/* Does the oldest copy and counts its bytes. */
static int finish_first(TsTileRun *r, TsTileRunCopies *list) {
  TsTileRunCopy *c = list->first;
  list->first = c->next;
  if (!list->first) list->last = NULL;
  int failed = ts_tile_run_copy(r, c);
  TsTileRunBarrier *b = c->barrier;
  if (b) {
    int64_t needed = c->stmt->in[2]->type.count ? c->stmt->in[2]->type.count : 1;
    b->bytes -= ts_tile_run_copy_bytes(r, c->stmt);
    if (b->arrived == needed && b->bytes == 0) b->parity ^= 1, b->arrived = 0;
  }
  c->next = r->spare;
  r->spare = c;
  return failed;
}

static int finish_all(TsTileRun *r, TsTileRunCopies *list) {
  while (list->first && !r->failed) finish_first(r, list);
  return r->failed ? -1 : 0;
}

int ts_tile_run_drain(TsTileRun *r) {
  if (r->failed) return -1;
  return finish_all(r, &r->engine) || finish_all(r, &r->self.copies) ||
                 finish_all(r, &r->self.stores)
             ? -1
             : 0;
}

int ts_tile_run_positions(TsTileRun *r, const TsTileStmt *s, int first, TsTileRunCopy *c) {
  int nto = s->in[0]->type.rank, nfrom = s->in[1]->type.rank, n = s->nin - first;
  if (n != nfrom && n != nto + nfrom)
    return ts_tile_run_fail(r, s, TS_ERR_argument, "%d positions for memory of %d and %d axes",
                            n, nto, nfrom);
  if (n == nfrom) nto = 0;
  for (int i = 0; i < nto; i++) c->to[i] = ts_tile_run_scalar(r, s->in[first + i]);
  for (int i = 0; i < nfrom; i++) c->from[i] = ts_tile_run_scalar(r, s->in[first + nto + i]);
  return 0;
}

int ts_tile_do_copy_async(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunCopy *c = new_copy(r, s);
  if (!c || ts_tile_run_positions(r, s, 2, c)) return -1;
  c->group = r->now->group;
  append(&r->now->copies, c);
  return 0;
}

int ts_tile_do_store_bulk(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunCopy *c = new_copy(r, s);
  if (!c || ts_tile_run_positions(r, s, 2, c)) return -1;
  c->group = r->now->store_group;
  append(&r->now->stores, c);
  return 0;
}

/* Products are done at once. */
static bool of(const TsTileStmt *s, int what) { return ts_tile_attr(s, "of")->i == what; }

enum { OF_COPIES, OF_PRODUCTS, OF_STORES, OF_WRITES };

int ts_tile_do_commit(TsTileRun *r, const TsTileStmt *s) {
  r->now->group += of(s, OF_COPIES);
  r->now->store_group += of(s, OF_STORES);
  return 0;
}

int ts_tile_do_wait(TsTileRun *r, const TsTileStmt *s) {
  if (of(s, OF_PRODUCTS)) return 0;
  bool stores = of(s, OF_STORES) || of(s, OF_WRITES);
  int64_t group = stores ? r->now->store_group : r->now->group;
  int64_t done = group - ts_tile_attr(s, "pending")->i;
  TsTileRunCopies *list = stores ? &r->now->stores : &r->now->copies;
  while (list->first && list->first->group < done && !r->failed) finish_first(r, list);
  return r->failed ? -1 : 0;
}

/* ---- waiting */
typedef bool Ready(const TsTileRun *r, const TsTileStmt *s, const void *arg);

TsTileRunBarrier *ts_tile_run_slot(TsTileRun *r, const TsTileStmt *s, int operand,
                                   int64_t *slot) {
  TsTileRunPlace *p = ts_tile_run_place(r, s->in[operand]);
  *slot = ts_tile_run_scalar(r, s->in[operand + 1]);
  if (!p) return NULL;
  if (*slot >= 0 && *slot < p->n) return (TsTileRunBarrier *)(void *)p->at + *slot;
  ts_tile_run_fail(r, s, TS_ERR_index, "slot %lld of %lld barriers", (long long)*slot,
                   (long long)p->n);
  return NULL;
}

static void say_who(const TsTileRun *r, const TsTileRunRole *role, char *text, size_t room) {
  const TsTileStmt *s = role->waits;
  const char *name = role->stmt ? ts_tile_attr(role->stmt, "name")->str : "the block";
  const char *who = name ? name : "a role";
  size_t used = strlen(text);
  if (role->done || !s) return;
  if (s->op == TS_TILE_await)
    snprintf(text + used, room - used, "%s%s waits for parity %lld of %s%s slot %lld",
             used ? "; " : "", who, (long long)role->waits_parity, s->in[0]->name ? "%" : "",
             s->in[0]->name ? s->in[0]->name : "a barrier,", (long long)role->waits_slot);
  else if (s->op == TS_TILE_until)
    snprintf(text + used, room - used, "%s%s waits for a signal", used ? "; " : "", who);
  else
    snprintf(text + used, room - used, "%s%s waits at barrier %lld", used ? "; " : "", who,
             (long long)ts_tile_attr(s, "name")->i);
  used = strlen(text);
  if (s->line) snprintf(text + used, room - used, " at %s", r->k->place[s->line]);
}

static int deadlock(TsTileRun *r, const TsTileStmt *s) {
  char text[320] = "";
  say_who(r, &r->self, text, sizeof text);
  for (int i = 0; i < r->nrole; i++) say_who(r, &r->role[i], text, sizeof text);
  return ts_tile_run_fail(r, s, TS_ERR_value, "deadlock: %s", text);
}

static int wait_until(TsTileRun *r, const TsTileStmt *s, Ready *ready, const void *arg) {
  r->now->waits = s;
  r->progress = true; /* it came here */
  while (!ready(r, s, arg) && !r->failed) {
    if (r->now != &r->self)
      swapcontext(&r->now->context, &r->scheduler);
    else if (r->engine.first)
      finish_first(r, &r->engine);
    else
      deadlock(r, s);
  }
  r->now->waits = NULL;
  r->progress = true; /* and goes on */
  return r->failed ? -1 : 0;
}

/* ---- barriers that count */
int ts_tile_do_copy_bulk(TsTileRun *r, const TsTileStmt *s) {
  int64_t slot;
  TsTileRunBarrier *b = ts_tile_run_slot(r, s, 2, &slot);
  TsTileRunCopy *c = b ? new_copy(r, s) : NULL;
  if (!c || ts_tile_run_positions(r, s, 4, c)) return -1;
  c->barrier = b;
  append(&r->engine, c);
  return 0;
}

int ts_tile_do_expect(TsTileRun *r, const TsTileStmt *s) {
  int64_t slot;
  TsTileRunBarrier *b = ts_tile_run_slot(r, s, 0, &slot);
  if (!b) return -1;
  b->bytes += ts_tile_attr(s, "bytes")->i;
  return 0;
}

int ts_tile_do_arrive(TsTileRun *r, const TsTileStmt *s) {
  int64_t slot, needed = s->in[0]->type.count ? s->in[0]->type.count : 1;
  TsTileRunBarrier *b = ts_tile_run_slot(r, s, 0, &slot);
  if (!b) return -1;
  if (b->arrived == needed)
    return ts_tile_run_fail(r, s, TS_ERR_value, "slot %lld has its %lld arrivals already",
                            (long long)slot, (long long)needed);
  b->arrived++;
  if (b->arrived == needed && b->bytes == 0) b->parity ^= 1, b->arrived = 0;
  return 0;
}

typedef struct Phase {
  const TsTileRunBarrier *barrier;
  int64_t parity;
} Phase;

static bool phase_done(const TsTileRun *r, const TsTileStmt *s, const void *arg) {
  const Phase *p = arg;
  (void)r, (void)s;
  return p->barrier->parity != p->parity;
}

int ts_tile_do_await(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunRole *role = r->now;
  Phase p = {ts_tile_run_slot(r, s, 0, &role->waits_slot), ts_tile_run_scalar(r, s->in[2]) & 1};
  if (!p.barrier) return -1;
  role->waits_parity = p.parity;
  return wait_until(r, s, phase_done, &p);
}

/* ---- signals */
typedef struct Signal {
  const int32_t *at;
  int64_t least;
} Signal;

static int32_t *signal_of(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *memory = ts_tile_run_place(r, s->in[0]);
  int64_t at = 0;
  if (!memory) return NULL;
  for (int i = 0; i < s->in[0]->type.rank; i++) {
    int64_t p = ts_tile_run_scalar(r, s->in[1 + i]);
    if (p < 0 || p >= memory->dim[i])
      return ts_tile_run_fail(r, s, TS_ERR_index, "position %lld of %lld signals", (long long)p,
                              (long long)memory->dim[i]),
             NULL;
    at += p * memory->stride[i];
  }
  return (int32_t *)(void *)memory->at + at;
}

static bool was_given(const TsTileRun *r, const TsTileStmt *s, const void *arg) {
  const Signal *x = arg;
  (void)r, (void)s;
  return *x->at >= x->least;
}

int ts_tile_do_until(TsTileRun *r, const TsTileStmt *s) {
  Signal x = {signal_of(r, s), ts_tile_run_scalar(r, s->in[s->nin - 1])};
  return x.at ? wait_until(r, s, was_given, &x) : -1;
}

int ts_tile_do_signal(TsTileRun *r, const TsTileStmt *s) {
  int32_t *at = signal_of(r, s);
  if (!at) return -1;
  *at = (int32_t)ts_tile_run_scalar(r, s->in[s->nin - 1]);
  r->progress = true;
  return 0;
}

/* ---- barriers of threads */
static bool generation_passed(const TsTileRun *r, const TsTileStmt *s, const void *arg) {
  return r->barrier[ts_tile_attr(s, "name")->i].generation != *(const int64_t *)arg;
}

/* Outside of roles all threads are together. */
int ts_tile_do_barrier(TsTileRun *r, const TsTileStmt *s) {
  int64_t name = ts_tile_attr(s, "name")->i, needed = 0;
  const TsAttr *threads = ts_tile_attr(s, "threads");
  if (name < 0 || name >= TS_TILE_RUN_BARRIERS)
    return ts_tile_run_fail(r, s, TS_ERR_index, "barrier %lld of %d", (long long)name,
                            TS_TILE_RUN_BARRIERS);
  if (r->now == &r->self) return 0;
  for (int i = 0; i < r->nrole; i++) needed += r->role[i].threads;
  if (threads->type == TS_ATTR_int) needed = threads->i;
  int64_t generation = r->barrier[name].generation;
  r->barrier[name].arrived += r->now->threads;
  if (r->barrier[name].arrived < needed)
    return wait_until(r, s, generation_passed, &generation);
  if (r->barrier[name].arrived > needed)
    return ts_tile_run_fail(r, s, TS_ERR_value, "%lld threads at a barrier of %lld",
                            (long long)r->barrier[name].arrived, (long long)needed);
  r->barrier[name].arrived = 0;
  r->barrier[name].generation++;
  r->progress = true;
  return 0;
}

/* ---- roles */
static _Thread_local TsTileRun
    *entering; /* what a new coroutine runs: its arguments are ints */

static void enter(void) {
  TsTileRun *r = entering;
  TsTileRunRole *role = r->now;
  if (!ts_tile_run_region(r, role->stmt->region[0]))
    finish_all(r, &role->copies), finish_all(r, &role->stores);
  role->done = true;
  r->progress = true;
  swapcontext(&role->context, &r->scheduler);
}

static int prepare(TsTileRun *r, const TsTileStmt *s) {
  if (r->nrole == TS_TILE_ROLES)
    return ts_tile_run_fail(r, s, TS_ERR_argument, "more than %d roles", TS_TILE_ROLES);
  TsTileRunRole *role = &r->role[r->nrole];
  char *stack = role->stack ? role->stack : malloc(STACK);
  if (!stack) return ts_tile_run_fail(r, s, TS_ERR_memory, "out of memory");
  *role = (TsTileRunRole){.stmt = s, .stack = stack};
  role->threads = ts_tile_attr(s, "warps")->i * WARP;
  getcontext(&role->context);
  role->context.uc_stack.ss_sp = stack;
  role->context.uc_stack.ss_size = STACK;
  makecontext(&role->context, enter, 0);
  r->nrole++;
  return 0;
}

/* Each role that is not done, once. Whether there was one. */
static bool turn(TsTileRun *r) {
  bool alive = false;
  for (int i = 0; i < r->nrole && !r->failed; i++) {
    if (r->role[i].done) continue;
    entering = r;
    r->now = &r->role[i];
    swapcontext(&r->scheduler, &r->now->context);
    alive = true;
  }
  r->now = &r->self;
  return alive;
}

int ts_tile_run_roles(TsTileRun *r, const TsTileStmt *s, const TsTileStmt **last) {
  if (r->now != &r->self) return ts_tile_run_fail(r, s, TS_ERR_argument, "inside of a role");
  r->nrole = 0;
  memset(r->barrier, 0, sizeof r->barrier);
  for (; s && s->op == TS_TILE_role; s = s->next) {
    *last = s;
    if (prepare(r, s)) return -1;
  }
  for (;;) {
    r->progress = false;
    if (!turn(r) || r->failed) break;
    if (r->progress) continue;
    if (r->engine.first)
      finish_first(r, &r->engine);
    else
      deadlock(r, *last);
  }
  r->nrole = 0;
  return r->failed ? -1 : 0;
}

int ts_tile_do_role(TsTileRun *r, const TsTileStmt *s) { return ts_tile_run_roles(r, s, &s); }

/* ---- what has no meaning here */
static int nothing(TsTileRun *r) { return r->failed ? -1 : 0; }
int ts_tile_do_sync(TsTileRun *r, const TsTileStmt *s) { return (void)s, nothing(r); }
int ts_tile_do_fence(TsTileRun *r, const TsTileStmt *s) { return (void)s, nothing(r); }
/* Rounds run one after another: nobody can be waited for. */
int ts_tile_do_pace(TsTileRun *r, const TsTileStmt *s) {
  int64_t step = ts_tile_run_scalar(r, s->in[1]), rounds = ts_tile_run_scalar(r, s->in[2]);
  if (step >= 0 && rounds > 0) return nothing(r);
  return ts_tile_run_fail(r, s, TS_ERR_value, "step %lld of %lld rounds", (long long)step,
                          (long long)rounds);
}
int ts_tile_do_meet(TsTileRun *r, const TsTileStmt *s) {
  enum { MOST = 128 };
  int32_t *word[MOST];
  int n = s->nin - 3;
  int64_t rank = ts_tile_run_scalar(r, s->in[n]), slot = ts_tile_run_scalar(r, s->in[n + 1]);
  if (n > MOST) return ts_tile_run_fail(r, s, TS_ERR_value, "more than %d devices", MOST);
  if (rank < 0 || rank >= n)
    return ts_tile_run_fail(r, s, TS_ERR_index, "rank %lld of %d", (long long)rank, n);
  int64_t slots = (s->in[0]->type.dim[0] - 1) / (n + 1);
  if (slot < 0 || slot >= slots)
    return ts_tile_run_fail(r, s, TS_ERR_index, "slot %lld of %lld", (long long)slot,
                            (long long)slots);
  for (int i = 0; i < n; i++) {
    TsTileRunPlace *p = ts_tile_run_place(r, s->in[i]);
    if (!p) return -1;
    word[i] = (int32_t *)(void *)p->at;
  }
  int32_t met = word[rank][1 + slot * (n + 1) + n];
  int64_t says = ts_tile_run_scalar(r, s->in[n + 2]);
  if ((int32_t)says != met)
    return ts_tile_run_fail(r, s, TS_ERR_value, "meeting %lld of a slot that has had %d",
                            (long long)says + 1, met);
  if (!r->as.meet && n > 1)
    return ts_tile_run_fail(r, s, TS_ERR_argument, "the other %d devices do not run", n - 1);
  if (!r->as.meet || !r->as.meet(r->as.meeting, n, word, (int)rank, slot, r->err))
    return nothing(r);
  r->failed = true;
  return -1;
}
int ts_tile_do_await_launch(TsTileRun *r, const TsTileStmt *s) { return (void)s, nothing(r); }
int ts_tile_do_registers(TsTileRun *r, const TsTileStmt *s) { return (void)s, nothing(r); }
int ts_tile_do_mark(TsTileRun *r, const TsTileStmt *s) {
  int role = r->now == &r->self ? 0 : (int)(r->now - r->role);
  if (r->as.mark) r->as.mark(r->as.marks, r->block, role, s, r->step);
  return nothing(r);
}
