/* What jit/tune/tune.c and jit/tune/measure.c share. */
#ifndef TS_JIT_TUNE_STATE_H
#define TS_JIT_TUNE_STATE_H

#include <pthread.h>
#include <time.h>

#include "jit/tune/tune.h"

typedef struct Known {
  uint8_t key[32];
  TsTuneEntry e;
} Known;

struct TsTuner {
  pthread_mutex_t lock; /* of all but what is atomic */
  _Atomic TsTuneMode mode;
  atomic_int forced; /* -1: none */
  TsTuneBudget budget;
  double spent_msec;
  Known *known;
  int nknown, capknown;
  TsTuneRecord *record;
  int nrecord, caprecord;
  clockid_t program; /* processor time of the program's thread */
  bool has_program;
  atomic_bool stop;
};

/* Floats in (-1, 1), away from 0; small integers above 0, which divide anything. */
void ts_tune_fill(TsDtype d, char *at, int64_t nbytes);

bool ts_tune_is_nan(TsDtype d, const char *p); /* the element at p */

/* Measures s within the budget, into r, whose choices are s's; r->why says why not. Gives the
 * milliseconds that were spent, without waiting. */
double ts_tune_measure(TsTuner *t, const TsTuneSubject *s, const TsSchedKernel *usual,
                       bool wait, const atomic_bool *cancel, TsTuneRecord *r);

/* Why a candidate has no time: Ctrl-C, whatever it looks like, or what else. */
const char *ts_tune_untried(const char *otherwise);
/* "what: message", as far as there is one, on one line. */
void ts_tune_say(char *why, size_t room, const char *what, const char *message);
/* Microseconds of the usual kernel, run a few times on made-up arguments; 0: not known. */
double ts_tune_usual(TsTuner *t, const TsTuneSubject *s, const TsSchedKernel *usual);

#endif
