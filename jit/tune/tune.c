/* See jit/tune/tune.h. */
#include "jit/tune/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "jit/build/patched.h"
#include "jit/compile/llvm.h"
#include "jit/tune/device.h"
#include "lib/clock.h"

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
void ts_tuner_set_mode(TsTuner *t, TsTuneMode mode) { t->mode = mode; }

TsTuneBudget ts_tuner_budget(TsTuner *t) {
  pthread_mutex_lock(&t->lock);
  TsTuneBudget b = t->budget;
  pthread_mutex_unlock(&t->lock);
  return b;
}

double ts_tuner_spent(TsTuner *t) {
  pthread_mutex_lock(&t->lock);
  double msec = t->spent_msec;
  pthread_mutex_unlock(&t->lock);
  return msec;
}

void ts_tuner_set_budget(TsTuner *t, TsTuneBudget b) {
  pthread_mutex_lock(&t->lock);
  t->budget = b;
  t->spent_msec = 0;
  pthread_mutex_unlock(&t->lock);
}

void ts_tuner_force(TsTuner *t, int i) { t->forced = i; }

void ts_tuner_stop(TsTuner *t) { atomic_store(&t->stop, true); }

void ts_tuner_clear(TsTuner *t) {
  pthread_mutex_lock(&t->lock);
  t->nknown = t->nrecord = 0;
  t->spent_msec = 0;
  pthread_mutex_unlock(&t->lock);
  ts_tune_forget();
  ts_tune_device_forget();
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
static bool lookup(TsTuner *t, const TsTuneSubject *s, const uint8_t *key, TsTuneEntry *e) {
  pthread_mutex_lock(&t->lock);
  Known *k = find_known(t, key);
  if (k) *e = k->e;
  pthread_mutex_unlock(&t->lock);
  if (k) return true;
  if (!ts_tune_read(key, e)) return false;
  for (int i = s->n; i-- > 0;)
    if (ts_sched_choice_same(&s->choice[i], &e->choice)) {
      e->origin = TS_CHOICE_kept;
      return remember(t, key, e), true;
    }
  return false;
}

/* What the kernel does, its sizes, and where it runs. */
static void key_of(const TsTuneSubject *s, const TsSchedKernel *k, uint8_t key[32]) {
  TsText salt = {0};
  ts_text_format(&salt, "tune 2 llvm %s threads %d on %s", ts_llvm_version(), s->threads,
                 ts_tune_machine());
  for (int i = 0; i < k->tile->ndim; i++) ts_text_format(&salt, " %lld", (long long)k->dim[i]);
  ts_kernel_key(k->tile, s->target, salt.at ? salt.at : "", key);
  ts_text_free(&salt);
}

/* The kernel with the passes' own choice, and its key. */
static int usual(const TsTuneSubject *s, TsSchedKernel *k, uint8_t key[32]) {
  TsError err = {0};
  TsSchedChoice none = {0};
  if (s->tile(s->arg, &none, k, &err)) return -1;
  key_of(s, k, key);
  return 0;
}

bool ts_tune_known(TsTuner *t, const TsTuneSubject *s, TsSchedChoice *choice, uint8_t *origin) {
  TsSchedKernel k;
  TsTuneEntry e;
  uint8_t key[32];
  int forced = t->forced;
  if (forced >= 0) {
    bool has = forced < s->n;
    if (has) *choice = s->choice[forced];
    return has;
  }
  if (ts_tuner_mode(t) == TS_TUNE_off || usual(s, &k, key)) return false;
  bool known = lookup(t, s, key, &e);
  if (known) *choice = e.choice;
  if (known && origin) *origin = e.origin;
  ts_tile_free(k.tile);
  return known;
}

static void keep(TsTuner *t, const TsTuneRecord *r, double spent_msec) {
  pthread_mutex_lock(&t->lock);
  t->spent_msec += spent_msec;
  if (!grow(&t->record, t->nrecord, &t->caprecord, sizeof *r)) t->record[t->nrecord++] = *r;
  pthread_mutex_unlock(&t->lock);
}

static void conclude(TsTuner *t, const TsTuneSubject *s, const TsTuneRecord *r,
                     const uint8_t *key, TsSchedChoice *choice) {
  TsTuneEntry e = {.choice = r->at[r->best].choice,
                   .was_usec = r->at[0].usec,
                   .usec = r->at[r->best].usec,
                   .origin = TS_CHOICE_now};
  *choice = e.choice;
  remember(t, key, &e);
  ts_tune_write(key, &e, r->what, s->threads, ts_tune_machine());
}

void ts_tune_subject(TsTuner *t, const TsTuneSubject *s, bool wait, const atomic_bool *cancel,
                     TsSchedChoice *choice, uint8_t *origin) {
  TsSchedKernel k;
  uint8_t key[32];
  TsTuneEntry e;
  if (usual(s, &k, key)) return;
  TsTuneRecord *r = calloc(1, sizeof *r);
  if (wait && lookup(t, s, key, &e)) {
    *choice = e.choice;
    if (origin) *origin = e.origin;
  } else if (r) {
    snprintf(r->what, sizeof r->what, "%s", s->what);
    double spent = ts_tune_measure(t, s, &k, wait, cancel, r);
    if (!*r->why) conclude(t, s, r, key, choice);
    if (!*r->why && origin) *origin = TS_CHOICE_now;
    keep(t, r, spent);
  }
  free(r);
  ts_tile_free(k.tile);
}

/* ---- groups */
typedef struct Group {
  TsBuildJob *b;
  const TsFusion *f;
  TsGroup *g;
} Group;

static int tile_of_group(void *arg, const TsSchedChoice *c, TsSchedKernel *k, TsError *err) {
  Group *o = arg;
  return ts_build_unpatched(o->b, o->f, o->g, c, k, err);
}

static void describe(const TsGroup *g, char *what, size_t room) {
  TsText t = {0};
  ts_sched_what(g, &t);
  size_t plain = t.len;
  ts_text_str(&t, " at ");
  ts_sched_where(g, &t);
  if (t.len <= plain + 4 && t.at) t.at[plain] = 0;
  snprintf(what, room, "%s", t.at ? t.at : "");
  ts_text_free(&t);
}

static TsTuneSubject subject_of(Group *o) {
  TsTuneSubject s = {
      .tile = tile_of_group, .arg = o, .target = o->b->target, .threads = o->b->threads};
  s.n = ts_sched_choices(o->f->sched, o->g, s.choice);
  describe(o->g, s.what, sizeof s.what);
  return s;
}

static bool tunable(const TsBuildJob *b, const TsFusion *f, const TsGroup *g) {
  if (g->pinned || ts_build_is_patched(b, f, g)) return false;
  if (b->device)
    return g->kind == TS_GROUP_matmul || g->kind == TS_GROUP_map || g->kind == TS_GROUP_rows ||
           g->kind == TS_GROUP_columns;
  return b->target && g->kind != TS_GROUP_vm && ts_build_worth_on(b, g);
}

static void apply_forced(int forced, TsBuildJob *b) {
  for (const TsFusion *f = &b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++) {
      TsSchedChoice all[TS_SCHED_CHOICES];
      TsGroup *g = f->sched->group[i];
      if (!tunable(b, f, g) || forced >= ts_sched_choices(f->sched, g, all)) continue;
      g->choice = all[forced];
      g->origin = TS_CHOICE_forced;
    }
}

static void apply_device(const TsBuildJob *b) {
  for (const TsFusion *f = &b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++) {
      TsGroup *g = f->sched->group[i];
      TsLayouts *l = ts_build_layouts(b, f->g);
      TsTuneEntry e;
      if (!g->pinned && ts_tune_device_known(b->device, f->sched, g, ts_layouts_of, l, &e))
        g->choice = e.choice, g->origin = e.origin;
    }
}

void ts_tune_apply(TsTuner *t, TsBuildJob *b) {
  int forced = t->forced;
  if (forced >= 0) return apply_forced(forced, b);
  if (ts_tuner_mode(t) == TS_TUNE_off) return;
  if (b->device) return apply_device(b);
  for (const TsFusion *f = &b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++) {
      Group o = {b, f, f->sched->group[i]};
      if (!tunable(b, f, o.g)) continue;
      TsTuneSubject s = subject_of(&o);
      ts_tune_known(t, &s, &o.g->choice, &o.g->origin);
    }
}

/* ---- measuring a function */
typedef struct Turn {
  Group o;
  double usec, share; /* of the usual kernel; of all */
} Turn;

typedef struct Turns {
  TsTuner *t;
  TsBuildJob *b;
  bool wait;
  const atomic_bool *cancel;
  Turn *turn;
  int n, first; /* first: record of this run */
  double left_msec, left_usec, group_msec;
} Turns;

static bool stopped(const Turns *r) {
  return atomic_load(&r->t->stop) || (r->cancel && atomic_load(r->cancel)) ||
         (!r->wait && ts_cpu_interrupted());
}

/* Whether the group's choice, or where it comes from, is another one now. */
static bool tune_group(Turns *r, const Turn *x, double msec) {
  TsGroup *g = x->o.g;
  TsTuneSubject s = subject_of((Group *)(uintptr_t)&x->o);
  TsSchedChoice before = g->choice;
  int origin = g->origin;
  s.msec = msec, s.share = x->share;
  ts_tune_subject(r->t, &s, r->wait, r->cancel, &g->choice, &g->origin);
  return origin != g->origin || !ts_sched_choice_same(&before, &g->choice);
}

/* Groups with one name are measured once in a run. */
static const TsTuneRecord *measured(const Turns *r, const TsText *name) {
  const TsTuneRecord *old = NULL;
  for (int i = r->first; i < r->t->nrecord && name->at; i++)
    if (!strcmp(r->t->record[i].what, name->at)) old = &r->t->record[i];
  return old;
}

static bool tune_on_device(Turns *r, const Turn *x, double msec) {
  TsTuner *t = r->t;
  TsGroup *g = x->o.g;
  const Group *o = &x->o;
  TsSchedChoice before = g->choice;
  int origin = g->origin;
  TsText name = {0};
  TsTuneRecord *made = calloc(1, sizeof *made);
  ts_tune_device_name(g, ts_layouts_of, ts_build_layouts(o->b, o->f->g), &name);
  pthread_mutex_lock(&t->lock);
  TsTuneBudget budget = t->budget;
  double left = budget.total_msec - t->spent_msec, start = ts_clock_msec();
  const TsTuneRecord *old = measured(r, &name);
  if (old && !*old->why) g->choice = old->at[old->best].choice, g->origin = TS_CHOICE_now;
  pthread_mutex_unlock(&t->lock);
  if (msec > left) msec = left;
  if (!old && made && msec > 0) {
    g->choice = (TsSchedChoice){0};
    made->msec = msec, made->share = x->share;
    ts_tune_device_group(o->b, o->f, g, &budget, msec, made);
    if (*made->why) g->choice = before;
    keep(t, made, ts_clock_msec() - start);
  }
  ts_text_free(&name);
  free(made);
  return origin != g->origin || !ts_sched_choice_same(&before, &g->choice);
}

/* What is not measured is told all the same. */
static void note(Turns *r, const TsGroup *g, double share, const char *why) {
  TsTuneRecord *made = calloc(1, sizeof *made);
  if (!made) return;
  describe(g, made->what, sizeof made->what);
  snprintf(made->why, sizeof made->why, "%s", why);
  made->share = share;
  keep(r->t, made, 0);
  free(made);
}

static double usual_usec(Turns *r, Group *o) {
  TsSchedKernel k;
  uint8_t key[32];
  if (r->wait) return 0;
  if (r->b->device) return ts_tune_device_usual(r->b, o->f, o->g);
  TsTuneSubject s = subject_of(o);
  if (usual(&s, &k, key)) return 0;
  double usec = ts_tune_usual(r->t, &s, &k);
  ts_tile_free(k.tile);
  return usec;
}

static int by_usec(const void *a, const void *b) {
  const Turn *x = a, *y = b;
  if (x->usec != y->usec) return x->usec < y->usec ? 1 : -1;
  return x->o.g->index - y->o.g->index;
}

/* Groups that are measured, the longest first. What cannot be run by itself counts by the model. */
static int find_turns(Turns *r) {
  int n = 0;
  double all = 0;
  for (const TsFusion *f = &r->b->fusion; f; f = f->next) n += f->sched->ngroup;
  if (!(r->turn = calloc((size_t)n + 1, sizeof *r->turn))) return -1;
  for (const TsFusion *f = &r->b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup && !stopped(r); i++) {
      Group o = {r->b, f, f->sched->group[i]};
      bool edited = ts_build_is_patched(r->b, f, o.g);
      if ((edited || o.g->pinned) && !r->wait && ts_build_worth_on(r->b, o.g))
        note(r, o.g, 0, edited ? "edited by the user" : ts_choice_origin(o.g->origin));
      if (!tunable(r->b, f, o.g) || (r->b->device && ts_sched_gathered(f->sched, o.g)))
        continue;
      Turn *x = &r->turn[r->n++];
      *x = (Turn){.o = o, .usec = usual_usec(r, &o)};
      if (x->usec <= 0) x->usec = o.g->usec;
      all += x->usec;
    }
  for (int i = 0; i < r->n && !r->wait; i++)
    r->turn[i].share = all > 0 ? r->turn[i].usec / all : 0;
  if (!r->wait) qsort(r->turn, (size_t)r->n, sizeof *r->turn, by_usec);
  r->left_usec = all;
  return 0;
}

/* By its share of what is left; waiting for the program, the budget's time for each. */
static double msec_of(const Turns *r, const Turn *x) {
  const double least = 20;
  if (r->wait) return r->group_msec;
  double msec = r->left_usec > 0 ? r->left_msec * x->usec / r->left_usec : r->left_msec;
  return msec < least && r->left_msec > least ? least : msec;
}

int ts_tune_run(TsTuner *t, TsBuildJob *b, bool wait, const atomic_bool *cancel, TsError *err) {
  Turns r = {.t = t, .b = b, .wait = wait, .cancel = cancel};
  pthread_mutex_lock(&t->lock);
  r.first = t->nrecord, r.group_msec = t->budget.group_msec;
  pthread_mutex_unlock(&t->lock);
  int changed = 0;
  if (find_turns(&r)) return ts_error_memory(err);
  r.left_msec = r.group_msec * r.n;
  for (int i = 0; i < r.n; i++) {
    const Turn *x = &r.turn[i];
    if (stopped(&r)) {
      if (!wait) note(&r, x->o.g, x->share, "interrupted");
      continue;
    }
    double start = ts_clock_msec(), msec = msec_of(&r, x);
    changed += b->device ? tune_on_device(&r, x, msec) : tune_group(&r, x, msec);
    r.left_msec -= ts_clock_msec() - start, r.left_usec -= x->usec;
  }
  free(r.turn);
  return changed;
}

int ts_tune_records(TsTuner *t, int from, int n, TsTuneRecord *out) {
  pthread_mutex_lock(&t->lock);
  if (from < 0) from = 0;
  int have = t->nrecord - from;
  if (have > n) have = n;
  if (have > 0) memcpy(out, t->record + from, sizeof *out * (size_t)have);
  pthread_mutex_unlock(&t->lock);
  return have > 0 ? have : 0;
}
