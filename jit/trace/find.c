/* Finding sequences of calls that repeat, in the VM's ring of what ran last.
 *
 * Nothing is looked at for most of the time: after a fruitless look the next one sleeps twice
 * as long, up to LONGEST_NAP calls. A look compares hashes of the last WINDOW calls (operator,
 * options, types of the inputs; not which tensors they are, which the recorder finds out) for
 * the smallest period. So code that never repeats pays some tenths of a nanosecond a call, and
 * a loop is found after some milliseconds at most. Views are left out: those of tensors with
 * bytes run at once, whatever is put off. */
#include <string.h>

#include "jit/trace/state.h"

enum {
  WINDOW = 768,
  FIRST_NAP = 64,
  LONGEST_NAP = 1 << 14,
  MOST_RAISES = 3, /* doublings of that, after traces that were given up */
  REPEATS = 3,
  LEAST_CALLS = 24, /* that the repeats must span */
  LEAST_TRACE = 16, /* shorter periods are recorded several times over */
  MOST_PERIOD = 256,
  SMALL_ROUND = 1 << 16, /* elements */
};

typedef struct Window {
  uint64_t hash[WINDOW];
  uint32_t at[WINDOW]; /* in the ring */
  int n;
} Window;

bool ts_trace_counts(TsOp op) {
  return ts_trace_allowed(op) && ts_op_info(op)->cls != TS_CLASS_VIEW;
}

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

/* Of a record; ids are left out. */
static uint64_t hash_record(const uint64_t *w, TsTraceHead h) {
  uint64_t hash = mix(h.op, (uint64_t)h.nin << 8 | h.nattr);
  const uint64_t *p = w + 1, *end = w + h.nwords;
  for (int i = 0; i < h.nin + h.nout; i++) {
    uint64_t type = p[1];
    int ndim = (int)(type >> 8 & 0xff);
    if (!p[0]) ndim = 0;
    if (i < h.nin) {
      hash = mix(hash, type & 0xffffffff);
      for (int k = 0; k < ndim; k++) hash = mix(hash, p[2 + k]);
    }
    p += 2 + ndim;
  }
  while (p < end) hash = mix(hash, *p++);
  return hash;
}

/* Calls since the look began, oldest first. */
static void read_ring(const TsTracer *t, Window *w) {
  const TsTrace *ring = &t->c->trace;
  uint32_t at = t->note_at;
  w->n = 0;
  for (uint64_t k = t->note_count; k < ring->count && w->n < WINDOW; k++) {
    if (at >= TS_TRACE_WORDS) at = 0;
    TsTraceHead h = ts_trace_head(ring, at);
    if (h.op == TS_TRACE_SKIP) h = ts_trace_head(ring, at = 0);
    if (ts_trace_counts((TsOp)h.op)) {
      w->at[w->n] = at;
      w->hash[w->n++] = hash_record(ring->word + at, h);
    }
    at += h.nwords;
  }
}

static bool repeats(const Window *w, int p, int times) {
  int span = p * times;
  if (span > w->n) return false;
  for (int i = w->n - 1; i >= w->n - span + p; i--)
    if (w->hash[i] != w->hash[i - p]) return false;
  return true;
}

static int period(const TsTracer *t, const Window *w) {
  int least = t->eager ? 2 : LEAST_CALLS, most = t->eager ? 2 : REPEATS;
  for (int p = 1; p <= MOST_PERIOD && p * most <= w->n; p++) {
    if (w->hash[w->n - 1] != w->hash[w->n - 1 - p]) continue;
    int times = most;
    while (times * p < least) times++;
    if (repeats(w, p, times)) return p;
  }
  return 0;
}

static int operand_words(const uint64_t *q) { return 2 + (q[0] ? (int)(q[1] >> 8 & 0xff) : 0); }

/* The record among the last p before i that made a tensor, or -1. */
static int maker_of(const TsTrace *ring, const Window *w, int i, int p, uint64_t id) {
  for (int j = i - 1; id && j >= 0 && j >= i - p; j--) {
    const uint64_t *q = ring->word + w->at[j] + 1;
    TsTraceHead h = ts_trace_head(ring, w->at[j]);
    for (int k = 0; k < h.nin + h.nout; k++, q += operand_words(q))
      if (k >= h.nin && q[0] == id) return j;
  }
  return -1;
}

