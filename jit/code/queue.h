/* Background threads and their jobs, first come first served. */
#ifndef TS_JIT_QUEUE_H
#define TS_JIT_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>

typedef struct TsQueueJob {
  void (*run)(struct TsQueueJob *job); /* in the background */
  struct TsQueueJob *next;
  atomic_bool done; /* the owner may read what run wrote */
  bool frees;       /* run may free the job: nobody is told that it is done */
} TsQueueJob;

typedef struct TsQueue TsQueue;

enum { TS_QUEUE_THREADS = 8, TS_QUEUE_STACK = 8 << 20 /* LLVM recurses deeply */ };

/* NULL: out of memory. A thread starts with a job that finds none idle, while there are fewer
 * than so many, at most TS_QUEUE_THREADS. */
TsQueue *ts_queue_open(int nthread);
/* Waits for the jobs that run; those that have not begun never run and are not done, and none
 * is added any more. */
void ts_queue_stop(TsQueue *q);
void ts_queue_close(TsQueue *q); /* stops it first */
/* -1: no thread could be started. The job is its owner's again when it is done. */
int ts_queue_add(TsQueue *q, TsQueueJob *job);
int ts_queue_add_first(TsQueue *q, TsQueueJob *job); /* before all that have not begun */
/* Takes back a job that has not begun: false if it runs or is done. */
bool ts_queue_cancel(TsQueue *q, TsQueueJob *job);
/* Until an added job is done; one that has not begun this thread does. */
void ts_queue_finish(TsQueue *q, TsQueueJob *job);
void ts_queue_wait(TsQueue *q);  /* until all are done, or Ctrl-C came */
int ts_queue_length(TsQueue *q); /* jobs waiting or running */

#endif
