/* The driver of Fourier transforms: takes a batch apart, moves it through work memory and
 * runs the trees of vm/fft_plan.c with the kernels of vm/kernels/fft.h.
 *
 * Two ways through the same dataflow:
 * - rows: LANES transforms of the batch at a time, one a lane. Right when the batch is
 *   adjacent in memory (any axis but the last), and for short lengths.
 * - line: one transform in contiguous memory, its n = n1*n2 points as a matrix
 *   [n1][n2] whose columns are the lanes of the n1-point transforms; transposed by tiles
 *   into [n2][n1], whose columns are the lanes of the n2-point ones. Two trips through
 *   memory for any length, and short transforms stay in L1.
 * The choice is by cost and may change; bits do not. */
#include "vm/fft.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/fft_plan.h"

enum { MAX_OUTER = 16, ROW = TS_FFT_ROW, ROWS_MAX = 1 << 16, STREAM = 4 << 20 };

typedef struct Job {
  const TsFft *f;
  const TsFftReal *k;
  TsFftPlan *core, *roots, *quarter; /* roots and quarter only where the kind needs them */
  int size, lanes, real_in, real_out;
  int64_t n, half, length;     /* half: n/2; length: of the complex transform inside */
  int64_t wanted, given, bins; /* elements along the axis: wanted, there, of the output */
  int64_t in_step, out_step;   /* bytes */
  int nouter;
  int64_t batch, dim[MAX_OUTER], in_outer[MAX_OUTER], out_outer[MAX_OUTER];
  int split; /* the threads share one transform rather than the batch */
  _Atomic int failed;
} Job;

static const TsFftTwist no_twist = {NULL, 0, 0};

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- trees over rows -------------------------------------------------------------- */

/* Rows between the columns of a node's intermediate matrix: one too many, since a power
 * of two would put a whole n2-point transform into one set of the L1 cache. */
static int64_t pitch(const TsFftNode *t) { return t->n1 + 1; }

static int64_t tree_rows(const TsFftNode *t) {
  if (!t->left) return 0;
  return t->n2 * pitch(t) + max64(tree_rows(t->left), tree_rows(t->right));
}

static TsFftTwist twist_of(const Job *j, const TsFftNode *t, int64_t column, int each) {
  const char *w = t->twist + column / j->lanes * ROW + column % j->lanes * j->size;
  return (TsFftTwist){w, t->step, each};
}

/* The transform of one row of lanes, from x to y; tmp holds tree_rows. */
static void run_tree(const Job *j, const TsFftNode *t, const char *x, int64_t xs, char *y,
                     int64_t ys, const TsFftTwist *tw, char *tmp) {
  if (!t->left) {
    j->k->chain(&t->chain, x, xs, y, ys, tw);
    return;
  }
  char *more = tmp + t->n2 * pitch(t) * ROW;
  for (int64_t c = 0; c < t->n2; c++) {
    TsFftTwist own = twist_of(j, t, c, 0);
    run_tree(j, t->left, x + c * xs, t->n2 * xs, tmp + c * pitch(t) * ROW, ROW, &own, more);
  }
  for (int64_t c = 0; c < t->n1; c++) {
    TsFftTwist outer = *tw;
    if (outer.w) outer.w += c * tw->step;
    outer.step *= t->n1;
    run_tree(j, t->right, tmp + c * ROW, pitch(t) * ROW, y + c * ys, t->n1 * ys, &outer, more);
  }
}

/* The complex transform inside, on rows x of the core's length; y is as long, and the
 * result is in one of them. Inverse transforms come and go with re and im exchanged. */
static char *core_rows(const Job *j, char *x, char *y, char *tmp) {
  const TsFftPlan *p = j->core;
  if (!p->m) {
    run_tree(j, p->root, x, ROW, y, ROW, &no_twist, tmp);
    return y;
  }
  j->k->mul_rows(x, p->chirp, p->n, 0, 0);
  memset(x + p->n * ROW, 0, (size_t)(p->m - p->n) * ROW);
  run_tree(j, p->root, x, ROW, y, ROW, &no_twist, tmp);
  j->k->mul_rows(y, p->kernel, p->m, 0, 1);
  run_tree(j, p->root, y, ROW, x, ROW, &no_twist, tmp);
  j->k->mul_rows(x, p->chirp, p->n, 1, 0);
  return x;
}

/* ---- a block of the batch as rows ------------------------------------------------- */

