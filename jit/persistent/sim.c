/* Programs on the simulated device: a thread a block, which runs its turns by the interpreter
 * of Tile IR and waits for the same counters as code does. Turns that wait for others of their
 * task run in their order: the interpreter has a turn alone before it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "devices/memory.h"
#include "devices/sim.h"
#include "jit/persistent/persistent.h"

enum { BLOCKS = 4, MOST_BLOCKS = 160, MOST_PARAMS = 64 };

typedef struct Simulated {
  TsDevice *d;
} Simulated;

typedef struct Launch {
  const TsPersistent *p;
  pthread_mutex_t lock;
  pthread_cond_t news;
  int64_t *count, *chain; /* by counter; by task, turns that are over of one that is chained */
  int alive, nwaiter;     /* blocks that run; of these, that wait */
  struct Waiter {
    int task;
    int64_t turn;
  } * waiter[MOST_BLOCKS];
  bool failed;
  TsError err;
} Launch;

typedef struct Block {
  Launch *l;
  int64_t number;
} Block;

/* ---- waits */
/* Under the lock. */
static bool has_come(const Launch *l, int task, int64_t turn) {
  const TsPersistentTask *t = &l->p->task[task];
  if (t->chained && l->chain[task] != turn) return false;
  for (int i = 0; i < t->nwait; i++) {
    const TsPersistentWait *w = &t->wait[i];
    const TsPersistentTask *of = &l->p->task[w->task];
    int from = w->range ? w->range[2 * turn] : 0;
    int to = w->range ? w->range[2 * turn + 1] : of->npiece;
    for (int c = from; c < to; c++)
      if (l->count[of->counter + c] < ts_persistent_piece_turns(of, c)) return false;
  }
  return true;
}

/* All that run wait for turns that nobody is left to do: the check has let something through.
 */
static bool is_stuck(const Launch *l) {
  bool stuck = l->nwaiter == l->alive;
  for (int i = 0; i < l->nwaiter && stuck; i++)
    stuck = !has_come(l, l->waiter[i]->task, l->waiter[i]->turn);
  return stuck;
}

static void say_stuck(Launch *l, int task) {
  l->failed = true;
  ts_error_set(&l->err, TS_ERR_value,
               "persistent: deadlock: all blocks wait, one of them for task %d", task);
  pthread_cond_broadcast(&l->news);
}

static void leave(Launch *l, const struct Waiter *w) {
  int i = 0;
  while (l->waiter[i] != w) i++;
  l->waiter[i] = l->waiter[--l->nwaiter];
}

static bool await(Launch *l, int task, int64_t turn) {
  struct Waiter w = {task, turn};
  pthread_mutex_lock(&l->lock);
  l->waiter[l->nwaiter++] = &w;
  while (!l->failed && !has_come(l, task, turn)) {
    if (is_stuck(l))
      say_stuck(l, task);
    else
      pthread_cond_wait(&l->news, &l->lock);
  }
  leave(l, &w);
  bool go = !l->failed;
  pthread_mutex_unlock(&l->lock);
  return go;
}

static void tell(Launch *l, int task, int64_t turn, const TsError *err) {
  const TsPersistentTask *t = &l->p->task[task];
  pthread_mutex_lock(&l->lock);
  l->count[t->counter + turn / t->piece]++;
  l->chain[task]++;
  if (err && !l->failed) l->failed = true, l->err = *err;
  pthread_cond_broadcast(&l->news);
  pthread_mutex_unlock(&l->lock);
}

/* ---- turns */
static int do_turn(const TsPersistentTask *t, int64_t turn, TsError *err) {
  void *arg[MOST_PARAMS], *scratch[TS_PERSISTENT_SCRATCH];
  int n = t->ntouch - t->k->nparam, failed = 0;
  for (int i = 0; i < t->k->nparam; i++) arg[i] = (void *)(uintptr_t)t->arg[i];
  for (int i = 0; i < n; i++) scratch[i] = (void *)(uintptr_t)t->scratch[i];
  for (int64_t r = turn * t->side; r < (turn + 1) * t->side && r < t->rounds && !failed; r++) {
    TsTileRunOne one = {.phase = t->phase, .round = r, .scratch = scratch};
    TsTileRunAs as = {.one = &one};
    failed = ts_tile_run_as(t->k, arg, t->dim, &as, err);
  }
  return failed;
}

