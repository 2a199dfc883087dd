/* See jit/replay.h. */
#include "jit/replay.h"

#include <stdlib.h>
#include <string.h>

enum {
  KEPT = 2,  /* sequences of a function, which may branch */
  LEAST = 4, /* launches that are worth it */
  OFTEN = 3, /* runs of a sequence before it is recorded */
};

typedef struct Launch {
  TsDeviceKernel *kernel;
  int at, nparam, ndim; /* words: addresses, sizes */
} Launch;

typedef struct Sequence {
  Launch *launch;
  int n, cap;
  int64_t *word;
  int nword, capword;
  void *record; /* of the device; of a simulated one none is needed */
  int64_t runs;
  uint64_t used;
} Sequence;

struct TsReplay {
  TsDevice *d;
  Sequence now, kept[KEPT];
  bool alive[KEPT]; /* what came so far is its beginning */
  bool off;         /* nothing is put off in this run any more */
  bool cut;         /* and it is no sequence, since bytes moved in between */
  bool refused;     /* the device does not record */
  int launched;     /* of now */
  uint64_t clock;
  unsigned freed; /* kernels when the sequences were made */
};

static TsReplayStats stats;

TsReplayStats ts_replay_stats(void) { return stats; }

/* ---- sequences */
static void clear(TsReplay *r, Sequence *s) {
  if (s->record) r->d->run->record_free(r->d, s->record);
  s->record = NULL;
  s->n = s->nword = 0;
  s->runs = 0;
}

static bool reserve(void **list, int *cap, int need, size_t size) {
  if (need <= *cap) return true;
  int more = need < 64 ? 64 : 2 * need;
  void *p = realloc(*list, size * (size_t)more);
  if (!p) return false;
  *list = p, *cap = more;
  return true;
}

static bool append(Sequence *s, TsDeviceKernel *k, int nparam, void *const *arg, int ndim,
                   const int64_t *dim) {
  if (!reserve((void **)&s->launch, &s->cap, s->n + 1, sizeof *s->launch) ||
      !reserve((void **)&s->word, &s->capword, s->nword + nparam + ndim, sizeof *s->word))
    return false;
  s->launch[s->n++] = (Launch){k, s->nword, nparam, ndim};
  for (int i = 0; i < nparam; i++) s->word[s->nword++] = (int64_t)(intptr_t)arg[i];
  for (int i = 0; i < ndim; i++) s->word[s->nword++] = dim[i];
  return true;
}

static bool same_kernel(const Sequence *a, const Sequence *b, int i) {
  return i < a->n && i < b->n && a->launch[i].kernel == b->launch[i].kernel;
}

static bool same_arguments(const Sequence *a, const Sequence *b, int i) {
  const Launch *x = &a->launch[i], *y = &b->launch[i];
  size_t n = (size_t)(x->nparam + x->ndim);
  return !memcmp(a->word + x->at, b->word + y->at, sizeof *a->word * n);
}

/* ---- launching */
static int launch(const Sequence *s, int i, TsError *err) {
  const Launch *l = &s->launch[i];
  void *arg[64];
  for (int k = 0; k < l->nparam; k++) arg[k] = (void *)(intptr_t)s->word[l->at + k];
  return ts_device_kernel_run(l->kernel, arg, s->word + l->at + l->nparam, err);
}

static int launch_rest(TsReplay *r, TsError *err) {
  int failed = 0;
  for (; r->launched < r->now.n && !failed; r->launched++)
    failed = launch(&r->now, r->launched, err);
  r->launched = r->now.n;
  return failed;
}

static bool any_alive(TsReplay *r) {
  bool any = false;
  for (int k = 0; k < KEPT; k++) any |= r->alive[k];
  return any;
}

int ts_replay_launch(TsReplay *r, TsDeviceKernel *k, int nparam, void *const *arg, int ndim,
                     const int64_t *dim, TsError *err) {
  bool fits = nparam <= 64 && ts_device_kernel_records(k, arg) &&
              append(&r->now, k, nparam, arg, ndim, dim);
  if (!fits) { /* no sequence any more */
    r->cut = true;
    if (ts_replay_flush(r, err)) return -1;
    return ts_device_kernel_run(k, arg, dim, err);
  }
  for (int i = 0; i < KEPT && !r->off; i++)
    r->alive[i] = r->alive[i] && same_kernel(&r->kept[i], &r->now, r->now.n - 1);
  if (!r->off && any_alive(r)) return 0;
  r->off = true;
  return launch_rest(r, err);
}

