/* categorical: draws by the inverse of the distribution function. A row's weights exp(x - max) are
 * summed in f64, in increasing order, c[i] up to and with class i; draw s of row r takes the bits
 * of element r count + s as u in (0, 1) and gives the first class whose c[i] is above u c[K - 1]. A
 * class of weight 0 is never drawn. Beside +inf nothing else has a weight, and each +inf has the
 * same one. *Rejected:* the largest of logits plus Gumbel numbers: as many logarithms as classes
 * for each draw, and in f32 rare classes come too seldom. */
#include <math.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/drive/random.h"

enum { BLOCK = 1024, DRAWS = 1 << 11 /* that a thread takes at once */ };

typedef struct Job {
  const TsKernels *k;
  uint64_t seed, stream;
  bool wide;
  const char *x;
  int64_t classes, count, rows, rows_each; /* each: worked on before their draws */
  int64_t first;                           /* row of this round */
  double *sums;                            /* [rows_each][classes] */
  const int64_t *place;                    /* of each row in a larger tensor, or NULL */
  int64_t *y;
} Job;

static double logit(const Job *j, const char *x, int64_t i) {
  return j->wide ? ((const double *)(const void *)x)[i]
                 : (double)((const float *)(const void *)x)[i];
}

/* The largest of n logits, NaN if one is. Four maxima at once. */
#define LARGEST(T)                                                                             \
  static double largest_##T(int64_t n, const T *x) {                                           \
    T most[4] = {-(T)HUGE_VAL, -(T)HUGE_VAL, -(T)HUGE_VAL, -(T)HUGE_VAL};                      \
    bool nan = false;                                                                          \
    for (int64_t i = 0; i < n; i++) {                                                          \
      T v = x[i];                                                                              \
      nan |= v != v;                                                                           \
      most[i & 3] = v > most[i & 3] ? v : most[i & 3];                                         \
    }                                                                                          \
    for (int i = 1; i < 4; i++) most[0] = most[i] > most[0] ? most[i] : most[0];               \
    return nan ? (double)NAN : (double)most[0];                                                \
  }
LARGEST(float)
LARGEST(double)
#undef LARGEST

/* exp(x[i] - most) of n classes, in f64. */
static void weights(const Job *j, const char *x, int64_t n, double most, double *to) {
  union {
    float f32[BLOCK];
    double f64[BLOCK];
  } less;
  double par[1] = {0};
  const void *in[] = {&less};
  if (most == HUGE_VAL) {
    for (int64_t i = 0; i < n; i++) to[i] = logit(j, x, i) == HUGE_VAL;
  } else if (j->wide) {
    for (int64_t i = 0; i < n; i++) less.f64[i] = ((const double *)(const void *)x)[i] - most;
    j->k->pointwise.f64[TS_PW_exp](n, to, in, par, 0);
  } else {
    for (int64_t i = 0; i < n; i++)
      less.f32[i] = ((const float *)(const void *)x)[i] - (float)most;
    j->k->pointwise.f32[TS_PW_exp](n, &less, in, par, 0);
    for (int64_t i = 0; i < n; i++) to[i] = (double)less.f32[i];
  }
}

/* The sums of a row; the last one is 0 where no class is possible or a logit is NaN. */
static void sum_row(const Job *j, int64_t row, double *sums) {
  const char *x = j->x + row * j->classes * (j->wide ? 8 : 4);
  double most = -HUGE_VAL, sum = 0;
  for (int64_t at = 0; at < j->classes && !ts_cpu_interrupted() && most == most; at += BLOCK) {
    int64_t n = j->classes - at < BLOCK ? j->classes - at : BLOCK;
    const void *from = x + at * (j->wide ? 8 : 4);
    double v = j->wide ? largest_double(n, from) : largest_float(n, from);
    most = v <= most ? most : v; /* NaN stays */
  }
  if (!(most > -HUGE_VAL)) {
    sums[j->classes - 1] = 0;
    return;
  }
  for (int64_t at = 0; at < j->classes && !ts_cpu_interrupted(); at += BLOCK) {
    int64_t n = j->classes - at < BLOCK ? j->classes - at : BLOCK;
    weights(j, x + at * (j->wide ? 8 : 4), n, most, sums + at);
    for (int64_t i = 0; i < n; i++) sums[at + i] = sum += sums[at + i];
  }
}

static void sum_rows(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  (void)worker;
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++)
    sum_row(j, j->first + i, j->sums + i * j->classes);
}