static void *run_block(void *arg) {
  Block *b = arg;
  Launch *l = b->l;
  bool go = true;
  ts_memory_spare(true);
  for (int i = 0; i < l->p->ntask && go; i++) {
    const TsPersistentTask *t = &l->p->task[i];
    int64_t turn = b->number - t->first;
    for (turn += turn < 0 ? l->p->blocks : 0; turn < t->turns && go; turn += l->p->blocks) {
      TsError err = {0};
      if (!(go = await(l, i, turn))) break;
      int failed = do_turn(t, turn, &err);
      tell(l, i, turn, failed ? &err : NULL);
      go = !failed;
    }
  }
  ts_memory_spare(false);
  pthread_mutex_lock(&l->lock);
  l->alive--;
  pthread_cond_broadcast(&l->news);
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

/* ---- a launch */
/* A thread that could not be had is a block that never comes. */
static void run_blocks(Launch *l) {
  Block block[MOST_BLOCKS];
  pthread_t thread[MOST_BLOCKS];
  int64_t n = l->p->blocks, started = 1;
  l->alive = (int)n;
  for (int64_t i = 0; i < n; i++) block[i] = (Block){l, i};
  for (; started < n; started++)
    if (pthread_create(&thread[started], NULL, run_block, &block[started])) break;
  if (started < n) {
    pthread_mutex_lock(&l->lock);
    l->failed = true;
    ts_error_set(&l->err, TS_ERR_memory, "no thread for a block of a simulated device");
    pthread_cond_broadcast(&l->news);
    pthread_mutex_unlock(&l->lock);
  }
  run_block(&block[0]);
  for (int64_t i = 1; i < started; i++) pthread_join(thread[i], NULL);
}

static int launch(void *of, const TsPersistent *p, TsError *err) {
  Simulated *s = of;
  Launch l = {.p = p, .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};
  ts_sim_use(s->d);
  if (ts_sim_fails(s->d, TS_SIM_launch, err)) return -1;
  ts_memory_spare(true);
  l.count = calloc((size_t)p->ncounter + 1, sizeof *l.count);
  l.chain = calloc((size_t)p->ntask + 1, sizeof *l.chain);
  ts_memory_spare(false);
  int failed = !l.count || !l.chain ? ts_error_memory(err) : 0;
  if (!failed) run_blocks(&l);
  if (!failed && l.failed) *err = l.err, failed = -1;
  free(l.count);
  free(l.chain);
  return failed;
}

/* ---- life */
static void *open(TsDevice *d, const TsPersistent *p, int64_t *resident, TsError *err) {
  int64_t want = ts_persistent_wanted()->blocks;
  Simulated *s = calloc(1, sizeof *s);
  if (!s) return ts_error_memory(err), NULL;
  s->d = d;
  *resident = want > 0 && want <= MOST_BLOCKS ? want : BLOCKS;
  for (int i = 0; i < p->ntask && !want; i++) /* as many as wait for each other */
    if (p->task[i].chained && p->task[i].turns > *resident && p->task[i].turns <= MOST_BLOCKS)
      *resident = p->task[i].turns;
  return s;
}

static int load(void *of, const TsPersistent *p, TsError *err) {
  Simulated *s = of;
  for (int i = 0; i < p->ntask; i++) {
    if (p->task[i].k->nparam > MOST_PARAMS || p->blocks > MOST_BLOCKS)
      return ts_error_set(err, TS_ERR_value, "@%.40s has too many parameters",
                          p->task[i].k->name);
  }
  (void)s;
  return 0;
}

const TsPersistentKind ts_persistent_simulated = {
    .open = open, .load = load, .launch = launch, .close = free};
