/* The compile queue: order, jobs before others, several threads at a time, taking jobs back,
 * waiting for one. */
#include "jit/code/queue.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

enum { MOST = 8 };

static int failed, order[MOST], nrun;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t together;

#define CHECK(x)                                                                               \
  ((x) ? (void)0 : (void)(failed++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

typedef struct Job {
  TsQueueJob base; /* first */
  int number;
} Job;

static void note(TsQueueJob *job) {
  pthread_mutex_lock(&gate);
  order[nrun++] = ((Job *)job)->number;
  pthread_mutex_unlock(&gate);
}

static void meet(TsQueueJob *job) {
  (void)job;
  pthread_barrier_wait(&together);
}

static void one_thread(void) {
  Job job[5];
  TsQueue *q = ts_queue_open(1);
  for (int i = 0; i < 5; i++) job[i] = (Job){.base.run = note, .number = i};
  pthread_mutex_lock(&gate); /* the first one waits here, or has not begun */
  ts_queue_add_first(q, &job[0].base);
  for (int i = 1; i < 4; i++) ts_queue_add(q, &job[i].base);
  ts_queue_add_first(q, &job[4].base);
  CHECK(ts_queue_length(q) == 5 && ts_queue_cancel(q, &job[3].base));
  CHECK(!ts_queue_cancel(q, &job[3].base));
  pthread_mutex_unlock(&gate);
  ts_queue_wait(q);
  CHECK(nrun == 4 && order[2] == 1 && order[3] == 2);
  CHECK(order[0] + order[1] == 4 && !order[0] == !!order[1]);
  ts_queue_close(q);
}

/* One that runs is waited for, one that has not begun its owner runs. */
static void finish(void) {
  Job job[2];
  TsQueue *q = ts_queue_open(1);
  nrun = 0;
  for (int i = 0; i < 2; i++) job[i] = (Job){.base.run = note, .number = i};
  ts_queue_add(q, &job[0].base);
  ts_queue_finish(q, &job[0].base);
  CHECK(job[0].base.done && nrun == 1);
  pthread_barrier_init(&together, NULL, 2);
  job[0] = (Job){.base.run = meet};
  ts_queue_add(q, &job[0].base); /* holds the one thread */
  ts_queue_add(q, &job[1].base);
  ts_queue_finish(q, &job[1].base);
  CHECK(job[1].base.done && nrun == 2 && order[1] == 1 && !job[0].base.done);
  pthread_barrier_wait(&together);
  ts_queue_finish(q, &job[0].base);
  CHECK(job[0].base.done);
  ts_queue_close(q);
  pthread_barrier_destroy(&together);
}

/* Only side by side do they end. */
static void threads(void) {
  Job job[4];
  TsQueue *q = ts_queue_open(4);
  pthread_barrier_init(&together, NULL, 4);
  for (int i = 0; i < 4; i++) {
    job[i] = (Job){.base.run = meet};
    CHECK(!ts_queue_add(q, &job[i].base));
  }
  ts_queue_wait(q);
  for (int i = 0; i < 4; i++) CHECK(job[i].base.done);
  ts_queue_stop(q);
  CHECK(ts_queue_add(q, &job[0].base) == -1);
  ts_queue_close(q);
  pthread_barrier_destroy(&together);
}

int main(void) {
  one_thread();
  finish();
  threads();
  return failed != 0;
}
