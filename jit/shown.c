/* See jit/shown.h. */
#include "jit/shown.h"

#include <pthread.h>
#include <stdlib.h>

struct TsShown {
  TsQueueJob job; /* first */
  TsQueue *queue;
  pthread_mutex_t lock; /* of what follows */
  struct {
    TsTile *k;
    const TsTarget *target;
  } * tile;
  int n, cap;
  bool running;
  atomic_bool stop;
};

static TsTile *take(TsShown *s, const TsTarget **target) {
  pthread_mutex_lock(&s->lock);
  bool on = s->n && !atomic_load(&s->stop) && ts_queue_length(s->queue) < 2;
  TsTile *k = on ? s->tile[--s->n].k : NULL;
  if (on) *target = s->tile[s->n].target;
  s->running = k != NULL;
  pthread_mutex_unlock(&s->lock);
  return k;
}

static void run(TsQueueJob *job) {
  static const char *const level[] = {"llvm", "asm"};
  TsShown *s = (TsShown *)job;
  const TsTarget *target;
  for (TsTile *k; (k = take(s, &target)); ts_tile_free(k))
    for (int i = 0; i < 2 && !atomic_load(&s->stop); i++) {
      TsError ignored = {0};
      TsText text = {0};
      ts_build_kernel_text(NULL, target, k, level[i], &text, &ignored);
      ts_text_free(&text);
    }
}

TsShown *ts_shown_open(TsQueue *q) {
  TsShown *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->queue = q;
  s->job.run = run;
  pthread_mutex_init(&s->lock, NULL);
  return s;
}

/* As far as memory goes; the first ones are taken first. */
static void put(TsShown *s, TsBuildJob *b) {
  if (s->n + b->nshown > s->cap) {
    int cap = s->n + b->nshown;
    void *more = realloc(s->tile, sizeof *s->tile * (size_t)cap);
    if (!more) return;
    s->tile = more, s->cap = cap;
  }
  for (; b->nshown; s->n++)
    s->tile[s->n].k = b->shown[--b->nshown], s->tile[s->n].target = b->target;
}

void ts_shown_later(TsShown *s, TsBuildJob *b) {
  if (!b->nshown) return;
  pthread_mutex_lock(&s->lock);
  put(s, b);
  bool begins = s->n && !s->running;
  s->running |= begins;
  pthread_mutex_unlock(&s->lock);
  if (!begins || !ts_queue_add(s->queue, &s->job)) return;
  pthread_mutex_lock(&s->lock);
  s->running = false;
  pthread_mutex_unlock(&s->lock);
}

void ts_shown_stop(TsShown *s) {
  if (s) atomic_store(&s->stop, true);
}

void ts_shown_close(TsShown *s) {
  if (!s) return;
  while (s->n) ts_tile_free(s->tile[--s->n].k);
  free(s->tile);
  pthread_mutex_destroy(&s->lock);
  free(s);
}
