/* See jit/tune.h. */
#include "jit/tune.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "devices/cpu_pool.h"
#include "jit/compile.h"
#include "jit/llvm.h"

enum {
  SAMPLES = 10,
  BETTER_PERCENT = 7,
  SAMPLE_USEC = 60,      /* a sample repeats a shorter kernel until it is that long */
  IDLE_USEC = 2000,      /* the program did nothing for so long: it is idle */
  PATIENCE_MSEC = 60000, /* of waiting for that */
};

typedef struct Known {
  uint8_t key[32];
  TsTuneEntry e;
} Known;

struct TsTuner {
  pthread_mutex_t lock; /* of all but what is atomic */
  TsTuneMode mode;
  int forced; /* -1: none */
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

static double now_msec(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- opening, settings */
TsTuner *ts_tuner_open(void) {
  TsTuner *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  pthread_mutex_init(&t->lock, NULL);
  t->mode = TS_TUNE_cached;
  t->forced = -1;
  t->budget = (TsTuneBudget){
      .group_msec = 1000, .total_msec = 20000, .bytes = 256 << 20, .candidates = 6};
  t->has_program = !pthread_getcpuclockid(pthread_self(), &t->program);
  return t;
}

void ts_tuner_close(TsTuner *t) {
  if (!t) return;
  free(t->known);
  free(t->record);
  pthread_mutex_destroy(&t->lock);
  free(t);
}

TsTuneMode ts_tuner_mode(const TsTuner *t) { return t->mode; }
void ts_tuner_set_mode(TsTuner *t, TsTuneMode mode) {
  pthread_mutex_lock(&t->lock);
  t->mode = mode;
  pthread_mutex_unlock(&t->lock);
}

TsTuneBudget ts_tuner_budget(const TsTuner *t) { return t->budget; }
void ts_tuner_set_budget(TsTuner *t, TsTuneBudget b) {
  pthread_mutex_lock(&t->lock);
  t->budget = b;
  t->spent_msec = 0;
  pthread_mutex_unlock(&t->lock);
}

void ts_tuner_force(TsTuner *t, int i) {
  pthread_mutex_lock(&t->lock);
  t->forced = i;
  pthread_mutex_unlock(&t->lock);
}

void ts_tuner_stop(TsTuner *t) { atomic_store(&t->stop, true); }

void ts_tuner_clear(TsTuner *t) {
  pthread_mutex_lock(&t->lock);
  t->nknown = t->nrecord = 0;
  t->spent_msec = 0;
  pthread_mutex_unlock(&t->lock);
  ts_tune_forget();
}

/* ---- what is known. A list that doubles; -1: no memory. */
static int grow(void *list, int n, int *cap, size_t size) {
  void *at, *more;
  memcpy(&at, list, sizeof at);
  if (n < *cap) return 0;
  int want = *cap ? 2 * *cap : 16;
  if (!(more = realloc(at, size * (size_t)want))) return -1;
  memcpy(list, &more, sizeof more);
  *cap = want;
  return 0;
}

static Known *find_known(TsTuner *t, const uint8_t *key) {
  for (int i = 0; i < t->nknown; i++)
    if (!memcmp(t->known[i].key, key, 32)) return &t->known[i];
  return NULL;
}

static void remember(TsTuner *t, const uint8_t *key, const TsTuneEntry *e) {
  pthread_mutex_lock(&t->lock);
  Known *k = find_known(t, key);
  if (!k && !grow(&t->known, t->nknown, &t->capknown, sizeof *k)) k = &t->known[t->nknown++];
  if (k) memcpy(k->key, key, 32), k->e = *e;
  pthread_mutex_unlock(&t->lock);
}

/* A choice that is not among the candidates of this program is nobody's. */
static bool lookup(TsTuner *t, const TsSched *s, const TsGroup *g, const uint8_t *key,
                   TsTuneEntry *e) {
  TsSchedChoice all[TS_SCHED_CHOICES];
  pthread_mutex_lock(&t->lock);
  Known *k = find_known(t, key);
  if (k) *e = k->e;
  pthread_mutex_unlock(&t->lock);
  if (k) return true;
  if (!ts_tune_read(key, e)) return false;
  for (int i = ts_sched_choices(s, g, all); i-- > 0;)
    if (ts_sched_choice_same(&all[i], &e->choice)) return remember(t, key, e), true;
  return false;
}

/* What the kernel does, its sizes, and where it runs. */
static void key_of(const TsBuildJob *b, const TsSchedKernel *k, uint8_t key[32]) {
  TsText salt = {0};
  ts_text_format(&salt, "tune 1 llvm %s threads %d on %s", ts_llvm_version(), b->threads,
                 ts_tune_machine());
  for (int i = 0; i < k->tile->ndim; i++) ts_text_format(&salt, " %lld", (long long)k->dim[i]);
  ts_kernel_key(k->tile, b->target, salt.at ? salt.at : "", key);
  ts_text_free(&salt);
}

/* The group with the passes' own choice, and its key. */
static int usual(const TsBuildJob *b, const TsFusion *f, TsGroup *g, TsSchedKernel *k,
                 uint8_t key[32]) {
  TsError err = {0};
  TsSchedChoice before = g->choice;
  g->choice = (TsSchedChoice){0};
  int failed = ts_build_tile(b, f, g, k, &err);
  g->choice = before;
  if (!failed) key_of(b, k, key);
  return failed;
}

static bool tunable(const TsBuildJob *b, const TsGroup *g) {
  return b->target && ts_build_worth_on(b, g) &&
         (g->kind == TS_GROUP_map || g->kind == TS_GROUP_rows);
}

static void apply_forced(const TsTuner *t, TsBuildJob *b) {
  for (const TsFusion *f = &b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++) {
      TsSchedChoice all[TS_SCHED_CHOICES];
      TsGroup *g = f->sched->group[i];
      if (tunable(b, g) && t->forced < ts_sched_choices(f->sched, g, all))
        g->choice = all[t->forced];
    }
}

void ts_tune_apply(TsTuner *t, TsBuildJob *b) {
  if (t->forced >= 0) return apply_forced(t, b);
  if (ts_tuner_mode(t) == TS_TUNE_off) return;
  for (const TsFusion *f = &b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++) {
      TsGroup *g = f->sched->group[i];
      TsSchedKernel k;
      TsTuneEntry e;
      uint8_t key[32];
      if (!tunable(b, g) || usual(b, f, g, &k, key)) continue;
      if (lookup(t, f->sched, g, key, &e)) g->choice = e.choice;
      ts_tile_free(k.tile);
    }
}

/* ---- made-up arguments */
typedef struct Args {
  char *block[TS_SCHED_PARAMS];
  void *at[TS_SCHED_PARAMS], *want[TS_SCHED_PARAMS], *have[TS_SCHED_PARAMS];
  int64_t nbytes[TS_SCHED_PARAMS];
  int n, nin;
  int64_t dim[TS_TILE_DIMS];
} Args;

/* Bytes before the first element and from it on. */
static void reach(const TsTileType *t, const int64_t *dim, int64_t *below, int64_t *above) {
  int64_t step = 1;
  *below = 0, *above = 1;
  for (int i = t->rank; i-- > 0;) {
    int64_t n = ts_tile_dim_is(t->dim[i]) ? dim[ts_tile_dim_index(t->dim[i])] : t->dim[i];
    int64_t stride = t->strided ? t->stride[i] : step, far = (n - 1) * stride;
    *(far < 0 ? below : above) += far;
    step *= n;
  }
  *below *= -(int64_t)ts_dtypes[t->dtype].nbytes;
  *above *= ts_dtypes[t->dtype].nbytes;
}

/* Floats in (-1, 1), away from 0; small integers above 0, which divide anything. */
static void fill(TsDtype d, char *at, int64_t nbytes) {
  uint64_t x = 88172645463325252ull;
  int each = ts_dtypes[d].nbytes;
  for (int64_t i = 0; i + each <= nbytes; i += each) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    uint64_t v = (x >> 20) % 7 + 1, sign = x >> 63;
    if (d == TS_DT_f32) v = 0x3f000000u | (x >> 41 & 0x7fffff) | sign << 31;
    if (d == TS_DT_f64) v = 0x3fe0000000000000ull | (x >> 12 & 0xfffffffffffffull) | sign << 63;
    if (d == TS_DT_f16) v = 0x3800u | (x >> 30 & 0x3ff) | sign << 15;
    if (d == TS_DT_bf16) v = 0x3f00u | (x >> 30 & 0x7f) | sign << 15;
    if (d == TS_DT_bool) v = sign;
    memcpy(at + i, &v, (size_t)each);
  }
}

static void free_args(Args *a) {
  for (int i = 0; i < a->n; i++) free(a->block[i]);
}

/* Results have two places: those of the usual choice and those of a candidate. */
static int make_args(const TsSchedKernel *k, int64_t limit, Args *a) {
  int64_t total = 0, below[TS_SCHED_PARAMS];
  *a = (Args){.nin = k->tile->nin};
  memcpy(a->dim, k->dim, sizeof a->dim);
  for (int i = 0; i < k->tile->nparam; i++) {
    reach(&k->tile->param[i]->type, k->dim, &below[i], &a->nbytes[i]);
    total += (below[i] + a->nbytes[i]) * (i < a->nin ? 1 : 2);
  }
  if (total > limit) return -1;
  for (int i = 0; i < k->tile->nparam; i++) {
    int64_t all = ((below[i] + a->nbytes[i] + 63) & -64) + 64, lift = (below[i] + 63) & -64;
    a->block[i] = aligned_alloc(64, (size_t)((all + 64) * (i < a->nin ? 1 : 2)));
    a->n = i + 1;
    if (!a->block[i]) return -1;
    memset(a->block[i], 0, (size_t)((all + 64) * (i < a->nin ? 1 : 2)));
    a->want[i] = a->have[i] = a->block[i] + lift;
    if (i < a->nin)
      fill((TsDtype)k->tile->param[i]->type.dtype, a->block[i], lift + a->nbytes[i]);
    else
      a->have[i] = a->block[i] + all;
  }
  return 0;
}

static bool is_nan(TsDtype d, const char *p) {
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
      if (memcmp(x + n, y + n, (size_t)each) && !(is_nan(d, x + n) && is_nan(d, y + n)))
        return false;
  }
  return true;
}

