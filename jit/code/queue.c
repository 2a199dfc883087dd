/* The compile queue. */
#include "jit/code/queue.h"

#include <stdlib.h>

#include "lib/thread.h"
#include "lib/activity.h"

struct TsQueue {
  pthread_t thread[TS_QUEUE_THREADS];
  pthread_mutex_t lock;
  pthread_cond_t more, ended;
  TsQueueJob *first, **end;
  int length; /* with those that run */
  int most, nthread;
  bool stop;
};

TsQueue *ts_queue_open(int nthread) {
  TsQueue *q = calloc(1, sizeof *q);
  if (!q) return NULL;
  q->end = &q->first;
  q->most = nthread < TS_QUEUE_THREADS ? nthread : TS_QUEUE_THREADS;
  pthread_mutex_init(&q->lock, NULL);
  pthread_cond_init(&q->more, NULL);
  pthread_cond_init(&q->ended, NULL);
  return q;
}

static TsQueueJob *take(TsQueue *q) {
  TsQueueJob *job = q->first;
  if (!(q->first = job->next)) q->end = &q->first;
  return job;
}

static void *work(void *arg) {
  TsQueue *q = arg;
  pthread_mutex_lock(&q->lock);
  for (;;) {
    while (!q->first && !q->stop) pthread_cond_wait(&q->more, &q->lock);
    if (q->stop) break;
    TsQueueJob *job = take(q);
    pthread_mutex_unlock(&q->lock);
    bool frees = job->frees;
    job->run(job);
    if (!frees) atomic_store_explicit(&job->done, true, memory_order_release);
    pthread_mutex_lock(&q->lock);
    q->length--;
    pthread_cond_broadcast(&q->ended);
  }
  pthread_mutex_unlock(&q->lock);
  return NULL;
}

static void start(TsQueue *q) {
  q->nthread += ts_thread_start(&q->thread[q->nthread], TS_QUEUE_STACK, work, q);
}

static int add(TsQueue *q, TsQueueJob *job, bool first) {
  pthread_mutex_lock(&q->lock);
  bool busy = q->length >= q->nthread;
  pthread_mutex_unlock(&q->lock);
  if (q->stop) return -1;
  if (busy && q->nthread < q->most) start(q);
  if (!q->nthread) return -1;
  atomic_store_explicit(&job->done, false, memory_order_relaxed);
  pthread_mutex_lock(&q->lock);
  TsQueueJob **at = first ? &q->first : q->end;
  job->next = *at;
  *at = job;
  if (!job->next) q->end = &job->next;
  q->length++;
  pthread_cond_signal(&q->more);
  pthread_mutex_unlock(&q->lock);
  return 0;
}

int ts_queue_add(TsQueue *q, TsQueueJob *job) { return add(q, job, false); }
int ts_queue_add_first(TsQueue *q, TsQueueJob *job) { return add(q, job, true); }

bool ts_queue_cancel(TsQueue *q, TsQueueJob *job) {
  bool found = false;
  pthread_mutex_lock(&q->lock);
  for (TsQueueJob **at = &q->first; *at; at = &(*at)->next) {
    if (*at != job) continue;
    if (!(*at = job->next)) q->end = at;
    q->length--;
    pthread_cond_broadcast(&q->ended);
    found = true;
    break;
  }
  pthread_mutex_unlock(&q->lock);
  return found;
}

void ts_queue_finish(TsQueue *q, TsQueueJob *job) {
  if (ts_queue_cancel(q, job)) {
    job->run(job);
    atomic_store_explicit(&job->done, true, memory_order_release);
    return;
  }
  TsActivity *w = ts_activity_begin(TS_ACTIVITY_wait, "compiled code", NULL);
  pthread_mutex_lock(&q->lock);
  while (!atomic_load_explicit(&job->done, memory_order_acquire))
    pthread_cond_wait(&q->ended, &q->lock);
  pthread_mutex_unlock(&q->lock);
  ts_activity_end(w, 0, 0);
}

void ts_queue_wait(TsQueue *q) {
  TsActivity *w = ts_activity_begin(TS_ACTIVITY_wait, "compiled code", NULL);
  pthread_mutex_lock(&q->lock);
  while (q->length) pthread_cond_wait(&q->ended, &q->lock);
  pthread_mutex_unlock(&q->lock);
  ts_activity_end(w, 0, 0);
}

int ts_queue_length(TsQueue *q) {
  pthread_mutex_lock(&q->lock);
  int n = q->length;
  pthread_mutex_unlock(&q->lock);
  return n;
}

void ts_queue_stop(TsQueue *q) {
  pthread_mutex_lock(&q->lock);
  q->stop = true;
  pthread_cond_broadcast(&q->more);
  pthread_mutex_unlock(&q->lock);
  while (q->nthread) pthread_join(q->thread[--q->nthread], NULL);
}

void ts_queue_close(TsQueue *q) {
  if (!q) return;
  ts_queue_stop(q);
  pthread_mutex_destroy(&q->lock);
  pthread_cond_destroy(&q->more);
  pthread_cond_destroy(&q->ended);
  free(q);
}
