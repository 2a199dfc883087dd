/* Candidates of one kernel side by side: made-up arguments, samples in turns, medians. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "jit/build/build.h"
#include "jit/tune/state.h"
#include "jit/tune/interleave.h"
#include "lib/clock.h"

enum {
  BETTER_PERCENT = 7,
  SAMPLE_USEC = 60,
  IDLE_USEC = 2000,      /* the program did nothing for so long: it is idle */
  PATIENCE_MSEC = 60000, /* of waiting for that */
};

/* ---- made-up arguments */
typedef struct Args {
  char *block[TS_SCHED_PARAMS];
  void *at[TS_SCHED_PARAMS], *want[TS_SCHED_PARAMS], *have[TS_SCHED_PARAMS];
  int64_t nbytes[TS_SCHED_PARAMS];
  int n, nin;
  int64_t dim[TS_TILE_DIMS];
} Args;

static void free_args(Args *a) {
  for (int i = 0; i < a->n; i++) free(a->block[i]);
}

static bool holds_places(const TsSchedKernel *k, int param) {
  for (int i = 0; i < k->nguard; i++)
    if (k->guard[i].param == param) return true;
  return false;
}

/* Results have two places: those of the usual choice and those of a candidate. */
static int make_args(const TsTuneSubject *s, const TsSchedKernel *k, int64_t limit, Args *a) {
  int64_t total = 0, below[TS_SCHED_PARAMS];
  *a = (Args){.nin = k->tile->nin};
  memcpy(a->dim, k->dim, sizeof a->dim);
  for (int i = 0; i < k->tile->nparam; i++) {
    ts_tile_reach(&k->tile->param[i]->type, k->dim, &below[i], &a->nbytes[i]);
    if (i >= a->nin || !s->in) total += (below[i] + a->nbytes[i]) * (i < a->nin ? 1 : 2);
  }
  if (total > limit) return -1;
  for (int i = 0; i < k->tile->nparam; i++) {
    int64_t all = ((below[i] + a->nbytes[i] + 63) & -64) + 64, lift = (below[i] + 63) & -64;
    if (i < a->nin && s->in) {
      a->want[i] = a->have[i] = s->in[i];
      a->n = i + 1;
      continue;
    }
    a->block[i] = aligned_alloc(64, (size_t)((all + 64) * (i < a->nin ? 1 : 2)));
    a->n = i + 1;
    if (!a->block[i]) return -1;
    memset(a->block[i], 0, (size_t)((all + 64) * (i < a->nin ? 1 : 2)));
    a->want[i] = a->have[i] = a->block[i] + lift;
    if (i < a->nin && !holds_places(k, i)) /* place 0 is one of any rows */
      ts_tune_fill((TsDtype)k->tile->param[i]->type.dtype, a->block[i], lift + a->nbytes[i]);
    else if (i >= a->nin)
      a->have[i] = a->block[i] + all;
  }
  return 0;
}

bool ts_tune_is_nan(TsDtype d, const char *p) {
  uint64_t v = 0;
  memcpy(&v, p, ts_dtypes[d].nbytes);
  switch (d) {
  case TS_DT_f64: return (v & INT64_MAX) > 0x7ff0000000000000ull;
  case TS_DT_f32: return (v & 0x7fffffff) > 0x7f800000;
  case TS_DT_f16: return (v & 0x7fff) > 0x7c00;
  case TS_DT_bf16: return (v & 0x7fff) > 0x7f80;
  default: return false;
  }
}

static bool same_results(const TsTile *k, const Args *a) {
  for (int i = a->nin; i < a->n; i++) {
    TsDtype d = (TsDtype)k->param[i]->type.dtype;
    const char *x = a->want[i], *y = a->have[i];
    if (!memcmp(x, y, (size_t)a->nbytes[i])) continue;
    int each = ts_dtypes[d].nbytes;
    for (int64_t n = 0; n < a->nbytes[i]; n += each)
      if (memcmp(x + n, y + n, (size_t)each) &&
          !(ts_tune_is_nan(d, x + n) && ts_tune_is_nan(d, y + n)))
        return false;
  }
  return true;
}

