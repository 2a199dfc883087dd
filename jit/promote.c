/* What becomes of functions that get hot: jobs for them, their kernels, judgements.
 *
 *   cold ── spent enough ──> queued ── job done, next call ──> live ── slower ──> cold again,
 *    ^                          │                                │             with a higher bar
 *    └──── not worth it, failed ┴────────── flushed ─────────────┘
 *
 * Nothing is refused for ever: whatever sends a function back raises what it must spend before
 * the next attempt. */
#include "jit/jit_state.h"

#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "jit/device/known.h"
#include "vm/code/lower.h"
#include "lib/clock.h"

enum {
  HOT_USEC = 2000, /* spent in a function before it is looked at */
  HOT_CALLS = 2,
  SLOWER_PERCENT = 5, /* more than this and the old code comes back */
};

int64_t ts_jit_need_longer(int64_t nsec) {
  const int64_t more = 8, most = 3600 * 1000000000LL;
  return nsec < most / more ? nsec * more : most;
}

/* ---- jobs */
static void run_job(TsQueueJob *base) {
  Job *job = (Job *)base;
  int64_t start = ts_clock_nsec();
  job->failed = ts_build_run(&job->build, &job->err);
  if (job->failed) job->build.msec = (double)(ts_clock_nsec() - start) / 1e6;
}