int ts_replay_flush(TsReplay *r, TsError *err) {
  r->off = r->cut = true;
  return launch_rest(r, err);
}

/* ---- a run */
static void hold(TsReplay *r, bool on) {
  if (r->d->run && r->d->run->hold) r->d->run->hold(r->d, on);
}

void ts_replay_begin(TsReplay *r) {
  unsigned freed = ts_device_kernel_freed();
  for (int k = 0; k < KEPT && freed != r->freed; k++) clear(r, &r->kept[k]);
  r->freed = freed;
  r->now.n = r->now.nword = r->launched = 0;
  r->cut = false;
  for (int k = 0; k < KEPT; k++) r->alive[k] = r->kept[k].n > 0;
  r->off = !any_alive(r);
  hold(r, true);
}

static bool records(const TsReplay *r, const Sequence *s) {
  return !r->refused && s->n >= LEAST && s->runs >= OFTEN && r->d->run &&
         r->d->run->record_begin;
}

static int launches_of(const Sequence *s, int i) {
  return ts_device_kernel_launches(s->launch[i].kernel);
}

/* What the device does not like is no error: launches go on one by one. */
static void refuse(TsReplay *r, Sequence *s) {
  if (s->record) r->d->run->record_free(r->d, s->record);
  s->record = NULL;
  r->refused = true;
}

static void record(TsReplay *r, Sequence *s) {
  const TsDeviceRun *run = r->d->run;
  TsError err = {0}, end = {0};
  int failed = run->record_begin(r->d, &err);
  if (failed) return refuse(r, s);
  for (int i = 0; i < r->now.n && !failed; i++) failed = launch(&r->now, i, &err);
  if (run->record_end(r->d, &s->record, &end) || failed) refuse(r, s);
}

/* Launches that differ take the place of the record's. Scratch of a kernel may be somebody
 * else's memory by now, so it is asked for again. */
static void patch(TsReplay *r, Sequence *s) {
  const TsDeviceRun *run = r->d->run;
  TsError err = {0};
  int failed = 0;
  for (int i = 0, at = 0; i < s->n && !failed; at += launches_of(s, i), i++) {
    bool same = same_arguments(s, &r->now, i);
    if (same && !ts_device_kernel_scratch(s->launch[i].kernel)) continue;
    failed = run->record_patch(r->d, s->record, at, &err) || launch(&r->now, i, &err);
  }
  run->record_patch(r->d, NULL, 0, &err);
  if (failed) return refuse(r, s);
  memcpy(s->word, r->now.word, sizeof *s->word * (size_t)s->nword);
}

static int run_sequence(TsReplay *r, Sequence *s, TsError *err) {
  s->used = ++r->clock;
  s->runs++;
  bool often = s->runs >= OFTEN && !r->refused;
  if (s->record)
    patch(r, s);
  else if (records(r, s))
    record(r, s);
  if (often) {
    stats.runs++;
    stats.launches += s->n;
  }
  memcpy(s->word, r->now.word, sizeof *s->word * (size_t)s->nword);
  if (!s->record) return launch_rest(r, err);
  r->launched = r->now.n;
  return r->d->run->record_launch(r->d, s->record, err);
}

static void keep(TsReplay *r) {
  Sequence *old = &r->kept[0];
  for (int k = 1; k < KEPT; k++)
    if (r->kept[k].used < old->used) old = &r->kept[k];
  clear(r, old);
  Sequence s = *old;
  *old = r->now;
  old->used = ++r->clock;
  old->runs = 1;
  r->now = s;
  r->now.n = r->now.nword = 0;
}

int ts_replay_end(TsReplay *r, TsError *err) {
  int failed = 0;
  Sequence *known = NULL;
  for (int k = 0; k < KEPT && !r->off; k++)
    if (r->alive[k] && r->kept[k].n == r->now.n) known = &r->kept[k];
  failed = known ? run_sequence(r, known, err) : launch_rest(r, err);
  if (!known && !r->cut && r->now.n >= LEAST) keep(r);
  hold(r, false);
  return failed;
}

bool ts_replay_follows(const TsReplay *r) { return !r->off; }

/* ---- life */
TsReplay *ts_replay_new(TsDevice *d) {
  TsReplay *r = calloc(1, sizeof *r);
  if (r) r->d = d;
  return r;
}

void ts_replay_free(TsReplay *r) {
  if (!r) return;
  for (int k = 0; k < KEPT; k++) {
    clear(r, &r->kept[k]);
    free(r->kept[k].launch);
    free(r->kept[k].word);
  }
  free(r->now.launch);
  free(r->now.word);
  free(r);
}
