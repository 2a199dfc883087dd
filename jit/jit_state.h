/* What the files of the tiers share: jit/jit.c, promote.c, why.c, move.c, marks.c, weigh.c. */
#ifndef TS_JIT_JIT_STATE_H
#define TS_JIT_JIT_STATE_H

#include <stdatomic.h>

#include "devices/device.h"
#include "jit/build/build.h"
#include "jit/jit.h"
#include "jit/shown.h"
#include "jit/eager/offload.h"
#include "jit/code/queue.h"
#include "jit/build/warm.h"
#include "jit/trace/trace.h"
#include "jit/tune/tune.h"

typedef enum State { COLD, QUEUED, LIVE } State;

/* Whether a function of the CPU runs on a device by itself (jit/move.c). */
typedef enum MoveState { MOVE_here, MOVE_compiling, MOVE_trial, MOVE_there } MoveState;

typedef struct Move {
  MoveState state;
  TsDevice *device;
  int64_t nsec, need_nsec; /* spent here so far; before the next look */
  int trial;               /* calls of it so far */
  int64_t best[2];         /* here, there */
  int64_t fetched;         /* bytes that the program fetched after calls there */
  int64_t downloaded;      /* bytes of the context when the last call came */
  bool was_there;          /* that one */
} Move;

/* What the background thread gets; its function may be gone by the time it is done. */
typedef struct Job {
  TsQueueJob base; /* first */
  TsBuildJob build;
  TsError err;
  int failed;
  TsJitFunction *f;   /* NULL: the function is gone */
  atomic_bool cancel; /* of a job of the tuner */
  struct Job *next;   /* of all jobs under way */
} Job;

/* What ran before profile marks came (jit/marks.c). */
typedef struct TsJitPlain {
  TsBuildJob build;
  TsCode *code;
  TsFrame *frame;
} TsJitPlain;

struct TsJitFunction {
  TsJit *jit;
  TsJitFunction *next, **at;
  const TsGraph *g;
  TsGraph *own; /* of a device: g, where it is another graph there, or NULL */
  const bool *donated;
  TsDevice *device;     /* NULL: the CPU */
  TsJitFunction *there; /* the same on a device, and on the next one */
  Move move;
  State state;
  bool looked;           /* whether it is known on disk */
  int64_t calls, nsec;   /* at tier 0 since the last attempt */
  int64_t need_nsec;     /* before the next one */
  int64_t start;         /* of the call that runs */
  int64_t last_nsec;     /* of the last call at tier 0 */
  int64_t best[2];       /* shortest call at tier 0, with kernels */
  int trial;             /* calls of it so far */
  bool pinned;           /* its kernels stay, slower or not */
  bool weighed;          /* its kernels were looked at one by one */
  TsBuildChosen *chosen; /* for its groups, by the program */
  Job *job, *tuning;     /* the latter while it is live */
  TsBuildJob build;      /* live: whose kernels run */
  TsCode *code;
  TsFrame *frame;
  TsJitPlain *plain; /* while kernels with marks run, or NULL */
  char told[400];    /* what was last said of it */
};

struct TsJit {
  TsContext *c;
  TsQueue *queue, *tunes;
  TsWarm warm;
  TsShown *shown; /* at a prompt, or NULL */
  TsTuner *tuner;
  const TsTarget *target; /* NULL: nothing can be compiled */
  bool on, verbose, eager;
  TsBuildHow how;
  TsJitFunction *first;
  TsTracer *tracer;
  TsOffloader *offloader;
  Job *jobs;
  TsJitStats stats;
  const char *move_to; /* for tests: functions go there, at once; or NULL */
  int returns;         /* for tests: so many-th kernels go back at once; 0: none */
};

/* Remembers what became of f, and tells it if somebody listens. */
void ts_jit_say(TsJitFunction *f, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void ts_jit_say_lines(const TsJit *j, const char *text); /* that belong to the line before */

/* jit/jit.c: what runs f, on a device if nothing does here, or it moved there; where it is used,
 * live or not. */
TsJitFunction *ts_jit_shown(TsJitFunction *f);
TsJitFunction *ts_jit_used(TsJitFunction *f);
/* f's graph as a target wants its images, on that device, or NULL: as it is, also where there is no
 * memory for another. */
TsGraph *ts_jit_turned(const TsJitFunction *f, const TsTarget *t, const TsDevice *d);

/* jit/promote.c */
enum { TS_JIT_TRIAL = 12 };         /* calls that judge new code, in turns with the old */
void ts_jit_cool(TsJitFunction *f); /* counting begins */
/* Before a call: what there is to do about f. own: its frame without kernels. */
void ts_jit_advance(TsJitFunction *f, const TsFrame *own);
void ts_jit_forget(TsJitFunction *f); /* jobs and kernels; it is cold again */
void ts_jit_reap(TsJit *j);           /* jobs whose function is gone, if they are done */
void ts_jit_free_jobs(TsJit *j);      /* all, when nothing runs them any more */
/* f on a device; NULL where nothing is compiled for it. */
TsJitFunction *ts_jit_on(TsJitFunction *f, TsDevice *d);
int ts_jit_begin(TsJitFunction *f);   /* queues the job of f; -1: no memory */
int ts_jit_install(TsJitFunction *f); /* the kernels of f->build; -1 with the error: none run */
void ts_jit_drop(TsJitFunction *f);   /* what runs */
void ts_jit_judged(TsJitFunction *f); /* its kernels need no trial */
bool ts_jit_step(TsJitFunction *f);   /* takes what a job has made; whether f is live */

/* jit/scheduled.c */
TsBuildJob ts_jit_build_of(TsJitFunction *f, double spent_msec);
/* The build of what runs, or, if nothing does or another target is asked for, one that is scheduled
 * and not compiled: what is looked at. -1 with the context's error; it is closed in any case. */
typedef struct TsJitBuild {
  TsBuildJob *b, own;
  TsGraph *turned; /* own's graph, where it is another one than the function's */
} TsJitBuild;
int ts_jit_open_build(TsJitFunction *f, const TsTarget *target, TsJitBuild *x);
void ts_jit_close_build(TsJitBuild *x);

/* jit/promote.c: its kernels are made anew, now; those that are the same are found on disk. */
int ts_jit_rebuild(TsJitFunction *f);
/* jit/choose.c: lines of a build's remarks, where somebody listens. */
void ts_jit_say_remarks(const TsJit *j, const TsBuildJob *b);

/* jit/weigh.c. Kernels of f, which were measured together with own, go back to operators where
 * these are faster; how many did. f's code still calls them. */
int ts_weigh_kernels(TsJitFunction *f, const TsFrame *own);
/* Those of b that have none in the other build of the same function. */
void ts_weigh_alike(TsBuildJob *b, const TsBuildJob *other);
/* For tests: the first of them, and every step-th. */
void ts_weigh_some(TsBuildJob *b, int step);

/* jit/move.c: the frame of a device that runs this call of f, or NULL. */
TsFrame *ts_jit_move_enter(TsJitFunction *f, TsFrame *own);
void ts_jit_move_leave(TsJitFunction *f, const TsFrame *ran, int64_t nsec);

#endif
