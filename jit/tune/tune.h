/* The tuner: measures what could be chosen for a kernel (ir/sched/choice.c) and keeps what
 * wins.
 *
 * Candidates stand in the order of the cost model; the best few are compiled and run on made-up
 * inputs of the same shapes and strides, in turns with what runs now, and one that is at least
 * 7% faster in the median of 10, twice, is the winner. Winners are kept by what the kernel
 * does, its sizes, the target, the processor and the number of threads: in memory, and on disk
 * as text. No bit of a result depends on a choice; a candidate whose bits differ is dropped and
 * counted. On a device the same, but for what jit/tune/device.h says.
 *
 * Safe from any thread. */
#ifndef TS_JIT_TUNE_H
#define TS_JIT_TUNE_H

#include <stdatomic.h>

#include "jit/build/build.h"

typedef enum TsTuneMode { TS_TUNE_off, TS_TUNE_cached, TS_TUNE_on } TsTuneMode;

typedef struct TsTuneBudget {
  double group_msec, total_msec; /* of compiling and measuring, without waiting */
  int64_t bytes;                 /* of a group's inputs and results */
  int candidates;
} TsTuneBudget;

typedef struct TsTuneTime {
  TsSchedChoice choice;
  double usec;   /* 0: not measured */
  char why[120]; /* it was not: "does not fit: ..", or "" */
} TsTuneTime;

/* What was found out about one group; entry 0 is what the passes do. */
typedef struct TsTuneRecord {
  char what[240], why[160]; /* why: nothing was measured, or "" */
  int n, best, differing;
  double share,
      msec; /* of the function's run time, 0 to 1; of measuring at most; 0: not known */
  TsTuneTime at[TS_SCHED_CHOICES];
} TsTuneRecord;

/* What is tuned: something that gives a kernel for each choice; choice[0] is the passes'. */
typedef struct TsTuneSubject {
  TsSchedChoice choice[TS_SCHED_CHOICES];
  int n;
  int (*tile)(void *arg, const TsSchedChoice *c, TsSchedKernel *k, TsError *err);
  void *arg;
  void *const *in; /* what the kernel reads; NULL: it is made up */
  const TsTarget *target;
  int threads;
  double msec; /* it may take; 0: as the budget says */
  double share;
  char what[160];
} TsTuneSubject;

typedef struct TsTuner TsTuner;
TsTuner *ts_tuner_open(void); /* on the program's thread; NULL: no memory */
void ts_tuner_close(TsTuner *t);
TsTuneMode ts_tuner_mode(const TsTuner *t);
void ts_tuner_set_mode(TsTuner *t, TsTuneMode mode);
TsTuneBudget ts_tuner_budget(TsTuner *t);
double ts_tuner_spent(TsTuner *t); /* milliseconds of the total */
void ts_tuner_set_budget(TsTuner *t, TsTuneBudget b);
void ts_tuner_stop(TsTuner *t); /* whoever measures returns soon, now and later */
/* Every group takes candidate i, if it has so many, whatever is known; -1: none. For tests. */
void ts_tuner_force(TsTuner *t, int i);
/* Forgets records and winners, on disk too. */
void ts_tuner_clear(TsTuner *t);

/* The winner that is known; false: none, and *choice stays. origin: whose it is, or NULL. */
bool ts_tune_known(TsTuner *t, const TsTuneSubject *s, TsSchedChoice *choice, uint8_t *origin);
/* Measures it; *choice becomes the winner, if there is one. wait, cancel: as of ts_tune_run. */
void ts_tune_subject(TsTuner *t, const TsTuneSubject *s, bool wait, const atomic_bool *cancel,
                     TsSchedChoice *choice, uint8_t *origin);

/* Sets the choices of b's groups to the winners that are known. */
void ts_tune_apply(TsTuner *t, TsBuildJob *b);
/* Measures b's groups and sets their choices; gives how many have another choice than before. The
 * time of the budget, so much for each of them, is spent by their shares of the run time, longest
 * first, unless it waits; what one leaves is for those behind it.
 * wait: only while the program's thread is idle; cancel: turns true when it is to stop, or
 * NULL. -1: no memory. */
int ts_tune_run(TsTuner *t, TsBuildJob *b, bool wait, const atomic_bool *cancel, TsError *err);
/* Records from number `from` on, at most n; gives how many. */
int ts_tune_records(TsTuner *t, int from, int n, TsTuneRecord *out);

/* ---- jit/tune/disk.c: <key>.t in the folder of compiled kernels */
typedef struct TsTuneEntry {
  TsSchedChoice choice;
  double was_usec, usec;
  uint8_t origin; /* TsChoiceOrigin; not on disk */
} TsTuneEntry;
bool ts_tune_read(const uint8_t key[32], TsTuneEntry *e);
void ts_tune_write(const uint8_t key[32], const TsTuneEntry *e, const char *what, int threads,
                   const char *machine);
void ts_tune_forget(void);
const char *ts_tune_machine(void); /* the processor's name */

#endif
