/* Measuring a group on a device: candidates are compiled side by side, run on made-up inputs of
 * the group's shapes and strides, compared with the usual kernel bit by bit where results are
 * looked at, and timed in turns between events of the device, which know nothing of the host.
 * So little is noise, and a few percent are enough. */
#include "jit/tune/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "jit/build/device.h"
#include "jit/build/patched.h"
#include "ir/lower/lower.h"
#include "jit/tune/state.h"
#include "jit/tune/interleave.h"
#include "lib/clock.h"

enum {
  BETTER_PERCENT = 2,
  SAMPLE_USEC = 300,
  SLICE = 256 << 10, /* bytes of a result that are compared, at each of PLACES */
  PLACES = 5,
  BLOCK = 4 << 20, /* bytes of made-up numbers, which repeat */
};
static const int64_t ROOM = (int64_t)8 << 30; /* bytes of a group's operands, at most */

typedef struct Candidate {
  int entry;
  TsSchedKernel k;
  TsDeviceKernel *open;
} Candidate;

typedef struct Session {
  const TsBuildJob *b;
  const TsFusion *f;
  TsGroup *g;
  TsDevice *d;
  TsTuneRecord *r;
  double end; /* in milliseconds */
  Candidate c[TS_SCHED_CHOICES];
  int n, nin, nparam;
  char *base[TS_SCHED_PARAMS]; /* what was allocated */
  void *at[TS_SCHED_PARAMS];
  int64_t nbytes[TS_SCHED_PARAMS], below[TS_SCHED_PARAMS]; /* below: before at */
  char *want, *have;                                       /* slices of results */
  void *event[2];
  TsError failure; /* of the first run that failed */
} Session;

static bool over(const Session *m) { return ts_clock_msec() > m->end || ts_cpu_interrupted(); }

static void say(Session *m, int entry, const char *what, const TsError *err) {
  TsTuneTime *t = &m->r->at[entry];
  ts_tune_say(t->why, sizeof t->why, what, err ? err->message : "");
}

/* ---- kernels */
static bool floats_alone(const TsTile *k) {
  for (int i = 0; i < k->nparam; i++) switch (k->param[i]->type.dtype) {
    case TS_DT_f32:
    case TS_DT_f64:
    case TS_DT_f16:
    case TS_DT_bf16: break;
    default: return false;
    }
  return true;
}

static bool build(Session *m, int entry, TsSchedKernel *k) {
  TsError err = {0};
  memset(k, 0, sizeof *k);
  bool made = !ts_build_unpatched(m->b, m->f, m->g, &m->r->at[entry].choice, k, &err);
  if (!made) say(m, entry, "has no kernel", &err);
  const char *why = !made                    ? NULL
                    : k->tile->sequence      ? "not tried: it is several kernels in sequence"
                    : k->ndraw               ? "not tried: it draws numbers"
                    : k->nguard              ? "not tried: its indices are looked at before it"
                    : !floats_alone(k->tile) ? "not tried: it reads or writes integers"
                    : entry && k->tile->nparam != m->c[0].k.tile->nparam
                        ? "not tried: it has other operands"
                        : NULL;
  if (why) say(m, entry, why, NULL);
  return made && !why;
}

/* All are compiled at a time. */
static void open_all(Session *m) {
  const TsTile *tile[TS_SCHED_CHOICES];
  for (int i = 0; i < m->n; i++) tile[i] = m->c[i].k.tile;
  TsError full = {0}; /* then each says so below, or is opened by itself */
  TsDeviceSet *set = ts_device_set(m->d, m->n, tile, &full);
  if (set) ts_device_set_open(set, &full);
  int kept = 0;
  for (int i = 0; i < m->n; i++) {
    TsError err = {0};
    Candidate c = m->c[i];
    c.open = ts_device_kernel_open(m->d, c.k.tile, &err);
    if (c.open) {
      m->c[kept++] = c;
      continue;
    }
    say(m, c.entry, ts_tune_untried("does not fit"), ts_cpu_interrupted() ? NULL : &err);
    ts_tile_free(c.k.tile);
  }
  m->n = kept;
  ts_device_set_free(set);
}

static void find_candidates(Session *m, int most) {
  TsSchedChoice all[TS_SCHED_CHOICES];
  m->r->n = ts_sched_choices(m->f->sched, m->g, all);
  for (int i = 0; i < m->r->n; i++) m->r->at[i].choice = all[i];
  for (int i = 0; i < m->r->n; i++) {
    Candidate *c = &m->c[m->n];
    if (m->n > most) {
      say(m, i, "not tried: the model expects less of it", NULL);
      continue;
    }
    c->entry = i;
    if (!build(m, i, &c->k)) {
      ts_tile_free(c->k.tile);
      if (!i) return;
    } else {
      m->n++;
    }
  }
}

