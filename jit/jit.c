/* Functions that get hot, and what becomes of them.
 *
 *   cold ── spent enough ──> queued ── job done, next call ──> live ── slower ──> cold again,
 *    ^                          │                                │                with a higher bar
 *    └──── not worth it, failed ┴────────── flushed ─────────────┘
 *
 * Nothing is refused for ever: whatever sends a function back raises what it must spend before
 * the next attempt. */
#include "jit/jit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "devices/cpu_pool.h"
#include "jit/build.h"
#include "jit/llvm.h"
#include "jit/queue.h"
#include "jit/trace.h"
#include "jit/unit.h"
#include "vm/lower.h"

enum {
  HOT_USEC = 2000,    /* spent in a function before it is looked at */
  HOT_CALLS = 2,
  RAISE = 8,          /* how much more the next attempt needs */
  TRIAL = 12,         /* calls that judge new code, in turns with the old */
  SLOWER_PERCENT = 5, /* more than this and the old code comes back */
};

typedef enum State { COLD, QUEUED, LIVE } State;

/* What the background thread gets; its function may be gone by the time it is done. */
typedef struct Job {
  TsQueueJob base; /* first */
  TsBuildJob build;
  TsError err;
  int failed;
  TsJitFunction *f; /* NULL: the function is gone */
  struct Job *next; /* of all jobs under way */
} Job;

struct TsJitFunction {
  TsJit *jit;
  TsJitFunction *next, **at;
  const TsGraph *g;
  const bool *donated;
  State state;
  int64_t calls, nsec;        /* at tier 0 since the last attempt */
  int64_t need_nsec;          /* before the next one */
  int64_t start;              /* of the call that runs */
  int64_t best[2];            /* shortest call at tier 0, with kernels */
  int trial;                  /* calls of it so far */
  Job *job;
  TsBuildJob build;           /* live: whose kernels run */
  TsCode *code;
  TsFrame *frame;
};

struct TsJit {
  TsContext *c;
  TsQueue *queue;
  const TsJitTarget *target; /* NULL: nothing can be compiled */
  bool on, verbose, eager;
  TsJitFunction *first;
  TsTracer *tracer;
  Job *jobs;
  TsJitStats stats;
};