/* The first class whose sum is above v, which is below the last one. */
static int64_t above(const double *sums, int64_t n, double v) {
  int64_t lo = 0;
  while (n > 1) { /* the answer is one of n from lo on */
    int64_t half = n / 2;
    lo = sums[lo + half - 1] > v ? lo : lo + half;
    n -= half;
  }
  return lo;
}

/* Draws lo .. hi - 1 of the round's rows. */
static void draw(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t base = j->first * j->count;
  uint64_t bits[TS_RANDOM_GROUP64];
  (void)worker;
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted();) {
    int64_t at = base + i, row_end = hi;
    if (j->place) {
      at = j->place[j->first + i / j->count] * j->count + i % j->count;
      row_end = (i / j->count + 1) * j->count;
    }
    int64_t group = at / TS_RANDOM_GROUP64, skip = at % TS_RANDOM_GROUP64;
    j->k->random.bits64(j->seed, j->stream, (uint64_t)group, 1, bits);
    for (; skip < TS_RANDOM_GROUP64 && i < hi && i < row_end; skip++, i++) {
      const double *sums = j->sums + i / j->count * j->classes;
      double all = sums[j->classes - 1], u = ((double)(bits[skip] >> 12) + 0.5) * 0x1p-52;
      double v = u * all < all ? u * all : nextafter(all, 0); /* where that rounds up */
      j->y[base + i] = all > 0 ? above(sums, j->classes, v) : -1;
    }
  }
}

static int check_drawn(TsCall *call, const Job *j) {
  for (int64_t i = 0; i < j->rows * j->count && !ts_cpu_interrupted(); i++)
    if (j->y[i] < 0)
      return ts_error_set(&call->ctx->err, TS_ERR_value,
                          "categorical: row %lld has no class to draw: its logits are -inf, or "
                          "one is NaN",
                          (long long)(j->place ? j->place[i / j->count] : i / j->count));
  return 0;
}

static int draw_all(TsCall *call, Job *j) {
  enum { ROUND = 1 << 20 /* sums */ };
  j->rows_each = ROUND / j->classes + 1;
  if (j->rows_each > j->rows) j->rows_each = j->rows;
  j->sums = ts_work_take(j->rows_each * j->classes * 8);
  if (!j->sums) return ts_scratch_failed(call), -1;
  for (; j->first < j->rows && !ts_cpu_interrupted(); j->first += j->rows_each) {
    int64_t left = j->rows - j->first, n = left < j->rows_each ? left : j->rows_each;
    ts_cpu_parallel(n, (1 << 14) / j->classes + 1, sum_rows, j);
    if (!ts_cpu_interrupted()) ts_cpu_parallel(n * j->count, DRAWS, draw, j);
  }
  ts_work_give(j->sums);
  return check_drawn(call, j);
}

typedef struct Places {
  int64_t *place, count;
} Places;

static void place_rows(void *arg, int64_t own, int64_t whole, int64_t count) {
  const Places *p = arg;
  for (int64_t i = 0; i < count; i += p->count)
    p->place[(own + i) / p->count] = (whole + i) / p->count;
}

int ts_random_categorical(TsCall *call, uint64_t seed, uint64_t stream) {
  TsContext *c = call->ctx;
  const TsMeta *m = &call->in[0]->meta;
  bool wide = m->dtype == TS_DT_f64;
  int64_t draws = ts_tensor_numel(call->out[0]);
  if (draws == 0) return 0;
  Job j = {.k = c->k,
           .seed = seed,
           .stream = stream,
           .wide = wide,
           .classes = m->dim[m->ndim - 1],
           .count = call->attr[0].i,
           .rows = draws / call->attr[0].i};
  TsTensor *x = ts_tensor_cast(c, call->in[0], wide ? TS_DT_f64 : TS_DT_f32);
  j.x = x ? ts_tensor_read(x) : NULL;
  j.y = j.x ? ts_tensor_write(call->out[0]) : NULL;
  int64_t *place = j.y && c->box ? ts_work_take(j.rows * 8) : NULL;
  if (place) ts_random_runs(c->box, draws, place_rows, &(Places){place, j.count});
  j.place = place;
  int failed = !j.y               ? -1
               : c->box && !place ? (ts_scratch_failed(call), -1)
                                  : draw_all(call, &j);
  ts_work_give(place);
  ts_tensor_unref(x);
  return failed;
}