/* Kernels are made anew only if one is another now; ts_build_run goes on from the schedule. */
static void run_tuning(TsQueueJob *base) {
  Job *job = (Job *)base;
  job->failed = ts_build_schedule(&job->build, &job->err);
  int changed = job->failed
                    ? 0
                    : ts_tune_run(job->build.tuner, &job->build, true, &job->cancel, &job->err);
  if (changed < 0) job->failed = true;
  if (changed > 0) job->failed = ts_build_run(&job->build, &job->err);
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

void ts_jit_reap(TsJit *j) {
  for (Job *job = j->jobs, *next; job; job = next) {
    next = job->next;
    if (!job->f && is_done(job)) free_job(j, job);
  }
}

static Job *queue_job(TsJitFunction *f, TsQueue *queue, void (*run)(TsQueueJob *job),
                      double spent_msec, bool at_hand) {
  TsJit *j = f->jit;
  ts_jit_reap(j);
  Job *job = calloc(1, sizeof *job);
  if (!job) return NULL;
  job->f = f;
  job->base.run = run;
  job->build = ts_jit_build_of(f, spent_msec);
  job->build.at_hand = at_hand;
  if (!job->build.layouts || ts_queue_add(queue, &job->base)) {
    ts_error_clear(&j->c->err);
    ts_layouts_free(job->build.layouts);
    ts_build_chosen_free(job->build.chosen);
    free(job);
    return NULL;
  }
  ts_capture_ref((TsGraph *)(uintptr_t)f->g);
  job->next = j->jobs;
  return j->jobs = job;
}

int ts_jit_begin(TsJitFunction *f) {
  TsJit *j = f->jit;
  double spent = j->eager || f->pinned ? 1e9 : (double)f->nsec / 1e6;
  if (!(f->job = queue_job(f, j->queue, run_job, spent, false))) return -1;
  f->state = QUEUED;
  return 0;
}

static void abandon_tuning(TsJitFunction *f) {
  Job *job = f->tuning;
  f->tuning = NULL;
  if (!job) return;
  job->f = NULL;
  atomic_store(&job->cancel, true);
  if (ts_queue_cancel(f->jit->tunes, &job->base)) free_job(f->jit, job);
}

static void abandon(TsJitFunction *f) {
  abandon_tuning(f);
  if (!f->job) return;
  f->job->f = NULL;
  if (ts_queue_cancel(f->jit->queue, &f->job->base)) free_job(f->jit, f->job);
  f->job = NULL;
}

/* ---- states */
static void cool(TsJitFunction *f, int64_t need_nsec) {
  f->state = COLD;
  f->need_nsec = need_nsec;
  f->calls = f->nsec = 0;
  f->best[0] = INT64_MAX;
}

void ts_jit_cool(TsJitFunction *f) { cool(f, HOT_USEC * 1000LL); }

/* After an attempt in vain. */
static void cool_longer(TsJitFunction *f) { cool(f, ts_jit_need_longer(f->need_nsec)); }

/* Those that stand aside while others are profiled go too. */
static void drop_plain(TsJitFunction *f) {
  TsJitPlain *p = f->plain;
  f->plain = NULL;
  if (!p) return;
  f->jit->stats.promoted--;
  ts_frame_free(p->frame);
  ts_code_free(p->code);
  ts_build_free(&p->build);
  free(p);
}

void ts_jit_drop(TsJitFunction *f) {
  drop_plain(f);
  if (f->frame) f->jit->stats.promoted--;
  ts_frame_free(f->frame);
  ts_code_free(f->code);
  ts_build_free(&f->build);
  f->frame = NULL;
  f->code = NULL;
}

int ts_jit_install(TsJitFunction *f) {
  TsJit *j = f->jit;
  f->code = ts_lower_fused(j->c, f->g, f->donated, &f->build.fusion);
  f->frame = f->code ? ts_frame_new(j->c, f->code) : NULL;
  if (!f->frame) return ts_jit_drop(f), -1;
  j->stats.promoted++;
  f->state = LIVE;
  f->trial = 0;
  f->best[0] = f->best[1] = INT64_MAX;
  return 0;
}

/* What began at start is how long a call was held up. */
static double held_up(TsJit *j, int64_t start) {
  double msec = (double)(ts_clock_nsec() - start) / 1e6;
  if (msec > j->stats.install_msec_max) j->stats.install_msec_max = msec;
  return msec;
}

static void take_kernels(TsJitFunction *f, Job *job) {
  TsJit *j = f->jit;
  int64_t start = ts_clock_nsec();
  f->build = job->build;
  job->build = (TsBuildJob){.g = job->build.g};
  if (j->shown) ts_shown_later(j->shown, &f->build);
  j->stats.kernels += f->build.nkernel;
  j->stats.cached += f->build.ncached;
  j->stats.failed += f->build.nfailed;
  j->stats.compile_msec += f->build.msec;
  f->weighed = false;
  if (j->returns && !f->device && f->build.nkernel) ts_weigh_some(&f->build, j->returns);
  bool compiled = !f->device && f->build.ncached < f->build.nkernel;
  if (compiled && j->how == TS_BUILD_compiled) ts_warm_begin(&j->warm, j->queue, j->target);
  if (f->build.nkernel && ts_jit_install(f)) {
    ts_jit_say(f, "refused", "%s", j->c->err.message);
    ts_error_clear(&j->c->err);
    cool_longer(f);
    return;
  }
  double msec = held_up(j, start);
  if (!f->build.nkernel) {
    const char *why = f->build.nfailed && f->build.why.at ? f->build.why.at : "";
    ts_jit_say(f, "refused", "%s, in %.1f ms%s%.*s",
               f->build.nfailed ? "no group has a kernel" : "nothing to fuse", f->build.msec,
               *why ? "; " : "", (int)strcspn(why, "\n"), why);
    ts_jit_say_lines(j, *why ? why + strcspn(why, "\n") + (strchr(why, '\n') != NULL)
                             : f->build.why.at);
    ts_jit_say_remarks(j, &f->build);
    ts_jit_drop(f);
    return cool_longer(f);
  }
  if (f->device) ts_known_add(f->device, f->g);
  ts_jit_say(f, "promoted",
             "%d kernel%s of %d operators, %d from disk, in %.1f ms and %.2f ms here",
             f->build.nkernel, f->build.nkernel > 1 ? "s" : "", f->build.nnode,
             f->build.ncached, f->build.msec, msec);
  ts_jit_say_lines(j, f->build.why.at);
  ts_jit_say_remarks(j, &f->build);
}

static void tune_later(TsJitFunction *f) {
  TsJit *j = f->jit;
  if (f->state == LIVE && !f->tuning && !f->device && j->how == TS_BUILD_compiled &&
      ts_tuner_mode(j->tuner) == TS_TUNE_on)
    f->tuning = queue_job(f, j->tunes, run_tuning, 1e9, false);
}

/* Better kernels take the place of those that run, like a promotion. */
static void finish_tuning(TsJitFunction *f) {
  Job *job = f->tuning;
  f->tuning = NULL;
  if (!job->failed && job->build.nkernel && f->state == LIVE) {
    ts_jit_drop(f);
    take_kernels(f, job);
  }
  free_job(f->jit, job);
}

/* What a job that nobody waited for has made. */
static int take_now(TsJitFunction *f, Job *job, int failed) {
  if (!failed && job->build.nkernel) {
    abandon(f);
    ts_jit_drop(f);
    take_kernels(f, job);
  }
  ts_build_free(&job->build);
  return failed ? -1 : 0;
}

int ts_jit_rebuild(TsJitFunction *f) {
  TsError *err = &f->jit->c->err;
  Job job = {.build = ts_jit_build_of(f, 1e9)};
  int failed = !job.build.layouts ? ts_error_memory(err) : ts_build_run(&job.build, err);
  return take_now(f, &job, failed);
}

int ts_jit_tune(TsJitFunction *f) {
  TsJit *j = f->jit;
  TsError *err = &j->c->err;
  f = ts_jit_used(f);
  const char *absent = ts_jit_absent(j);
  if (absent) return ts_error_set(err, TS_ERR_device, "nothing is compiled: %s", absent);
  Job job = {.build = ts_jit_build_of(f, 1e9)};
  int failed = !job.build.layouts ? ts_error_memory(err) : ts_build_schedule(&job.build, err);
  int changed = failed ? 0 : ts_tune_run(j->tuner, &job.build, false, NULL, err);
  failed |= changed < 0;
  if (!failed && (changed || f->state != LIVE)) failed = ts_build_run(&job.build, err);
  return take_now(f, &job, failed);
}

static void finish(TsJitFunction *f) {
  Job *job = f->job;
  TsJit *j = f->jit;
  f->job = NULL;
  if (job->failed) {
    ts_jit_say(f, "refused", "%s, in %.1f ms", job->err.message, job->build.msec);
    cool_longer(f);
  } else if (job->build.need_msec > 0) {
    f->state = COLD; /* goes on counting */
    f->need_nsec = (int64_t)(job->build.need_msec * 1e6);
    ts_jit_say(f, "waits", "until %.1f ms are spent here; compiling may take twice as long",
               job->build.need_msec);
  } else {
    take_kernels(f, job);
    tune_later(f);
  }
  free_job(j, job);
}

int ts_jit_pin(TsJitFunction *f, bool on) {
  TsJit *j = f->jit;
  const char *absent = ts_jit_absent(j);
  f = ts_jit_used(f);
  if (on && absent)
    return ts_error_set(&j->c->err, TS_ERR_device, "nothing is compiled: %s", absent);
  f->pinned = on;
  if (!on) return f->state == LIVE;
  if (f->state == COLD && ts_jit_begin(f)) return ts_error_memory(&j->c->err);
  if (f->state == QUEUED) ts_queue_wait(j->queue);
  if (f->state == QUEUED && is_done(f->job)) finish(f); /* not where Ctrl-C ended the wait */
  return f->state == LIVE;
}

/* The kernels that are left. */
static void install_again(TsJitFunction *f) {
  TsJit *j = f->jit;
  int64_t start = ts_clock_nsec();
  ts_frame_free(f->frame);
  ts_code_free(f->code);
  f->frame = NULL, f->code = NULL;
  j->stats.promoted--;
  if (f->build.nkernel && !ts_jit_install(f)) return (void)held_up(j, start);
  ts_error_clear(&j->c->err);
  ts_jit_drop(f);
  cool_longer(f);
}

/* New code that is slower than what was there is given up, kernel by kernel, then as a whole.
 * Both take turns for a while, so that what else the machine does meets both. */
static void judge(TsJitFunction *f, const TsFrame *own) {
  if (f->device) return; /* what was timed is how long it takes to ask the device */
  if (f->pinned) return;
  if (f->trial != TS_JIT_TRIAL || f->jit->eager || f->best[0] == INT64_MAX) return;
  f->trial++; /* once */
  if (!f->weighed && (f->weighed = true) && ts_weigh_kernels(f, own)) {
    install_again(f);
    return;
  }
  if (f->best[1] <= f->best[0] + f->best[0] * SLOWER_PERCENT / 100) return;
  ts_jit_say(f, "returned", "%.1f us with kernels, %.1f us without", (double)f->best[1] / 1e3,
             (double)f->best[0] / 1e3);
  ts_jit_drop(f);
  cool_longer(f);
}

void ts_jit_judged(TsJitFunction *f) { f->trial = TS_JIT_TRIAL + 1; }

/* ---- between calls */
static bool hot(const TsJitFunction *f) {
  if (f->jit->eager) return true;
  return f->calls >= HOT_CALLS && f->nsec >= f->need_nsec;
}

bool ts_jit_step(TsJitFunction *f) {
  if (f->state == QUEUED && f->jit->eager) ts_queue_wait(f->jit->queue);
  if (f->state == QUEUED && is_done(f->job)) finish(f);
  return f->state == LIVE;
}

/* What an earlier process promoted on this device runs by its kernels from the first call on:
 * they are loaded in less time than a call without them takes, which loads others. */
static void look_on_disk(TsJitFunction *f) {
  TsJit *j = f->jit;
  f->looked = true;
  if (f->state != COLD || ts_queue_length(j->queue) || !ts_known_has(f->device, f->g)) return;
  if (!(f->job = queue_job(f, j->queue, run_job, 0, true))) return;
  f->state = QUEUED;
  ts_queue_wait(j->queue);
}

void ts_jit_advance(TsJitFunction *f, const TsFrame *own) {
  if (f->device && !f->looked) {
    look_on_disk(f);
    ts_jit_step(f); /* cold again where kernels are others now: a hot call begins anew */
  }
  if (f->state == COLD && hot(f) && ts_jit_begin(f)) cool_longer(f);
  ts_jit_step(f);
  if (f->tuning && is_done(f->tuning)) finish_tuning(f);
  if (f->state == LIVE) judge(f, own);
}

void ts_jit_wait(TsJit *j) {
  ts_offload_wait(j->offloader);
  ts_queue_wait(j->queue);
  ts_jit_reap(j);
  for (TsJitFunction *f = j->first; f; f = f->next)
    if (f->state == QUEUED && is_done(f->job)) finish(f);
  ts_queue_wait(j->queue); /* the first of all has LLVM made ready for others behind it */
  ts_queue_wait(j->tunes);
  for (TsJitFunction *f = j->first; f; f = f->next)
    if (f->tuning && is_done(f->tuning)) finish_tuning(f);
}

/* ---- the end */
void ts_jit_forget(TsJitFunction *f) {
  abandon(f);
  ts_jit_drop(f);
  ts_jit_cool(f);
}

void ts_jit_free_jobs(TsJit *j) {
  while (j->jobs) free_job(j, j->jobs);
}
