/* The CPU's threads: a loop over work items spread over the pool. Results never
 * depend on how the items are spread. */
#ifndef TS_DEVICES_CPU_POOL_H
#define TS_DEVICES_CPU_POOL_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

/* Works on items lo..hi-1; worker is 0 for the caller, below ts_cpu_threads(). */
typedef void TsTask(void *arg, int64_t lo, int64_t hi, int worker);

/* Calls task on disjoint ranges that cover [0, n), each of at least grain items
 * but the last. Returns when all are done. A call from inside a task runs in that
 * thread. After ts_cpu_interrupt() the ranges not yet begun are skipped: a task whose
 * items take more than a millisecond looks for itself, about as often. */
void ts_cpu_parallel(int64_t n, int64_t grain, TsTask *task, void *arg);

int ts_cpu_threads(void);
/* 0 means one for each processor that the process may use. Not during a loop. */
void ts_cpu_set_threads(int n);

/* Ctrl-C: safe to call from a signal handler. The flag stays until cleared. */
void ts_cpu_interrupt(void);
bool ts_cpu_interrupted(void);
void ts_cpu_clear_interrupt(void);
/* For tests: call() at the n-th time from now that somebody looks; 0: no more. Gives what was
 * left of the number before. */
int64_t ts_cpu_call_at_look(int64_t n, void (*call)(void));
/* for (int64_t i = lo; i < hi; i++), left where somebody looks and is interrupted, for loops of
 * nanoseconds a round. */
enum { TS_CPU_ROUNDS = 1 << 16 };
#define TS_CPU_LOOKING(i, lo, hi)                                                              \
  for (int64_t i = (lo), i##_end = i; i < (hi) && !ts_cpu_interrupted();)                      \
    for (i##_end = (hi)-i < TS_CPU_ROUNDS ? (hi) : i + TS_CPU_ROUNDS; i < i##_end; i++)
/* The same for what reads bytes that are gone (vm/core/mapped.h), apart from Ctrl-C: whether it was
 * said since the last time. */
void ts_cpu_lose(void);
bool ts_cpu_take_loss(void);

/* While out is set, an interrupt leaves what this thread does by a jump there: for code of others
 * that looks at no flag, and owns nothing. _leave is the jump, for the end of a handler of signals,
 * which must leave signals as they were before it. */
void ts_cpu_escape(sigjmp_buf *out);
void ts_cpu_leave(void);

/* What must be done as a whole or not at all, such as writing into a tensor that the program has,
 * is done while interrupts are held back: nobody sees one until they are let through, and then
 * everybody. From the context's thread; _let takes what _hold gave, so an error that left
 * somebody's pair open is mended by the next pair around it. */
int ts_cpu_hold_interrupts(void);
void ts_cpu_let_interrupts(int before);
bool ts_cpu_holds_interrupts(void);

#endif