/* ---- operands */
/* The block of numbers, again and again. */
static int spread(Session *m, int p, const char *block) {
  TsError ignored = {0};
  int64_t all = m->below[p] + m->nbytes[p], have = all < BLOCK ? all : BLOCK;
  int failed = m->d->upload(m->d, m->base[p], block, have, &ignored);
  for (; !failed && have < all; have *= 2) {
    int64_t more = all - have < have ? all - have : have;
    failed = m->d->copy(m->d, m->base[p] + have, m->d, m->base[p], more, &ignored);
  }
  return failed;
}

static int64_t slices(const Session *m) {
  int64_t n = 0;
  for (int i = m->nin; i < m->nparam; i++) n += PLACES * (int64_t)SLICE;
  return n;
}

static int make_operands(Session *m) {
  const TsSchedKernel *k = &m->c[0].k;
  TsError ignored = {0};
  int64_t total = 0;
  m->nin = k->tile->nin, m->nparam = k->tile->nparam;
  for (int i = 0; i < m->nparam; i++) {
    ts_tile_reach(&k->tile->param[i]->type, k->dim, &m->below[i], &m->nbytes[i]);
    m->below[i] = (m->below[i] + 255) & -256;
    total += m->below[i] + m->nbytes[i];
  }
  if (total > ROOM) return -1;
  char *block = malloc(BLOCK);
  int failed = !block;
  for (int i = 0; i < m->nparam && !failed; i++) {
    m->base[i] = m->d->alloc(m->d, m->below[i] + m->nbytes[i], &ignored);
    if (!(failed = !m->base[i])) {
      m->at[i] = m->base[i] + m->below[i];
      ts_tune_fill((TsDtype)k->tile->param[i]->type.dtype, block, BLOCK);
      failed = spread(m, i, block);
    }
  }
  free(block);
  m->want = malloc((size_t)slices(m) + 1), m->have = malloc((size_t)slices(m) + 1);
  return failed || !m->want || !m->have;
}

static void drop_operands(Session *m) {
  for (int i = 0; i < m->nparam; i++)
    if (m->base[i]) m->d->free(m->d, m->base[i], m->below[i] + m->nbytes[i]);
  free(m->want);
  free(m->have);
}

static int note(Session *m, int failed, const TsError *err) {
  if (failed && !m->failure.code) m->failure = *err;
  return failed;
}

/* Slices of all results, from the device or, wiped, to it. What failed on the device since then
 * is told by the way back. */
static int move_slices(Session *m, char *host, bool wipe) {
  TsError err = {0};
  int failed = 0;
  if (wipe) memset(host, 0xa5, (size_t)slices(m));
  for (int i = m->nin; i < m->nparam && !failed; i++) {
    int64_t each = m->nbytes[i] < SLICE ? m->nbytes[i] : SLICE;
    for (int p = 0; p < PLACES && !failed; p++, host += SLICE) {
      char *at = (char *)m->at[i] + (m->nbytes[i] - each) / (PLACES - 1) * p / 16 * 16;
      failed = wipe ? m->d->upload(m->d, at, host, each, &err)
                    : m->d->download(m->d, host, at, each, &err);
    }
  }
  return note(m, failed, &err);
}

static int run(Session *m, const Candidate *c, int times) {
  TsError err = {0};
  int failed = 0;
  for (int i = 0; i < times && !failed; i++)
    failed = ts_device_kernel_run(c->open, m->at, c->k.dim, &err);
  return note(m, failed, &err);
}

/* Those whose results are others' are no candidates. */
static void compare_bits(Session *m) {
  int kept = 0;
  for (int i = 0; i < m->n; i++) {
    char *to = i ? m->have : m->want;
    memset(to, 0, (size_t)slices(m) + 1);
    bool fine = !move_slices(m, to, true) && !run(m, &m->c[i], 1) && !move_slices(m, to, false);
    bool same = fine && (!i || !memcmp(m->want, m->have, (size_t)slices(m)));
    m->r->differing += fine && !same && !ts_cpu_interrupted();
    if (!same)
      say(m, m->c[i].entry, ts_tune_untried(fine ? "other bits" : "did not run"),
          fine || ts_cpu_interrupted() ? NULL : &m->failure);
    if (!same) {
      ts_device_kernel_free(m->c[i].open);
      ts_tile_free(m->c[i].k.tile);
      continue;
    }
    m->c[kept++] = m->c[i];
  }
  m->n = kept;
}