/* ---- measuring */
typedef struct Candidate {
  TsKernel *kernel;
  int entry; /* of the record */
  double usec[SAMPLES];
} Candidate;

typedef struct Session {
  TsTuner *t;
  const TsBuildJob *b;
  const TsFusion *f;
  TsGroup *g;
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
         ts_cpu_interrupted() || now_msec() - m->waited > m->end;
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
  double begun = now_msec();
  for (long pause = IDLE_USEC; m->wait; pause = pause < 50000 ? 2 * pause : pause) {
    double before = program_usec(m->t);
    nap(IDLE_USEC);
    double now = now_msec();
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
  double start = now_msec();
  for (int i = 0; i < times; i++)
    if (ts_kernel_run(c->kernel, m->args.have, m->args.dim, &err)) return -1;
  return (now_msec() - start) * 1e3 / times;
}

/* A sample; again if the program woke up meanwhile. -1: it is over. */
static double sample(Session *m, const Candidate *c, int times) {
  while (!over(m)) {
    double before = program_usec(m->t), usec = run_usec(m, c, times);
    if (usec < 0 || ts_cpu_interrupted()) return -1;
    if (!m->wait || program_usec(m->t) - before < usec * times / 10 + 5) return usec;
    if (!idle(m)) return -1;
  }
  return -1;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(const Candidate *c) {
  double x[SAMPLES];
  memcpy(x, c->usec, sizeof x);
  qsort(x, SAMPLES, sizeof *x, by_value);
  return (x[SAMPLES / 2 - 1] + x[SAMPLES / 2]) / 2;
}

/* All of them in turns, so that what else the machine does meets all. */
static bool measure(Session *m, int n, Candidate *const *c) {
  double once = sample(m, c[0], 1);
  if (once < 0 || (once = sample(m, c[0], 1)) < 0) return false;
  int times = once < SAMPLE_USEC ? (int)(SAMPLE_USEC / (once > 0.5 ? once : 0.5)) + 1 : 1;
  for (int i = 0; i < SAMPLES; i++)
    for (int k = 0; k < n; k++)
      if ((c[k]->usec[i] = sample(m, c[k], times)) < 0) return false;
  return true;
}

static bool better(double usec, double than) {
  return usec * (100 + BETTER_PERCENT) <= than * 100;
}

/* The kernel of a choice, if its results are those of the usual one. */
static void add_candidate(Session *m, int entry) {
  TsError err = {0};
  TsSchedKernel k;
  Candidate *c = &m->c[m->n];
  m->g->choice = m->r->at[entry].choice;
  int failed = ts_build_tile(m->b, m->f, m->g, &k, &err);
  m->g->choice = (TsSchedChoice){0};
  if (failed) return;
  *c = (Candidate){.kernel = ts_build_compile(k.tile, m->b->target, &err), .entry = entry};
  ts_tile_free(k.tile);
  void **at = entry ? m->args.have : m->args.want;
  if (!c->kernel || ts_kernel_run(c->kernel, at, m->args.dim, &err) || ts_cpu_interrupted() ||
      (entry && !same_results(m->usual, &m->args))) {
    m->r->differing += c->kernel && !ts_cpu_interrupted() && !err.message[0];
    ts_kernel_free(c->kernel);
    return;
  }
  m->n++;
}

/* The winner, confirmed by itself against the usual one. */
static void compare(Session *m) {
  Candidate *all[TS_SCHED_CHOICES], *pair[2];
  for (int i = 0; i < m->n; i++) all[i] = &m->c[i];
  if (!measure(m, m->n, all)) return (void)strcpy(m->r->why, "the time was up");
  int best = 0;
  for (int i = 0; i < m->n; i++) {
    m->r->at[m->c[i].entry].usec = median(&m->c[i]);
    if (median(&m->c[i]) < median(&m->c[best])) best = i;
  }
  double was = median(&m->c[0]);
  if (!best || !better(median(&m->c[best]), was)) return;
  pair[0] = &m->c[0], pair[1] = &m->c[best];
  if (!measure(m, 2, pair)) return (void)strcpy(m->r->why, "the time was up");
  if (better(median(pair[1]), median(pair[0]))) m->r->best = m->c[best].entry;
}

static void candidates(Session *m, int most) {
  TsSchedChoice all[TS_SCHED_CHOICES];
  m->r->n = ts_sched_choices(m->f->sched, m->g, all);
  for (int i = 0; i < m->r->n; i++) m->r->at[i].choice = all[i];
  for (int i = 0; i < m->r->n && m->n <= most && (!i || !over(m)); i++) {
    add_candidate(m, i);
    if (!m->n) break;
  }
}

static void session(Session *m, const TsSchedKernel *k, const TsTuneBudget *budget) {
  m->usual = k->tile;
  if (!idle(m))
    strcpy(m->r->why, "the program was never idle");
  else if (make_args(k, budget->bytes, &m->args))
    strcpy(m->r->why, "larger than the memory of the budget");
  else if (over(m))
    strcpy(m->r->why, "no time");
  else if (candidates(m, budget->candidates), m->n > 1)
    compare(m);
  else
    strcpy(m->r->why, m->r->n > 1 ? "the time was up" : "no candidates");
  for (int i = 0; i < m->n; i++) ts_kernel_free(m->c[i].kernel);
  free_args(&m->args);
}

/* ---- groups */
static void describe(const TsGroup *g, TsTuneRecord *r) {
  TsText t = {0};
  ts_sched_what(g, &t);
  size_t plain = t.len;
  ts_text_str(&t, " at ");
  ts_sched_where(g, &t);
  if (t.len <= plain + 4 && t.at) t.at[plain] = 0;
  snprintf(r->what, sizeof r->what, "%s", t.at ? t.at : "");
  ts_text_free(&t);
}

static void keep(TsTuner *t, const TsTuneRecord *r) {
  pthread_mutex_lock(&t->lock);
  if (!grow(&t->record, t->nrecord, &t->caprecord, sizeof *r)) t->record[t->nrecord++] = *r;
  pthread_mutex_unlock(&t->lock);
}

static void conclude(Session *m, const uint8_t *key) {
  TsTuneRecord *r = m->r;
  TsTuneEntry e = {
      .choice = r->at[r->best].choice, .was_usec = r->at[0].usec, .usec = r->at[r->best].usec};
  m->g->choice = e.choice;
  remember(m->t, key, &e);
  ts_tune_write(key, &e, r->what, m->b->threads);
}

/* Whether the group's choice is another one now. */
static bool tune_group(TsTuner *t, TsBuildJob *b, const TsFusion *f, TsGroup *g, bool wait,
                       const atomic_bool *cancel) {
  TsSchedKernel k;
  uint8_t key[32];
  TsTuneEntry e;
  TsSchedChoice before = g->choice;
  if (usual(b, f, g, &k, key)) return false;
  Session *m = calloc(1, sizeof *m);
  TsTuneRecord *r = calloc(1, sizeof *r);
  bool known = wait && lookup(t, f->sched, g, key, &e);
  if (m && r && !known) {
    pthread_mutex_lock(&t->lock);
    TsTuneBudget budget = t->budget;
    double left = budget.total_msec - t->spent_msec;
    pthread_mutex_unlock(&t->lock);
    double start = now_msec(), each = left < budget.group_msec ? left : budget.group_msec;
    *m = (Session){.t = t,
                   .b = b,
                   .f = f,
                   .g = g,
                   .wait = wait,
                   .cancel = cancel,
                   .r = r,
                   .start = start,
                   .end = start + each};
    describe(g, r);
    g->choice = (TsSchedChoice){0};
    if (each > 0)
      session(m, &k, &budget);
    else
      strcpy(r->why, "no budget");
    g->choice = before;
    pthread_mutex_lock(&t->lock);
    t->spent_msec += now_msec() - start - m->waited;
    pthread_mutex_unlock(&t->lock);
    if (!*r->why) conclude(m, key);
    keep(t, r);
  }
  if (known) g->choice = e.choice;
  free(m);
  free(r);
  ts_tile_free(k.tile);
  return !ts_sched_choice_same(&before, &g->choice);
}

int ts_tune_run(TsTuner *t, TsBuildJob *b, bool wait, const atomic_bool *cancel) {
  int changed = 0;
  for (const TsFusion *f = &b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++) {
      if (atomic_load(&t->stop) || (cancel && atomic_load(cancel))) return changed;
      if (tunable(b, f->sched->group[i]))
        changed += tune_group(t, b, f, f->sched->group[i], wait, cancel);
    }
  return changed;
}

int ts_tune_records(TsTuner *t, int from, int n, TsTuneRecord *out) {
  pthread_mutex_lock(&t->lock);
  int have = t->nrecord - from;
  if (have > n) have = n;
  if (have > 0) memcpy(out, t->record + from, sizeof *out * (size_t)have);
  pthread_mutex_unlock(&t->lock);
  return have > 0 ? have : 0;
}