/* Where a trace should begin, in calls from now: the least is alive there. Counted in the last
 * round but one, whose values have been used by now. */
static int rotation(const TsTracer *t, const Window *w, int p) {
  const TsTrace *ring = &t->c->trace;
  int from = w->n - (w->n >= 3 * p ? 2 * p : p), best = 0;
  int last_use[WINDOW] = {0}, width[MOST_PERIOD] = {0};
  for (int i = 0; i < w->n; i++) {
    const uint64_t *q = ring->word + w->at[i] + 1;
    TsTraceHead h = ts_trace_head(ring, w->at[i]);
    for (int k = 0; k < h.nin; k++, q += operand_words(q)) {
      int j = maker_of(ring, w, i, p, q[0]);
      if (j >= 0) last_use[j] = i;
    }
  }
  for (int j = from - p > 0 ? from - p : 0; j < w->n; j++)
    for (int b = j + 1 > from ? j + 1 : from; b <= last_use[j] && b < from + p; b++)
      width[b - from]++;
  for (int b = 1; b < p; b++)
    if (width[b] < width[best]) best = b;
  return best;
}

/* Elements that a round makes. */
static double elements(const TsTracer *t, const Window *w, int p) {
  double sum = 0;
  for (int i = w->n - p; i < w->n; i++) {
    const uint64_t *q = t->c->trace.word + w->at[i] + 1;
    TsTraceHead h = ts_trace_head(&t->c->trace, w->at[i]);
    for (int k = 0; k < h.nin + h.nout; k++) {
      int ndim = q[0] ? (int)(q[1] >> 8 & 0xff) : 0;
      double numel = 1;
      for (int d = 0; d < ndim; d++) numel *= (double)q[2 + d];
      if (k >= h.nin) sum += numel;
      q += 2 + ndim;
    }
  }
  return sum;
}

/* Several rounds make one trace while the cost of a run counts. */
static int trace_calls(const TsTracer *t, const Window *w, int p) {
  bool small = elements(t, w, p) <= SMALL_ROUND;
  return p >= LEAST_TRACE || t->eager || !small ? p : (LEAST_TRACE + p - 1) / p * p;
}

void ts_trace_sleep(TsTracer *t, bool found) {
  int more = t->given_up < MOST_RAISES ? t->given_up : MOST_RAISES;
  uint32_t longest = t->eager ? 8 : LONGEST_NAP << more;
  if (t->given_up && !found) t->nap = longest;
  t->nap = found || !t->nap ? (t->eager ? 8 : FIRST_NAP) : t->nap * 2;
  if (t->nap > longest) t->nap = longest;
  t->noted = false;
  t->c->trace.countdown = t->nap;
}

/* Short looks first: most loops are short. */
static uint32_t look_calls(const TsTracer *t) {
  return t->eager ? 32 : t->nap < WINDOW ? (t->nap < 128 ? 128 : t->nap) : WINDOW;
}

static void note_place(TsTracer *t) {
  TsTrace *ring = &t->c->trace;
  t->noted = true;
  t->note_at = ring->at;
  t->note_count = ring->count;
  t->note_words = ring->words;
  ring->countdown = look_calls(t);
}

void ts_trace_look(TsContext *c) {
  TsTracer *t = tracer_of(c);
  Window w;
  if (!t->on) return;
  if (!t->noted) {
    note_place(t);
    return;
  }
  bool whole = c->trace.words - t->note_words <= TS_TRACE_WORDS - TS_TRACE_WORDS / 4;
  w.n = 0;
  if (whole && !t->rec.trace && !t->wait) read_ring(t, &w);
  int p = w.n ? period(t, &w) : 0;
  if (p) {
    t->wait = rotation(t, &w, p) + 1;
    t->period = trace_calls(t, &w, p);
    c->watched = true;
  }
  ts_trace_sleep(t, p != 0);
}