static void offsets(const Job *j, int64_t index, int64_t *in, int64_t *out) {
  *in = *out = 0;
  for (int d = j->nouter - 1; d >= 0; d--) {
    int64_t i = index % j->dim[d];
    index /= j->dim[d];
    *in += i * j->in_outer[d];
    *out += i * j->out_outer[d];
  }
}

static int adjacent(const TsFftPort *p, int64_t size) {
  for (int l = 1; l < p->lanes; l++)
    if (p->off[l] != p->off[0] + l * size) return 0;
  return 1;
}

static void ports(const Job *j, int64_t block, TsFftPort *in, TsFftPort *out) {
  int64_t first = block * j->lanes, left = j->batch - first;
  *in = (TsFftPort){.base = (char *)(uintptr_t)j->f->in, .step = j->in_step,
                    .valid = j->given, .lanes = left < j->lanes ? (int)left : j->lanes};
  *out = *in;
  out->base = j->f->out;
  out->step = j->out_step;
  out->valid = j->bins;
  for (int l = 0; l < in->lanes; l++) offsets(j, first + l, &in->off[l], &out->off[l]);
  in->unit = adjacent(in, j->real_in ? j->size : 2 * j->size);
  out->unit = adjacent(out, j->real_out ? j->size : 2 * j->size);
}

/* A direct c2c transform straight between the ports: only one intermediate matrix. */
static void c2c_ports(const Job *j, const TsFftPort *in, const TsFftPort *out, char *x,
                      char *tmp) {
  const TsFftNode *t = j->core->root;
  int swap = j->f->inverse != 0;
  char *more = tmp + t->n2 * pitch(t) * ROW, *y = x + max64(t->n1, t->n2) * ROW;
  for (int64_t c = 0; c < t->n2; c++) {
    TsFftTwist own = twist_of(j, t, c, 0);
    j->k->load_complex(in, c, t->n2, t->n1, x, swap);
    run_tree(j, t->left, x, ROW, tmp + c * pitch(t) * ROW, ROW, &own, more);
  }
  for (int64_t c = 0; c < t->n1; c++) {
    run_tree(j, t->right, tmp + c * ROW, pitch(t) * ROW, y, ROW, &no_twist, more);
    j->k->store_complex(out, c, t->n1, t->n2, y, swap, j->f->scale);
  }
}

static void c2c_rows(const Job *j, const TsFftPort *in, const TsFftPort *out, char *x, char *y,
                     char *tmp) {
  int swap = j->f->inverse != 0;
  int along = in->step == 2 * j->size || out->step == 2 * j->size;
  if (!j->core->m && j->core->root->left && !along) {
    c2c_ports(j, in, out, x, tmp);
    return;
  }
  j->k->load_complex(in, 0, 1, j->n, x, swap);
  char *z = core_rows(j, x, y, tmp);
  j->k->store_complex(out, 0, 1, j->n, z, swap, j->f->scale);
}

/* The half spectrum of real rows that are already in x: packed for even n, or with an
 * imaginary part of zero. */
static char *half_rows(const Job *j, char *x, char *y, char *tmp) {
  char *z = core_rows(j, x, y, tmp);
  if (j->n % 2 == 0) j->k->split_rows(z, j->roots->line, j->half);
  return z;
}

/* Where real i of a transform stands in rows: see half_rows. */
static int64_t real_pitch(const Job *j) { return j->n % 2 ? ROW : ROW / 2; }

static void clear_odd(const Job *j, char *x) {
  for (int64_t i = 0; i < j->n && j->n % 2; i++) memset(x + i * ROW + ROW / 2, 0, ROW / 2);
}

/* The real transform of a half spectrum in x; re and im of the result are exchanged. */
static char *real_rows(const Job *j, char *x, char *y, char *tmp) {
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
          if (j->size == 8) ((double *)b)[l] = -((double *)a)[j->lanes + l];
          else ((float *)b)[l] = -((float *)a)[j->lanes + l];
        }
        memcpy(b + ROW / 2, a, ROW / 2);
      }
      memcpy(part, a, ROW / 2);
      memcpy(a, a + ROW / 2, ROW / 2);
      memcpy(a + ROW / 2, part, ROW / 2);
    }
  }
  return core_rows(j, x, y, tmp);
}