/* ---- measuring */
typedef struct Candidate {
  TsKernel *kernel;
  int entry; /* of the record */
} Candidate;

typedef struct Session {
  TsTuner *t;
  const TsTuneSubject *s;
  bool wait;
  const atomic_bool *cancel;
  double start, waited, end; /* in milliseconds; end: of the budget, waiting aside */
  Args args;
  const TsTile *usual;
  TsTuneRecord *r;
  Candidate c[TS_SCHED_CHOICES];
  int n;
} Session;

static bool over(const Session *m) {
  return atomic_load(&m->t->stop) || (m->cancel && atomic_load(m->cancel)) ||
         ts_cpu_interrupted() || ts_clock_msec() - m->waited > m->end;
}

/* Processor time that the program's thread has used. */
static double program_usec(const TsTuner *t) {
  struct timespec s;
  if (!t->has_program || clock_gettime(t->program, &s)) return 0;
  return (double)s.tv_sec * 1e6 + (double)s.tv_nsec * 1e-3;
}

static void nap(long usec) {
  struct timespec t = {.tv_nsec = usec * 1000};
  nanosleep(&t, NULL);
}

/* Until the program's thread waits for something. */
static bool idle(Session *m) {
  double begun = ts_clock_msec();
  for (long pause = IDLE_USEC; m->wait; pause = pause < 50000 ? 2 * pause : pause) {
    double before = program_usec(m->t);
    nap(IDLE_USEC);
    double now = ts_clock_msec();
    bool quiet = program_usec(m->t) - before < IDLE_USEC / 20.0;
    if (!quiet && m->waited + now - begun < PATIENCE_MSEC && !atomic_load(&m->t->stop) &&
        !(m->cancel && atomic_load(m->cancel))) {
      nap(pause);
      continue;
    }
    m->waited += now - begun;
    return quiet;
  }
  return true;
}

static double run_usec(Session *m, const Candidate *c, int times) {
  TsError err = {0};
  double start = ts_clock_msec();
  for (int i = 0; i < times; i++)
    if (ts_kernel_run(c->kernel, m->args.have, m->args.dim, &err)) return -1;
  return (ts_clock_msec() - start) * 1e3 / times;
}

/* A sample; again if the program woke up meanwhile. */
static double sample(void *session, int i, int times) {
  Session *m = session;
  while (!over(m)) {
    double before = program_usec(m->t), usec = run_usec(m, &m->c[i], times);
    if (usec < 0 || ts_cpu_interrupted()) return -1;
    if (!m->wait || program_usec(m->t) - before < usec * times / 10 + 5) return usec;
    if (!idle(m)) return -1;
  }
  return -1;
}

static void say_why(char *why, const char *what, const TsError *err) {
  ts_tune_say(why, sizeof((TsTuneTime *)0)->why, what, err->message);
}

/* The kernel of a choice, if its results are those of the usual one. */
static void add_candidate(Session *m, int entry) {
  TsError err = {0};
  TsSchedKernel k;
  Candidate *c = &m->c[m->n];
  char *why = m->r->at[entry].why;
  if (m->s->tile(m->s->arg, &m->r->at[entry].choice, &k, &err))
    return say_why(why, "has no kernel", &err);
  *c = (Candidate){.kernel = ts_build_compile(k.tile, m->s->target, &err), .entry = entry};
  ts_tile_free(k.tile);
  void **at = entry ? m->args.have : m->args.want;
  if (!c->kernel || ts_kernel_run(c->kernel, at, m->args.dim, &err) || ts_cpu_interrupted() ||
      (entry && !same_results(m->usual, &m->args))) {
    bool ended = ts_cpu_interrupted(), differs = c->kernel && !ended && !err.message[0];
    m->r->differing += differs;
    const char *what = differs ? "other bits" : c->kernel ? "did not run" : "does not fit";
    say_why(why, ts_tune_untried(what), ended ? &(TsError){0} : &err);
    ts_kernel_free(c->kernel);
    return;
  }
  m->n++;
}

