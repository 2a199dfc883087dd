/* Transforms as rows: LANES of the batch at a time, one a lane. Which form is taken, and why,
 * stands in vm/fft/fft.c. */
#include <stdatomic.h>
#include <string.h>

#include "devices/work.h"
#include "vm/fft/job.h"

enum { ROW = TS_FFT_ROW };

/* ---- trees over rows -------------------------------------------------------------- */

/* Rows between the columns of a node's intermediate matrix: one too many, since a power
 * of two would put a whole n2-point transform into one set of the L1 cache. */
static int64_t pitch(const TsFftNode *t) { return t->n1 + 1; }

int64_t ts_fft_tree_rows(const TsFftNode *t) {
  if (!t->left) return 0;
  return t->n2 * pitch(t) + ts_fft_max(ts_fft_tree_rows(t->left), ts_fft_tree_rows(t->right));
}

TsFftTwist ts_fft_twist_of(const TsFftJob *j, const TsFftNode *t, int64_t column, int each) {
  const char *w = t->twist + column / j->lanes * ROW + column % j->lanes * j->size;
  return (TsFftTwist){w, t->step, each};
}

/* The transform of one row of lanes, from x to y; tmp holds ts_fft_tree_rows. */
void ts_fft_run_tree(const TsFftJob *j, const TsFftNode *t, const char *x, int64_t xs, char *y,
                     int64_t ys, const TsFftTwist *tw, char *tmp) {
  if (!t->left) {
    j->k->chain(&t->chain, x, xs, y, ys, tw);
    return;
  }
  char *more = tmp + t->n2 * pitch(t) * ROW;
  for (int64_t c = 0; c < t->n2; c++) {
    TsFftTwist own = ts_fft_twist_of(j, t, c, 0);
    ts_fft_run_tree(j, t->left, x + c * xs, t->n2 * xs, tmp + c * pitch(t) * ROW, ROW, &own,
                    more);
  }
  for (int64_t c = 0; c < t->n1; c++) {
    TsFftTwist outer = *tw;
    if (outer.w) outer.w += c * tw->step;
    outer.step *= t->n1;
    ts_fft_run_tree(j, t->right, tmp + c * ROW, pitch(t) * ROW, y + c * ys, t->n1 * ys, &outer,
                    more);
  }
}

/* The complex transform inside, on rows x of the core's length; y is as long, and the
 * result is in one of them. Inverse transforms come and go with re and im exchanged. */
char *ts_fft_core_rows(const TsFftJob *j, char *x, char *y, char *tmp) {
  const TsFftPlan *p = j->core;
  if (!p->m) {
    ts_fft_run_tree(j, p->root, x, ROW, y, ROW, &ts_fft_no_twist, tmp);
    return y;
  }
  j->k->mul_rows(x, p->chirp, p->n, 0, 0);
  memset(x + p->n * ROW, 0, (size_t)(p->m - p->n) * ROW);
  ts_fft_run_tree(j, p->root, x, ROW, y, ROW, &ts_fft_no_twist, tmp);
  j->k->mul_rows(y, p->kernel, p->m, 0, 1);
  ts_fft_run_tree(j, p->root, y, ROW, x, ROW, &ts_fft_no_twist, tmp);
  j->k->mul_rows(x, p->chirp, p->n, 1, 0);
  return x;
}

/* ---- a block of the batch as rows ------------------------------------------------- */

static int adjacent(const TsFftPort *p, int64_t size) {
  for (int l = 1; l < p->lanes; l++)
    if (p->off[l] != p->off[0] + l * size) return 0;
  return 1;
}

void ts_fft_ports(const TsFftJob *j, int64_t block, TsFftPort *in, TsFftPort *out) {
  int64_t first = block * j->lanes, left = j->batch - first;
  *in = (TsFftPort){.base = (char *)(uintptr_t)j->f->in,
                    .step = j->in_step,
                    .valid = j->given,
                    .lanes = left < j->lanes ? (int)left : j->lanes};
  *out = *in;
  out->base = j->f->out;
  out->step = j->out_step;
  out->valid = j->bins;
  for (int l = 0; l < in->lanes; l++) ts_fft_offsets(j, first + l, &in->off[l], &out->off[l]);
  in->adjacent = adjacent(in, j->real_in ? j->size : 2 * j->size);
  out->adjacent = adjacent(out, j->real_out ? j->size : 2 * j->size);
}

