/* Threads of the program's own. Signals are for its main thread: Ctrl-C must interrupt what that
 * one waits for. */
#ifndef TS_LIB_THREAD_H
#define TS_LIB_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* stack: in bytes, 0: the usual. False where it cannot be started. */
static inline bool ts_thread_start(pthread_t *thread, size_t stack, void *(*run)(void *),
                                   void *arg) {
  sigset_t all, before;
  pthread_attr_t attr;
  sigfillset(&all);
  /* Of the thread that reads (vm/core/mapped.h): blocked, it would end the process. */
  sigdelset(&all, SIGBUS);
  pthread_attr_init(&attr);
  if (stack) pthread_attr_setstacksize(&attr, stack);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(thread, &attr, run, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
  return !failed;
}

#endif