static void compare(Session *m) {
  TsTuneInterleave t = {
      .arg = m, .sample = sample, .usec = SAMPLE_USEC, .percent = BETTER_PERCENT};
  int entry[TS_SCHED_CHOICES];
  for (int i = 0; i < m->n; i++) entry[i] = m->c[i].entry;
  ts_tune_interleave(&t, m->n, entry, m->r);
}

static void candidates(Session *m, int most) {
  int i = 0;
  for (; i < m->r->n && m->n <= most && (!i || !over(m)); i++) {
    add_candidate(m, i);
    if (!m->n) break;
  }
  const char *why = m->n > most ? "not tried: the model expects less of it"
                                : ts_tune_untried("not tried: the time was up");
  for (; i < m->r->n && m->n; i++)
    ts_tune_say(m->r->at[i].why, sizeof m->r->at[i].why, why, "");
}

static const char *why_none(const Session *m) {
  if (m->r->n <= 1) return "no candidates";
  if (ts_cpu_interrupted()) return "interrupted";
  if (over(m)) return "the time was up";
  return m->n ? "no candidate could be compiled" : "its kernel could not be compiled";
}

static void session(Session *m, const TsSchedKernel *k, const TsTuneBudget *budget) {
  m->usual = k->tile;
  m->r->n = m->s->n;
  for (int i = 0; i < m->s->n; i++) m->r->at[i].choice = m->s->choice[i];
  if (!idle(m))
    strcpy(m->r->why, "the program was never idle");
  else if (make_args(m->s, k, budget->bytes, &m->args))
    strcpy(m->r->why, "larger than the memory of the budget");
  else if (over(m))
    strcpy(m->r->why, ts_cpu_interrupted() ? "interrupted" : "no time");
  else if (candidates(m, budget->candidates), m->n > 1)
    compare(m);
  else
    strcpy(m->r->why, why_none(m));
  for (int i = 0; i < m->n; i++) ts_kernel_free(m->c[i].kernel);
  free_args(&m->args);
}

double ts_tune_measure(TsTuner *t, const TsTuneSubject *s, const TsSchedKernel *usual,
                       bool wait, const atomic_bool *cancel, TsTuneRecord *r) {
  Session *m = calloc(1, sizeof *m);
  if (!m) return strcpy(r->why, "no memory"), 0;
  pthread_mutex_lock(&t->lock);
  TsTuneBudget budget = t->budget;
  double left = budget.total_msec - t->spent_msec, start = ts_clock_msec();
  pthread_mutex_unlock(&t->lock);
  double each = s->msec > 0 ? s->msec : budget.group_msec;
  if (each > left) each = left;
  r->msec = each, r->share = s->share;
  *m = (Session){.t = t,
                 .s = s,
                 .wait = wait,
                 .cancel = cancel,
                 .r = r,
                 .start = start,
                 .end = start + each};
  if (each > 0)
    session(m, usual, &budget);
  else
    strcpy(r->why, "no budget");
  double spent = ts_clock_msec() - start - m->waited;
  free(m);
  return spent;
}

double ts_tune_usual(TsTuner *t, const TsTuneSubject *s, const TsSchedKernel *usual) {
  Args a;
  TsError ignored = {0};
  double least = 0;
  int64_t bytes = ts_tuner_budget(t).bytes;
  TsKernel *k = make_args(s, usual, bytes, &a)
                    ? NULL
                    : ts_build_compile(usual->tile, s->target, &ignored);
  for (int i = 0; k && i < 3 && !ts_cpu_interrupted(); i++) {
    double start = ts_clock_msec();
    if (ts_kernel_run(k, a.have, a.dim, &ignored)) break;
    double usec = (ts_clock_msec() - start) * 1e3;
    if (!least || usec < least) least = usec;
  }
  ts_kernel_free(k);
  free_args(&a);
  return least;
}