/* A direct c2c transform straight between the ports: only one intermediate matrix. */
static void c2c_ports(const TsFftJob *j, const TsFftPort *in, const TsFftPort *out, char *x,
                      char *tmp) {
  const TsFftNode *t = j->core->root;
  int swap = j->f->inverse != 0;
  char *more = tmp + t->n2 * pitch(t) * ROW, *y = x + ts_fft_max(t->n1, t->n2) * ROW;
  for (int64_t c = 0; c < t->n2; c++) {
    TsFftTwist own = ts_fft_twist_of(j, t, c, 0);
    j->k->load_complex(in, c, t->n2, t->n1, x, swap);
    ts_fft_run_tree(j, t->left, x, ROW, tmp + c * pitch(t) * ROW, ROW, &own, more);
  }
  for (int64_t c = 0; c < t->n1; c++) {
    ts_fft_run_tree(j, t->right, tmp + c * ROW, pitch(t) * ROW, y, ROW, &ts_fft_no_twist, more);
    j->k->store_complex(out, c, t->n1, t->n2, y, swap, j->f->scale);
  }
}

static void c2c_rows(const TsFftJob *j, const TsFftPort *in, const TsFftPort *out, char *x,
                     char *y, char *tmp) {
  int swap = j->f->inverse != 0;
  int along = in->step == 2 * j->size || out->step == 2 * j->size;
  if (!j->core->m && j->core->root->left && !along) {
    c2c_ports(j, in, out, x, tmp);
    return;
  }
  j->k->load_complex(in, 0, 1, j->n, x, swap);
  char *z = ts_fft_core_rows(j, x, y, tmp);
  j->k->store_complex(out, 0, 1, j->n, z, swap, j->f->scale);
}

/* The half spectrum of real rows that are already in x: packed for even n, or with an
 * imaginary part of zero. */
char *ts_fft_half_rows(const TsFftJob *j, char *x, char *y, char *tmp) {
  char *z = ts_fft_core_rows(j, x, y, tmp);
  if (j->n % 2 == 0) j->k->split_rows(z, j->roots->line, j->half);
  return z;
}

/* Where real i of a transform stands in rows: see ts_fft_half_rows. */
static int64_t real_pitch(const TsFftJob *j) { return j->n % 2 ? ROW : ROW / 2; }

static void clear_odd(const TsFftJob *j, char *x) {
  for (int64_t i = 0; i < j->n && j->n % 2; i++) memset(x + i * ROW + ROW / 2, 0, ROW / 2);
}

void ts_fft_load_reals(const TsFftJob *j, const TsFftPort *in, char *x) {
  j->k->load_real(in, 0, 1, j->n, x, real_pitch(j));
  clear_odd(j, x);
}

/* The real transform of a half spectrum in x; re and im of the result are exchanged. */
char *ts_fft_real_rows(const TsFftJob *j, char *x, char *y, char *tmp) {
  if (j->n % 2 == 0) {
    j->k->merge_rows(x, j->roots->line, j->half);
  } else {
    char part[ROW / 2];
    memset(x + ROW / 2, 0, ROW / 2);
    for (int64_t i = 0; i <= j->half; i++) {
      char *a = x + i * ROW;
      if (i) {
        char *b = x + (j->n - i) * ROW;
        for (int l = 0; l < j->lanes; l++) {
          if (j->size == 8)
            ((double *)b)[l] = -((double *)a)[j->lanes + l];
          else
            ((float *)b)[l] = -((float *)a)[j->lanes + l];
        }
        memcpy(b + ROW / 2, a, ROW / 2);
      }
      memcpy(part, a, ROW / 2);
      memcpy(a, a + ROW / 2, ROW / 2);
      memcpy(a + ROW / 2, part, ROW / 2);
    }
  }
  return ts_fft_core_rows(j, x, y, tmp);
}