/* ---- time */
static double sample(void *session, int i, int times) {
  Session *m = session;
  const Candidate *c = &m->c[i];
  const TsDeviceRun *r = m->d->run;
  TsError err = {0};
  double usec = ts_clock_msec();
  if (over(m)) return -1;
  if (!m->event[1]) {
    if (run(m, c, times)) return -1;
    return (ts_clock_msec() - usec) * 1e3 / times;
  }
  int failed = r->event_record(m->d, m->event[0], NULL, &err) || run(m, c, times) ||
               r->event_record(m->d, m->event[1], NULL, &err) ||
               r->event_wait(m->d, m->event[1], &err) ||
               r->event_usec(m->d, m->event[0], m->event[1], &usec, &err);
  return note(m, failed, &err) ? -1 : usec / times;
}

static void find_best(Session *m) {
  TsTuneInterleave t = {
      .arg = m, .sample = sample, .usec = SAMPLE_USEC, .percent = BETTER_PERCENT};
  int entry[TS_SCHED_CHOICES];
  for (int i = 0; i < m->n; i++) entry[i] = m->c[i].entry;
  ts_tune_interleave(&t, m->n, entry, m->r);
}

/* ---- a group */
static void events(Session *m, bool open) {
  const TsDeviceRun *r = m->d->run;
  TsError ignored = {0};
  for (int i = 0; i < 2 && r && r->event_new; i++)
    if (!open && m->event[i])
      r->event_free(m->d, m->event[i]);
    else if (open && r->event_new(m->d, &m->event[i], &ignored))
      m->event[i] = NULL;
}

static void session(Session *m, const TsTuneBudget *budget) {
  find_candidates(m, budget->candidates);
  if (m->n < 2) return (void)strcpy(m->r->why, "no candidates");
  open_all(m);
  if (m->n < 2 || m->c[0].entry)
    strcpy(m->r->why, "no candidates");
  else if (make_operands(m))
    strcpy(m->r->why, "no memory for its operands");
  else if (compare_bits(m), m->n > 1 && !m->c[0].entry)
    events(m, true), find_best(m), events(m, false);
  else
    strcpy(m->r->why, "no candidates");
  if (ts_cpu_interrupted() && (*m->r->why || m->failure.code))
    strcpy(m->r->why, "interrupted");
  else if (m->failure.code)
    snprintf(m->r->why, sizeof m->r->why, "a run failed: %.*s",
             (int)strcspn(m->failure.message, "\n"), m->failure.message);
  drop_operands(m);
}

static void conclude(Session *m) {
  TsTuneRecord *r = m->r;
  TsTuneEntry e = {
      .choice = r->at[r->best].choice, .was_usec = r->at[0].usec, .usec = r->at[r->best].usec};
  e.origin = TS_CHOICE_now;
  m->g->choice = e.choice, m->g->origin = e.origin;
  ts_tune_device_remember(m->d, r->what, &e);
}

void ts_tune_device_group(const TsBuildJob *b, const TsFusion *f, TsGroup *g,
                          const TsTuneBudget *budget, double msec, TsTuneRecord *r) {
  TsText name = {0};
  Session *m = calloc(1, sizeof *m);
  ts_tune_device_name(g, ts_layouts_of, ts_build_layouts(b, f->g), &name);
  snprintf(r->what, sizeof r->what, "%s", name.at ? name.at : "");
  if (!m || name.failed) {
    strcpy(r->why, "no memory");
  } else if (name.len >= sizeof r->what) {
    strcpy(r->why, "its name is too long");
  } else {
    *m = (Session){
        .b = b, .f = f, .g = g, .d = b->device, .r = r, .end = ts_clock_msec() + msec};
    session(m, budget);
    if (!*r->why) conclude(m);
  }
  for (int i = 0; m && i < m->n; i++) {
    ts_device_kernel_free(m->c[i].open);
    ts_tile_free(m->c[i].k.tile);
  }
  ts_text_free(&name);
  free(m);
}

double ts_tune_device_usual(const TsBuildJob *b, const TsFusion *f, TsGroup *g) {
  enum { MSEC = 2000 };
  Session *m = calloc(1, sizeof *m);
  TsTuneRecord *r = calloc(1, sizeof *r);
  double usec = 0;
  if (m && r) {
    *m = (Session){
        .b = b, .f = f, .g = g, .d = b->device, .r = r, .end = ts_clock_msec() + MSEC};
    m->n = build(m, 0, &m->c[0].k);
    if (m->n)
      open_all(m);
    else
      ts_tile_free(m->c[0].k.tile);
    if (m->n && !make_operands(m)) {
      events(m, true);
      for (int i = 0; i < 2; i++) usec = sample(m, 0, 1);
      events(m, false);
    }
    drop_operands(m);
    if (m->n) ts_device_kernel_free(m->c[0].open), ts_tile_free(m->c[0].k.tile);
  }
  free(r);
  free(m);
  return usec > 0 ? usec : 0;
}
