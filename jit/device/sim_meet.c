/* See jit/device/sim_meet.h. */
#include "jit/device/sim_meet.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "devices/memory.h"
#include "devices/sim.h"
#include "ir/tile/find.h"

enum { MOST_ARGS = 128, MOST = TS_MAX_DEVICES };

typedef struct Launch {
  TsDevice *d;
  const TsTile *k;
  const TsTileStmt *meeting;
  void *arg[MOST_ARGS];
  int64_t dim[TS_TILE_DIMS];
} Launch;

static Launch *waiting[MOST]; /* one a device */

const TsTileStmt *ts_sim_meeting(const TsTile *k) {
  return ts_tile_find(k->body, TS_TILE_meet);
}

/* ---- a group that runs */
/* A thread that waits: for a word to come to count, or for its device to have failed. */
typedef struct Waiter {
  const int32_t *word, *failed;
  int32_t count;
} Waiter;

typedef struct Group {
  pthread_mutex_t lock;
  pthread_cond_t news;
  int alive, nwaiter; /* threads that run; of these, that wait */
  Waiter *waiter[MOST];
} Group;

typedef struct Member {
  Group *g;
  Launch *of;
  TsError err;
  int failed;
} Member;

static bool goes_on(const Waiter *w) { return *w->word - w->count >= 0 || *w->failed; }

/* All that run wait for words that nobody is left to write. */
static bool is_stuck(const Group *g) {
  bool stuck = g->nwaiter == g->alive;
  for (int i = 0; i < g->nwaiter; i++) stuck &= !goes_on(g->waiter[i]);
  return stuck;
}

static void leave(Group *g, const Waiter *w) {
  int i = 0;
  while (g->waiter[i] != w) i++;
  g->waiter[i] = g->waiter[--g->nwaiter];
}

/* Under the lock. */
static void await_word(Group *g, const int32_t *word, int32_t count, int32_t *failed, int who) {
  Waiter w = {word, failed, count};
  if (goes_on(&w)) return;
  g->waiter[g->nwaiter++] = &w;
  while (!goes_on(&w)) {
    if (is_stuck(g)) {
      *failed = 1 + who;
      pthread_cond_broadcast(&g->news);
      break;
    }
    pthread_cond_wait(&g->news, &g->lock);
  }
  leave(g, &w);
}

static int meet(void *meeting, int n, int32_t *const *word, int rank, int64_t slot,
                TsError *err) {
  Group *g = meeting;
  (void)err;
  int64_t first = 1 + slot * (n + 1);
  int32_t *own = word[rank] + first, count = own[n] + 1;
  pthread_mutex_lock(&g->lock);
  for (int q = 0; q < n; q++) word[q][first + rank] = count;
  pthread_cond_broadcast(&g->news);
  for (int q = 0; q < n; q++) await_word(g, &own[q], count, &word[rank][0], q);
  own[n] = count;
  pthread_mutex_unlock(&g->lock);
  return 0;
}

static void *run_member(void *of) {
  Member *m = of;
  TsTileRunAs as = {.meet = meet, .meeting = m->g};
  ts_memory_spare(true);
  m->failed = ts_tile_run_as(m->of->k, m->of->arg, m->of->dim, &as, &m->err);
  ts_memory_spare(false);
  pthread_mutex_lock(&m->g->lock);
  m->g->alive--;
  pthread_cond_broadcast(&m->g->news);
  pthread_mutex_unlock(&m->g->lock);
  return NULL;
}

/* Threads that wait look again when another one has ended: it may have been the last that
 * ran. */
static int run_group(int n, Launch **list, TsError *err) {
  Group g = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER, .alive = n};
  Member m[MOST];
  pthread_t thread[MOST];
  int failed = 0, started = 0;
  memset(m, 0, sizeof m);
  for (int i = 0; i < n; i++) m[i].g = &g, m[i].of = list[i];
  for (int i = 1; i < n; i++)
    if (pthread_create(&thread[i], NULL, run_member, &m[i]))
      break;
    else
      started = i;
  if (started < n - 1) { /* the others time out */
    pthread_mutex_lock(&g.lock);
    g.alive -= n - 1 - started;
    pthread_mutex_unlock(&g.lock);
    failed = ts_error_set(err, TS_ERR_memory, "no thread for a simulated device");
  }
  run_member(&m[0]);
  for (int i = 1; i <= started; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < n && !failed; i++)
    if (m[i].failed) *err = m[i].err, failed = -1;
  return failed;
}

/* ---- launches that wait */
static bool same_words(const Launch *a, const Launch *b) {
  const TsTileStmt *s = a->meeting, *t = b->meeting;
  if (s->nin != t->nin) return false;
  for (int i = 0; i < s->nin - 3; i++)
    if (a->arg[s->in[i]->index] != b->arg[t->in[i]->index]) return false;
  return true;
}

static void end(Launch **of) {
  free(*of);
  *of = NULL;
}

/* That of d and those of its group, whoever has come. */
static int run_with(const Launch *of, TsError *err) {
  Launch *list[MOST];
  int n = 0;
  for (int i = 0; i < MOST; i++)
    if (waiting[i] && same_words(of, waiting[i])) list[n++] = waiting[i];
  for (int i = 0; i < n; i++) waiting[list[i]->d->index] = NULL;
  int failed = run_group(n, list, err);
  for (int i = 0; i < n; i++) end(&list[i]);
  return failed;
}

static int come_to(const Launch *of) {
  int n = 0;
  for (int i = 0; i < MOST; i++) n += waiting[i] && same_words(of, waiting[i]);
  return n;
}

int ts_sim_meet_launch(TsDevice *d, const TsTile *k, const TsTileStmt *meeting,
                       void *const *arg, const int64_t *dim, TsError *err) {
  ts_memory_spare(true);
  Launch *l = malloc(sizeof *l);
  ts_memory_spare(false);
  if (!l) return ts_error_memory(err);
  if (k->nparam > MOST_ARGS) {
    free(l);
    return ts_error_set(err, TS_ERR_value, "%s: more than %d parameters", k->name, MOST_ARGS);
  }
  *l = (Launch){.d = d, .k = k, .meeting = meeting};
  memcpy(l->arg, arg, sizeof *arg * (size_t)k->nparam);
  memcpy(l->dim, dim, sizeof *dim * (size_t)k->ndim);
  waiting[d->index] = l;
  ts_sim_on_use(ts_sim_meet_end);
  return come_to(l) < meeting->nin - 3 ? 0 : run_with(l, err);
}

/* What failed of it its words say. */
void ts_sim_meet_end(TsDevice *d) {
  TsError ignored = {0};
  for (int i = 0; i < MOST; i++)
    if (waiting[i] && (!d || d->index == i)) run_with(waiting[i], &ignored);
}