void ts_fft_store_reals(const TsFftJob *j, const TsFftPort *out, const char *z) {
  const TsFftReal *k = j->k;
  double scale = j->f->scale;
  if (j->n % 2) {
    k->store_real(out, 0, 1, j->n, z + ROW / 2, ROW, scale);
  } else if (out->step == j->size && out->lanes == j->lanes) {
    TsFftPort pairs = *out;
    pairs.step = 2 * j->size;
    pairs.adjacent = 0;
    k->store_complex(&pairs, 0, 1, j->half, z, 1, scale);
  } else {
    k->store_real(out, 0, 2, j->half, z + ROW / 2, ROW, scale);
    k->store_real(out, 1, 2, j->half, z, ROW, scale);
  }
}

static void dct2_rows(const TsFftJob *j, const TsFftPort *in, const TsFftPort *out, char *x,
                      char *y, char *tmp) {
  int64_t step = real_pitch(j), n = j->n;
  j->k->load_real(in, 0, 2, (n + 1) / 2, x, step);
  j->k->load_real(in, 1, 2, n / 2, x + (n - 1) * step, -step);
  clear_odd(j, x);
  char *z = ts_fft_half_rows(j, x, y, tmp), *reals = z == x ? y : x;
  j->k->dct2_rows(z, j->quarter->line, reals, n, j->f->scale, j->f->dc);
  j->k->store_real(out, 0, 1, n, reals, ROW / 2, 1);
}

static void dct3_rows(const TsFftJob *j, const TsFftPort *in, const TsFftPort *out, char *x,
                      char *y, char *tmp) {
  j->k->load_real(in, 0, 1, j->n, y, ROW / 2);
  j->k->dct3_rows(y, j->quarter->line, x, j->n, j->f->dc);
  const char *z = ts_fft_real_rows(j, x, y, tmp);
  /* v[i] is at place i of the packed reals, with each pair exchanged. */
  int64_t n = j->n, even = (n + 1) / 2;
  double scale = j->f->scale;
  if (n % 2) {
    j->k->store_real(out, 0, 2, even, z + ROW / 2, ROW, scale);
    j->k->store_real(out, 1, 2, n / 2, z + (n - 1) * ROW + ROW / 2, -ROW, scale);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t to = i < even ? 2 * i : 2 * (n - 1 - i) + 1;
    j->k->store_real(out, to, 1, 1, z + (i ^ 1) * (ROW / 2), ROW, scale);
  }
}

static void block_rows(const TsFftJob *j, int64_t block, char *x, char *y, char *tmp) {
  TsFftPort in, out;
  ts_fft_ports(j, block, &in, &out);
  switch (j->f->kind) {
  case TS_FFT_c2c: c2c_rows(j, &in, &out, x, y, tmp); break;
  case TS_FFT_r2c:
    ts_fft_load_reals(j, &in, x);
    j->k->store_complex(&out, 0, 1, j->bins, ts_fft_half_rows(j, x, y, tmp), 0, j->f->scale);
    break;
  case TS_FFT_c2r:
    j->k->load_complex(&in, 0, 1, j->half + 1, x, 0);
    ts_fft_store_reals(j, &out, ts_fft_real_rows(j, x, y, tmp));
    break;
  case TS_FFT_dct2: dct2_rows(j, &in, &out, x, y, tmp); break;
  default: dct3_rows(j, &in, &out, x, y, tmp);
  }
}

int64_t ts_fft_work_rows(const TsFftJob *j) {
  int64_t n = ts_fft_max(j->core->m, j->n) + j->lanes;
  if (j->core->m || !j->core->root->left || j->f->kind != TS_FFT_c2c) return n;
  return ts_fft_max(j->core->root->n1 + j->core->root->n2, n);
}

void ts_fft_rows_task(void *arg, int64_t lo, int64_t hi, int worker) {
  TsFftJob *j = arg;
  (void)worker;
  int64_t rows = ts_fft_work_rows(j);
  char *x = ts_work_take((2 * rows + ts_fft_tree_rows(j->core->root)) * ROW);
  if (!x) {
    atomic_store(&j->failed, 1);
    return;
  }
  for (int64_t b = lo; b < hi; b++) block_rows(j, b, x, x + rows * ROW, x + 2 * rows * ROW);
  ts_work_give(x);
}