static int64_t now_nsec(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* ---- the log */
/* The place of a function is that of its first node that has one. */
static const char *where(const TsGraph *g) {
  for (int i = 0; i < g->nnode; i++)
    if (g->node[i]->nout && *ts_graph_where(g->node[i])) return ts_graph_where(g->node[i]);
  return "";
}

static void say(TsJit *j, const TsGraph *g, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void say(TsJit *j, const TsGraph *g, const char *what, const char *format, ...) {
  if (!j->verbose) return;
  va_list ap;
  char why[400];
  va_start(ap, format);
  vsnprintf(why, sizeof why, format, ap);
  va_end(ap);
  const char *at = where(g);
  fprintf(stderr, "[jit %s %s%s%s: %s]\n", what, g->name, *at ? " " : "", at, why);
}

/* Lines of text that belong to the message before. */
static void say_lines(TsJit *j, const char *text) {
  while (j->verbose && text && *text) {
    size_t n = strcspn(text, "\n");
    fprintf(stderr, "[jit      %.*s]\n", (int)n, text);
    text += n + (text[n] == '\n');
  }
}

/* ---- opening */
TsJit *ts_jit_open(TsContext *c) {
  TsJit *j = calloc(1, sizeof *j);
  if (!j) return NULL;
  j->c = c;
  j->on = true;
  j->target = ts_llvm_present() ? ts_jit_target(c->k->isa) : NULL;
  if (j->target && !j->target->triple) j->target = NULL;
  if ((j->queue = ts_queue_open()) && (j->tracer = ts_tracer_open(c, j))) return j;
  if (j->queue) ts_queue_close(j->queue);
  free(j);
  return NULL;
}

const char *ts_jit_absent(const TsJit *j) {
  if (!ts_llvm_present()) return "it was built without LLVM";
  return j->target ? NULL : "there is no code generator for this processor";
}

void ts_jit_enable(TsJit *j, bool on) {
  j->on = on;
  ts_tracer_enable(j->tracer, on);
}
bool ts_jit_enabled(const TsJit *j) { return j->on && j->target; }
void ts_jit_verbose(TsJit *j, bool on) {
  j->verbose = on;
  ts_tracer_verbose(j->tracer, on);
}
TsTracer *ts_jit_tracer(TsJit *j) { return j->tracer; }
void ts_jit_eager(TsJit *j, bool on) { j->eager = on; }

/* ---- jobs */
static void run_job(TsQueueJob *base) {
  Job *job = (Job *)base;
  job->failed = ts_build_run(&job->build, &job->err);
}

static void free_job(TsJit *j, Job *job) {
  for (Job **at = &j->jobs; *at; at = &(*at)->next)
    if (*at == job) {
      *at = job->next;
      break;
    }
  ts_capture_release((TsGraph *)(uintptr_t)job->build.g);
  ts_build_free(&job->build);
  free(job);
}

static bool is_done(Job *job) {
  return atomic_load_explicit(&job->base.done, memory_order_acquire);
}

/* Jobs whose function is gone. */
static void reap(TsJit *j) {
  for (Job *job = j->jobs, *next; job; job = next) {
    next = job->next;
    if (!job->f && is_done(job)) free_job(j, job);
  }
}

static int begin(TsJitFunction *f) {
  TsJit *j = f->jit;
  reap(j);
  Job *job = calloc(1, sizeof *job);
  if (!job) return -1;
  job->f = f;
  job->base.run = run_job;
  job->build = (TsBuildJob){.g = f->g,
                            .layouts = ts_layouts_new(j->c, f->g),
                            .target = j->target,
                            .threads = ts_cpu_threads(),
                            .spent_msec = j->eager ? 1e9 : (double)f->nsec / 1e6};
  if (!job->build.layouts || ts_queue_add(j->queue, &job->base)) {
    ts_error_clear(&j->c->err);
    ts_layouts_free(job->build.layouts);
    free(job);
    return -1;
  }
  ts_capture_ref((TsGraph *)(uintptr_t)f->g);
  job->next = j->jobs;
  j->jobs = job;
  f->job = job;
  f->state = QUEUED;
  return 0;
}

/* ---- states */
static void cool(TsJitFunction *f, int64_t need_nsec) {
  f->state = COLD;
  f->need_nsec = need_nsec;
  f->calls = f->nsec = 0;
  f->best[0] = INT64_MAX;
}

static void drop_code(TsJitFunction *f) {
  if (f->frame) f->jit->stats.promoted--;
  ts_frame_free(f->frame);
  ts_code_free(f->code);
  ts_build_free(&f->build);
  f->frame = NULL;
  f->code = NULL;
}

static int install(TsJitFunction *f) {
  TsJit *j = f->jit;
  f->code = ts_lower_fused(j->c, f->g, f->donated, &f->build.fusion);
  f->frame = f->code ? ts_frame_new(j->c, f->code) : NULL;
  if (!f->frame) return drop_code(f), -1;
  j->stats.promoted++;
  f->state = LIVE;
  f->trial = 0;
  f->best[0] = f->best[1] = INT64_MAX;
  return 0;
}

static void take_kernels(TsJitFunction *f, Job *job) {
  TsJit *j = f->jit;
  int64_t start = now_nsec();
  f->build = job->build;
  job->build = (TsBuildJob){.g = job->build.g};
  j->stats.kernels += f->build.nkernel;
  j->stats.cached += f->build.ncached;
  j->stats.failed += f->build.nfailed;
  j->stats.compile_msec += f->build.msec;
  if (f->build.nkernel && install(f)) {
    say(j, f->g, "refused", "%s", j->c->err.message);
    ts_error_clear(&j->c->err);
    cool(f, f->need_nsec * RAISE);
    return;
  }
  double msec = (double)(now_nsec() - start) / 1e6;
  if (msec > j->stats.install_msec_max) j->stats.install_msec_max = msec;
  if (!f->build.nkernel) {
    say(j, f->g, "refused", "%s", f->build.nfailed ? "no group has a kernel" : "nothing to fuse");
    say_lines(j, f->build.why.at);
    drop_code(f);
    return cool(f, f->need_nsec * RAISE);
  }
  say(j, f->g, "promoted", "%d kernel%s of %d operators, %d from disk, in %.1f ms and %.2f ms here",
      f->build.nkernel, f->build.nkernel > 1 ? "s" : "", f->build.nnode, f->build.ncached,
      f->build.msec, msec);
  say_lines(j, f->build.why.at);
}

static void finish(TsJitFunction *f) {
  Job *job = f->job;
  TsJit *j = f->jit;
  f->job = NULL;
  if (job->failed) {
    say(j, f->g, "refused", "%s", job->err.message);
    cool(f, f->need_nsec * RAISE);
  } else if (job->build.need_msec > 0) {
    f->state = COLD; /* goes on counting */
    f->need_nsec = (int64_t)(job->build.need_msec * 1e6);
  } else {
    take_kernels(f, job);
  }
  free_job(j, job);
}

static bool hot(const TsJitFunction *f) {
  if (f->jit->eager) return true;
  return f->calls >= HOT_CALLS && f->nsec >= f->need_nsec;
}

/* New code that is slower than what was there is given up. Both take turns for a while, so that
 * what else the machine does meets both. */
static void judge(TsJitFunction *f) {
  if (f->trial != TRIAL || f->jit->eager || f->best[0] == INT64_MAX) return;
  f->trial++; /* once */
  if (f->best[1] <= f->best[0] + f->best[0] * SLOWER_PERCENT / 100) return;
  say(f->jit, f->g, "returned", "%.1f us with kernels, %.1f us without",
      (double)f->best[1] / 1e3, (double)f->best[0] / 1e3);
  drop_code(f);
  cool(f, f->need_nsec * RAISE);
}

/* ---- functions */
TsJitFunction *ts_jit_function(TsJit *j, const TsGraph *g, const bool *donated) {
  TsJitFunction *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  *f = (TsJitFunction){.jit = j, .g = g, .donated = donated, .next = j->first, .at = &j->first};
  cool(f, HOT_USEC * 1000LL);
  if (j->first) j->first->at = &f->next;
  j->first = f;
  j->stats.functions++;
  return f;
}

static void abandon(TsJitFunction *f) {
  if (!f->job) return;
  f->job->f = NULL;
  if (ts_queue_cancel(f->jit->queue, &f->job->base)) free_job(f->jit, f->job);
  f->job = NULL;
}

void ts_jit_function_free(TsJitFunction *f) {
  if (!f) return;
  abandon(f);
  drop_code(f);
  if (f->next) f->next->at = f->at;
  *f->at = f->next;
  f->jit->stats.functions--;
  free(f);
}

TsFrame *ts_jit_enter(TsJitFunction *f, TsFrame *own) {
  TsJit *j = f->jit;
  if (!ts_jit_enabled(j) || j->c->trap) return own;
  if (f->state == COLD && hot(f) && begin(f)) cool(f, f->need_nsec * RAISE);
  if (f->state == QUEUED && j->eager) ts_queue_wait(j->queue);
  if (f->state == QUEUED && is_done(f->job)) finish(f);
  if (f->state == LIVE) judge(f);
  bool old = f->trial < TRIAL && f->trial % 2 && !j->eager;
  f->start = now_nsec();
  return f->state == LIVE && !old ? f->frame : own;
}

void ts_jit_leave(TsJitFunction *f, const TsFrame *ran, bool failed) {
  int64_t nsec = now_nsec() - f->start;
  bool live = ran == f->frame;
  if (failed || !f->start) return;
  if (nsec < f->best[live]) f->best[live] = nsec;
  if (f->state == LIVE) {
    if (f->trial < TRIAL) f->trial++;
    return;
  }
  f->calls++;
  f->nsec += nsec;
}

/* ---- all of them */
void ts_jit_wait(TsJit *j) {
  ts_queue_wait(j->queue);
  reap(j);
  for (TsJitFunction *f = j->first; f; f = f->next)
    if (f->state == QUEUED && is_done(f->job)) finish(f);
}

void ts_jit_flush(TsJit *j) {
  ts_tracer_flush(j->tracer);
  for (TsJitFunction *f = j->first; f; f = f->next) {
    abandon(f);
    drop_code(f);
    cool(f, HOT_USEC * 1000LL);
  }
  reap(j);
}

TsJitStats ts_jit_stats(const TsJit *j) {
  TsJitStats s = j->stats;
  s.jobs = ts_queue_length(j->queue);
  return s;
}

void ts_jit_close(TsJit *j) {
  if (!j) return;
  ts_tracer_close(j->tracer);
  while (j->first) ts_jit_function_free(j->first);
  ts_queue_close(j->queue);
  while (j->jobs) free_job(j, j->jobs);
  free(j);
}