static void store_reals(const Job *j, const TsFftPort *out, const char *z) {
  const TsFftReal *k = j->k;
  double scale = j->f->scale;
  if (j->n % 2) {
    k->store_real(out, 0, 1, j->n, z + ROW / 2, ROW, scale);
  } else if (out->step == j->size && out->lanes == j->lanes) {
    TsFftPort pairs = *out;
    pairs.step = 2 * j->size;
    pairs.unit = 0;
    k->store_complex(&pairs, 0, 1, j->half, z, 1, scale);
  } else {
    k->store_real(out, 0, 2, j->half, z + ROW / 2, ROW, scale);
    k->store_real(out, 1, 2, j->half, z, ROW, scale);
  }
}

static void dct2_rows(const Job *j, const TsFftPort *in, const TsFftPort *out, char *x, char *y,
                      char *tmp) {
  int64_t step = real_pitch(j), n = j->n;
  j->k->load_real(in, 0, 2, (n + 1) / 2, x, step);
  j->k->load_real(in, 1, 2, n / 2, x + (n - 1) * step, -step);
  clear_odd(j, x);
  char *z = half_rows(j, x, y, tmp), *reals = z == x ? y : x;
  j->k->dct2_rows(z, j->quarter->line, reals, n, j->f->scale, j->f->dc);
  j->k->store_real(out, 0, 1, n, reals, ROW / 2, 1);
}

static void dct3_rows(const Job *j, const TsFftPort *in, const TsFftPort *out, char *x, char *y,
                      char *tmp) {
  j->k->load_real(in, 0, 1, j->n, y, ROW / 2);
  j->k->dct3_rows(y, j->quarter->line, x, j->n, j->f->dc);
  const char *z = real_rows(j, x, y, tmp);
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

static void block_rows(const Job *j, int64_t block, char *x, char *y, char *tmp) {
  TsFftPort in, out;
  ports(j, block, &in, &out);
  switch (j->f->kind) {
  case TS_FFT_c2c: c2c_rows(j, &in, &out, x, y, tmp); break;
  case TS_FFT_r2c:
    j->k->load_real(&in, 0, 1, j->n, x, real_pitch(j));
    clear_odd(j, x);
    j->k->store_complex(&out, 0, 1, j->bins, half_rows(j, x, y, tmp), 0, j->f->scale);
    break;
  case TS_FFT_c2r:
    j->k->load_complex(&in, 0, 1, j->half + 1, x, 0);
    store_reals(j, &out, real_rows(j, x, y, tmp));
    break;
  case TS_FFT_dct2: dct2_rows(j, &in, &out, x, y, tmp); break;
  default: dct3_rows(j, &in, &out, x, y, tmp);
  }
}

static void rows_task(void *arg, int64_t lo, int64_t hi, int worker) {
  Job *j = arg;
  (void)worker;
  int64_t n = max64(j->core->m, j->n) + j->lanes;
  int64_t rows = j->core->m || !j->core->root->left || j->f->kind != TS_FFT_c2c
                     ? n
                     : max64(j->core->root->n1 + j->core->root->n2, n);
  char *x = ts_fft_work_take((size_t)((2 * rows + tree_rows(j->core->root)) * ROW));
  if (!x) {
    atomic_store(&j->failed, 1);
    return;
  }
  for (int64_t b = lo; b < hi; b++) block_rows(j, b, x, x + rows * ROW, x + 2 * rows * ROW);
  ts_fft_work_give(x);
}

/* ---- one transform as a line ------------------------------------------------------ */

/* A complex line of the tree's length from in to out; matrix holds matrix_rows. */
typedef struct Line {
  Job *j;
  const TsFftNode *t;
  const char *in;
  char *out, *matrix;
  int swap_in, swap_out;
  double scale;
} Line;

static int64_t blocks(const Job *j, int64_t n) { return (n + j->lanes - 1) / j->lanes; }
static int64_t padded(const Job *j, int64_t n) { return blocks(j, n) * j->lanes; }

static int64_t matrix_rows(const Job *j, const TsFftNode *t) {
  return t->left ? blocks(j, t->n1) * padded(j, t->n2) : 0;
}

static int64_t stripe_rows(const Job *j, const TsFftNode *t) {
  if (!t->left) return 2 * t->n;
  return padded(j, t->n1) + max64(padded(j, t->n1), t->n2) +
         max64(tree_rows(t->left), tree_rows(t->right));
}

static TsFftPort stripe(const Job *j, const char *base, int64_t block, int64_t columns) {
  int64_t left = columns - block * j->lanes;
  TsFftPort p = {.base = (char *)(uintptr_t)base + block * j->lanes * 2 * j->size,
                 .step = columns * 2 * j->size, .valid = INT64_MAX / 2, .unit = 1};
  p.lanes = left < j->lanes ? (int)left : j->lanes;
  for (int l = 0; l < p.lanes; l++) p.off[l] = 2 * j->size * l;
  return p;
}

/* n1-point transforms of LANES columns, with the roots, into the transposed matrix:
 * tile (k1 block, t block) is LANES rows, and the tiles of a k1 block follow each other. */
static void columns(const Line *a, int64_t block, char *work) {
  const Job *j = a->j;
  const TsFftNode *t = a->t;
  TsFftPort in = stripe(j, a->in, block, t->n2);
  TsFftTwist tw = twist_of(j, t, block * j->lanes, 1);
  char *y = work + max64(padded(j, t->n1), t->n2) * ROW, *tmp = y + padded(j, t->n1) * ROW;
  int64_t tile = (int64_t)j->lanes * ROW, n1 = blocks(j, t->n1), n2 = blocks(j, t->n2);
  j->k->load_complex(&in, 0, 1, t->n1, work, a->swap_in);
  run_tree(j, t->left, work, ROW, y, ROW, &tw, tmp);
  for (int64_t b = 0; b < n1; b++)
    j->k->turn(y + b * tile, a->matrix + (b * n2 + block) * tile);
}

static void columns2(const Line *a, int64_t block, char *work) {
  const Job *j = a->j;
  const TsFftNode *t = a->t;
  TsFftPort out = stripe(j, a->out, block, t->n1);
  char *x = a->matrix + block * padded(j, t->n2) * ROW;
  char *tmp = work + (max64(padded(j, t->n1), t->n2) + padded(j, t->n1)) * ROW;
  run_tree(j, t->right, x, ROW, work, ROW, &no_twist, tmp);
  j->k->store_complex(&out, 0, 1, t->n2, work, a->swap_out, a->scale);
}

static void half_task(const Line *a, int64_t lo, int64_t hi,
                      void (*half)(const Line *, int64_t, char *)) {
  char *work = ts_fft_work_take((size_t)(stripe_rows(a->j, a->t) * ROW));
  if (!work) {
    atomic_store(&a->j->failed, 1);
    return;
  }
  for (int64_t b = lo; b < hi; b++) half(a, b, work);
  ts_fft_work_give(work);
}

static void columns_task(void *arg, int64_t lo, int64_t hi, int worker) {
  (void)worker;
  half_task(arg, lo, hi, columns);
}

static void columns2_task(void *arg, int64_t lo, int64_t hi, int worker) {
  (void)worker;
  half_task(arg, lo, hi, columns2);
}

static void tree_line(const Line *a, char *work) {
  Job *j = a->j;
  const TsFftNode *t = a->t;
  if (!t->left) {
    TsFftPort in = stripe(j, a->in, 0, 1), out = stripe(j, a->out, 0, 1);
    j->k->load_complex(&in, 0, 1, t->n, work, a->swap_in);
    run_tree(j, t, work, ROW, work + t->n * ROW, ROW, &no_twist, NULL);
    j->k->store_complex(&out, 0, 1, t->n, work + t->n * ROW, a->swap_out, a->scale);
  } else if (j->split) {
    ts_cpu_parallel(blocks(j, t->n2), 1, columns_task, (void *)(uintptr_t)a);
    ts_cpu_parallel(blocks(j, t->n1), 1, columns2_task, (void *)(uintptr_t)a);
  } else {
    for (int64_t b = 0; b < blocks(j, t->n2); b++) columns(a, b, work);
    for (int64_t b = 0; b < blocks(j, t->n1); b++) columns2(a, b, work);
  }
}

/* Work memory of the line form: lines, of which line_bytes each, then the matrix, then a
 * stripe. */
enum { LINES = 5 };

typedef struct Bench {
  char *line[LINES], *matrix, *work;
} Bench;

static int64_t line_bytes(const Job *j) {
  return (max64(j->core->m, j->n) + j->lanes) * 2 * j->size / 64 * 64 + 64;
}

static void core_line(Job *j, const Bench *b, const char *in, char *out, int swap_in,
                      int swap_out, double scale) {
  const TsFftPlan *p = j->core;
  Line a = {j, p->root, in, out, b->matrix, swap_in, swap_out, scale};
  if (p->m) {
    char *x = b->line[0], *y = b->line[1];
    j->k->mul_line(in, p->chirp, x, p->n, swap_in, 0, 1);
    memset(x + p->n * 2 * j->size, 0, (size_t)((p->m - p->n) * 2 * j->size));
    a = (Line){j, p->root, x, y, b->matrix, 0, 0, 1};
    tree_line(&a, b->work);
    j->k->mul_line(y, p->kernel, y, p->m, 0, 1, 1);
    a = (Line){j, p->root, y, x, b->matrix, 0, 0, 1};
    tree_line(&a, b->work);
    j->k->mul_line(x, p->chirp, out, p->n, 1, swap_out, scale);
    return;
  }
  tree_line(&a, b->work);
}

static void copy(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                 int size) {
  if (to_step == size && from_step == size) {
    memcpy(to, from, (size_t)(n * size));
    return;
  }
  for (int64_t i = 0; i < n; i++)
    memmove(to + i * to_step, from + i * from_step, (size_t)size);
}

static void half_line(Job *j, const Bench *b, const char *x, char *y, double scale) {
  int size = j->size;
  if (j->n % 2 == 0) {
    core_line(j, b, x, b->line[2], 0, 0, 1);
    j->k->split_line(b->line[2], j->roots->line, y, j->half, scale);
    return;
  }
  memset(b->line[2], 0, (size_t)(j->n * 2 * size));
  copy(b->line[2], 2 * size, x, size, j->n, size);
  core_line(j, b, b->line[2], b->line[2], 0, 0, scale);
  memcpy(y, b->line[2], (size_t)((j->half + 1) * 2 * size));
}

static void real_line(Job *j, const Bench *b, const char *x, char *y, double scale) {
  int size = j->size;
  char *z = b->line[2];
  if (j->n % 2 == 0) {
    j->k->merge_line(x, j->roots->line, z, j->half);
    core_line(j, b, z, y, 0, 1, scale);
    return;
  }
  memcpy(z, x, (size_t)((j->half + 1) * 2 * size));
  memset(z + size, 0, (size_t)size);
  for (int64_t i = 1; i <= j->half; i++) {
    char *to = z + (j->n - i) * 2 * size;
    memcpy(to, x + i * 2 * size, (size_t)(2 * size));
    if (size == 8) ((double *)to)[1] = -((double *)to)[1];
    else ((float *)to)[1] = -((float *)to)[1];
  }
  core_line(j, b, z, z, 1, 1, scale);
  copy(y, size, z, 2 * size, j->n, size);
}

static void dct2_line(Job *j, const Bench *b, const char *x, char *y) {
  int64_t size = j->size, n = j->n;
  char *v = b->line[2], *spectrum = y;
  copy(v, size, x, 2 * size, (n + 1) / 2, j->size);
  for (int64_t i = 0; i < n / 2; i++)
    memcpy(v + (n - 1 - i) * size, x + (2 * i + 1) * size, (size_t)size);
  /* half_line overwrites line 2, so the input of the odd case moves away first. */
  memcpy(y, v, (size_t)(n * size));
  half_line(j, b, y, spectrum, 1);
  j->k->dct2_line(spectrum, j->quarter->line, v, n, j->f->scale, j->f->dc);
  memcpy(y, v, (size_t)(n * size));
}

static void dct3_line(Job *j, const Bench *b, const char *x, char *y) {
  int64_t size = j->size, n = j->n;
  j->k->dct3_line(x, j->quarter->line, y, n, j->f->dc);
  real_line(j, b, y, b->line[2], j->f->scale);
  copy(y, 2 * size, b->line[2], size, (n + 1) / 2, j->size);
  for (int64_t i = 0; i < n / 2; i++)
    memcpy(y + (2 * i + 1) * size, b->line[2] + (n - 1 - i) * size, (size_t)size);
}

/* One transform: through lines 3 and 4 where its memory is not contiguous, or not all
 * there, or too short for a half spectrum in it. */
static void line_transform(Job *j, const Bench *b, int64_t index) {
  int64_t in_off, out_off;
  int in_size = j->real_in ? j->size : 2 * j->size, cosine = j->f->kind >= TS_FFT_dct2;
  int out_size = j->real_out ? j->size : 2 * j->size;
  offsets(j, index, &in_off, &out_off);
  const char *in = (const char *)j->f->in + in_off;
  char *out = (char *)j->f->out + out_off, *y = out;
  if (j->in_step != in_size || j->given < j->wanted) {
    copy(b->line[3], in_size, in, j->in_step, j->given, in_size);
    memset(b->line[3] + j->given * in_size, 0, (size_t)((j->wanted - j->given) * in_size));
    in = b->line[3];
  }
  if (j->out_step != out_size || cosine) y = b->line[4];
  switch (j->f->kind) {
  case TS_FFT_c2c:
    core_line(j, b, in, y, j->f->inverse != 0, j->f->inverse != 0, j->f->scale);
    break;
  case TS_FFT_r2c: half_line(j, b, in, y, j->f->scale); break;
  case TS_FFT_c2r: real_line(j, b, in, y, j->f->scale); break;
  case TS_FFT_dct2: dct2_line(j, b, in, y); break;
  default: dct3_line(j, b, in, y);
  }
  if (y != out) copy(out, j->out_step, y, out_size, j->bins, out_size);
}

static void line_task(void *arg, int64_t lo, int64_t hi, int worker) {
  Job *j = arg;
  (void)worker;
  int64_t line = line_bytes(j), matrix = matrix_rows(j, j->core->root) * ROW;
  char *p = ts_fft_work_take(
      (size_t)(LINES * line + matrix + stripe_rows(j, j->core->root) * ROW));
  if (!p) {
    atomic_store(&j->failed, 1);
    return;
  }
  Bench b = {.matrix = p, .work = p + matrix};
  char *lines = b.work + stripe_rows(j, j->core->root) * ROW;
  for (int i = 0; i < LINES; i++) b.line[i] = lines + i * line;
  for (int64_t i = lo; i < hi; i++) line_transform(j, &b, i);
  ts_fft_work_give(p);
}

/* ---- the batch -------------------------------------------------------------------- */

/* Estimated work a transform. Rows waste missing lanes and, from 128 points, work in L2;
 * lines waste missing columns and copy what is not contiguous. A batch from main memory
 * suits rows: measured 1.7 times faster than lines for 1024 and 4096 points, as a line's
 * stripes are no stream that the prefetcher sees. */
static int rows_are_better(const Job *j) {
  const TsFftNode *t = j->core->root;
  int64_t length = t->n, lanes = j->lanes;
  int along = j->in_step <= 2 * j->size && j->out_step <= 2 * j->size;
  int streams = j->batch * length * 2 * j->size > STREAM;
  if (length > ROWS_MAX) return 0;
  double full = (double)(blocks(j, j->batch) * lanes) / (double)j->batch;
  double rows = full * (length <= 2 * TS_FFT_LEAF ? 1 : length < 4096 ? 1.3 : 1.6);
  if (!along || streams) rows = full * (length <= 8192 ? 0.7 : 1.2);
  double line = (double)lanes;
  if (t->left)
    line = ((double)padded(j, t->n1) / (double)t->n1 +
            (double)padded(j, t->n2) / (double)t->n2) / 2;
  line += 20.0 / (double)length;
  return rows < line;
}

static void run(Job *j) {
  if (rows_are_better(j)) {
    int64_t grain = ROWS_MAX / (j->core->root->n * j->lanes);
    ts_cpu_parallel(blocks(j, j->batch), grain < 1 ? 1 : grain, rows_task, j);
    return;
  }
  int64_t length = j->core->root->n;
  j->split = length >= ROWS_MAX / 2 && j->batch < 4 * ts_cpu_threads();
  if (j->split) line_task(j, 0, j->batch, 0);
  else ts_cpu_parallel(j->batch, max64(1, ROWS_MAX / length), line_task, j);
}

/* The outer axes in bytes, the one of adjacent elements last, so that it makes lanes. */
static int take_outer(Job *j) {
  const TsFft *f = j->f;
  int in = (j->real_in ? 1 : 2) * j->size, out = (j->real_out ? 1 : 2) * j->size, last = -1;
  if (f->nouter < 0 || f->nouter > MAX_OUTER) return 0;
  j->batch = 1;
  j->nouter = f->nouter;
  for (int d = 0; d < f->nouter; d++) {
    if (f->outer_dim[d] < 0) return 0;
    j->batch *= f->outer_dim[d];
    j->dim[d] = f->outer_dim[d];
    j->in_outer[d] = f->in_outer_stride[d] * in;
    j->out_outer[d] = f->out_outer_stride[d] * out;
    if (f->in_outer_stride[d] == 1 && f->outer_dim[d] > 1) last = d;
  }
  if (last < 0) return 1;
  int64_t dim = j->dim[last], a = j->in_outer[last], b = j->out_outer[last];
  for (int d = last; d + 1 < j->nouter; d++) {
    j->dim[d] = j->dim[d + 1];
    j->in_outer[d] = j->in_outer[d + 1];
    j->out_outer[d] = j->out_outer[d + 1];
  }
  j->dim[j->nouter - 1] = dim;
  j->in_outer[j->nouter - 1] = a;
  j->out_outer[j->nouter - 1] = b;
  return 1;
}

static int take_lengths(Job *j) {
  const TsFft *f = j->f;
  int even_real = f->kind != TS_FFT_c2c && f->n % 2 == 0;
  j->n = f->n;
  j->half = f->n / 2;
  j->length = even_real ? j->half : j->n;
  j->real_in = f->kind != TS_FFT_c2c && f->kind != TS_FFT_c2r;
  j->real_out = f->kind != TS_FFT_c2c && f->kind != TS_FFT_r2c;
  j->wanted = f->kind == TS_FFT_c2r ? j->half + 1 : j->n;
  j->given = f->in_n < j->wanted ? f->in_n : j->wanted;
  j->bins = f->kind == TS_FFT_r2c ? j->half + 1 : j->n;
  j->size = f->type == TS_FFT_f64 ? 8 : 4;
  j->lanes = 64 / j->size;
  j->in_step = f->in_stride * (j->real_in ? 1 : 2) * j->size;
  j->out_step = f->out_stride * (j->real_out ? 1 : 2) * j->size;
  return take_outer(j);
}

static int take_plans(Job *j, const TsFftKernels *k) {
  int type = j->f->type, real = j->f->kind != TS_FFT_c2c;
  if (!(j->core = ts_fft_plan_take(type, TS_FFT_TREE, j->length, k))) return 0;
  if (real && j->n % 2 == 0 && !(j->roots = ts_fft_plan_take(type, TS_FFT_ROOTS, j->n, k)))
    return 0;
  return j->f->kind < TS_FFT_dct2 ||
         (j->quarter = ts_fft_plan_take(type, TS_FFT_QUARTER, j->n, k)) != NULL;
}

static int legal(const TsFft *f) {
  return f->n >= 1 && f->n < (int64_t)1 << 40 && f->in_n >= 0 &&
         (f->type == TS_FFT_f32 || f->type == TS_FFT_f64) && f->kind >= TS_FFT_c2c &&
         f->kind <= TS_FFT_dct3;
}

int ts_fft(const TsFft *f, const TsFftKernels *k) {
  if (!legal(f)) return TS_FFT_bad_argument;
  Job j = {.f = f, .k = &k->type[f->type]};
  if (!take_lengths(&j)) return TS_FFT_bad_argument;
  if (j.batch == 0) return TS_FFT_ok;
  if (take_plans(&j, k)) run(&j);
  else atomic_store(&j.failed, 1);
  ts_fft_plan_give(j.core);
  ts_fft_plan_give(j.roots);
  ts_fft_plan_give(j.quarter);
  return j.failed ? TS_FFT_no_memory : TS_FFT_ok;
}

void ts_fft_normalise(TsFft *f, int norm) {
  int cosine = f->kind >= TS_FFT_dct2;
  int plus = f->kind == TS_FFT_c2r || f->kind == TS_FFT_dct3 ||
             (f->kind == TS_FFT_c2c && f->inverse);
  long double n = (long double)f->n * (cosine ? 2 : 1);
  f->scale = f->dc = 1;
  if (norm == TS_FFT_ortho) {
    f->scale = (double)(1 / sqrtl(n));
    if (f->kind == TS_FFT_dct2) f->dc = (double)sqrtl(0.5L);
    if (f->kind == TS_FFT_dct3) f->dc = (double)sqrtl(2);
  } else if (norm == (plus ? TS_FFT_backward : TS_FFT_forward)) {
    f->scale = (double)(1 / n);
  }
}

void ts_fft_clear(void) {
  ts_fft_plan_clear();
  ts_fft_work_clear();
}
