/* Transforms as lines: one in contiguous memory, as a matrix whose columns are lanes. Which
 * form is taken, and why, stands in vm/fft/fft.c. */
#include <stdatomic.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/fft/job.h"

enum { ROW = TS_FFT_ROW };

/* A complex line of the tree's length from in to out; matrix holds matrix_rows. */
typedef struct Line {
  TsFftJob *j;
  const TsFftNode *t;
  const char *in;
  char *out, *matrix;
  int swap_in, swap_out;
  double scale;
} Line;

static int64_t matrix_rows(const TsFftJob *j, const TsFftNode *t) {
  return t->left ? ts_fft_blocks(j, t->n1) * ts_fft_padded(j, t->n2) : 0;
}

static int64_t stripe_rows(const TsFftJob *j, const TsFftNode *t) {
  if (!t->left) return 2 * t->n;
  return ts_fft_padded(j, t->n1) + ts_fft_max(ts_fft_padded(j, t->n1), t->n2) +
         ts_fft_max(ts_fft_tree_rows(t->left), ts_fft_tree_rows(t->right));
}

static TsFftPort stripe(const TsFftJob *j, const char *base, int64_t block, int64_t columns) {
  int64_t left = columns - block * j->lanes;
  TsFftPort p = {.base = (char *)(uintptr_t)base + block * j->lanes * 2 * j->size,
                 .step = columns * 2 * j->size,
                 .valid = INT64_MAX / 2,
                 .adjacent = 1};
  p.lanes = left < j->lanes ? (int)left : j->lanes;
  for (int l = 0; l < p.lanes; l++) p.off[l] = 2 * j->size * l;
  return p;
}

/* n1-point transforms of LANES columns, with the roots, into the transposed matrix:
 * tile (k1 block, t block) is LANES rows, and the tiles of a k1 block follow each other. */
static void columns(const Line *a, int64_t block, char *work) {
  const TsFftJob *j = a->j;
  const TsFftNode *t = a->t;
  TsFftPort in = stripe(j, a->in, block, t->n2);
  TsFftTwist tw = ts_fft_twist_of(j, t, block * j->lanes, 1);
  char *y = work + ts_fft_max(ts_fft_padded(j, t->n1), t->n2) * ROW,
       *tmp = y + ts_fft_padded(j, t->n1) * ROW;
  int64_t tile = (int64_t)j->lanes * ROW, n1 = ts_fft_blocks(j, t->n1),
          n2 = ts_fft_blocks(j, t->n2);
  j->k->load_complex(&in, 0, 1, t->n1, work, a->swap_in);
  ts_fft_run_tree(j, t->left, work, ROW, y, ROW, &tw, tmp);
  for (int64_t b = 0; b < n1; b++)
    j->k->transpose(y + b * tile, a->matrix + (b * n2 + block) * tile);
}

static void columns2(const Line *a, int64_t block, char *work) {
  const TsFftJob *j = a->j;
  const TsFftNode *t = a->t;
  TsFftPort out = stripe(j, a->out, block, t->n1);
  char *x = a->matrix + block * ts_fft_padded(j, t->n2) * ROW;
  char *tmp =
      work + (ts_fft_max(ts_fft_padded(j, t->n1), t->n2) + ts_fft_padded(j, t->n1)) * ROW;
  ts_fft_run_tree(j, t->right, x, ROW, work, ROW, &ts_fft_no_twist, tmp);
  j->k->store_complex(&out, 0, 1, t->n2, work, a->swap_out, a->scale);
}

static void half_task(const Line *a, int64_t lo, int64_t hi,
                      void (*half)(const Line *, int64_t, char *)) {
  char *work = ts_work_take(stripe_rows(a->j, a->t) * ROW);
  if (!work) {
    atomic_store(&a->j->failed, 1);
    return;
  }
  for (int64_t b = lo; b < hi && !ts_cpu_interrupted(); b++) half(a, b, work);
  ts_work_give(work);
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
  TsFftJob *j = a->j;
  const TsFftNode *t = a->t;
  if (!t->left) {
    TsFftPort in = stripe(j, a->in, 0, 1), out = stripe(j, a->out, 0, 1);
    j->k->load_complex(&in, 0, 1, t->n, work, a->swap_in);
    ts_fft_run_tree(j, t, work, ROW, work + t->n * ROW, ROW, &ts_fft_no_twist, NULL);
    j->k->store_complex(&out, 0, 1, t->n, work + t->n * ROW, a->swap_out, a->scale);
  } else if (j->split) {
    ts_cpu_parallel(ts_fft_blocks(j, t->n2), 1, columns_task, (void *)(uintptr_t)a);
    ts_cpu_parallel(ts_fft_blocks(j, t->n1), 1, columns2_task, (void *)(uintptr_t)a);
  } else {
    for (int64_t b = 0; b < ts_fft_blocks(j, t->n2) && !ts_cpu_interrupted(); b++)
      columns(a, b, work);
    for (int64_t b = 0; b < ts_fft_blocks(j, t->n1) && !ts_cpu_interrupted(); b++)
      columns2(a, b, work);
  }
}

/* Work memory of the line form: the matrix, then a stripe, then lines of line_bytes each. */
static int64_t line_bytes(const TsFftJob *j) {
  return (ts_fft_max(j->core->m, j->n) + j->lanes) * 2 * j->size / 64 * 64 + 64;
}

void ts_fft_core_line(TsFftJob *j, const TsFftBench *b, const char *in, char *out, int swap_in,
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

void ts_fft_copy(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                 int size) {
  if (to_step == size && from_step == size) {
    memcpy(to, from, (size_t)(n * size));
    return;
  }
  for (int64_t i = 0; i < n; i++) memmove(to + i * to_step, from + i * from_step, (size_t)size);
}

void ts_fft_half_line(TsFftJob *j, const TsFftBench *b, const char *x, char *y, double scale) {
  int size = j->size;
  if (j->n % 2 == 0) {
    ts_fft_core_line(j, b, x, b->line[2], 0, 0, 1);
    j->k->split_line(b->line[2], j->roots->line, y, j->half, scale);
    return;
  }
  memset(b->line[2], 0, (size_t)(j->n * 2 * size));
  ts_fft_copy(b->line[2], 2 * size, x, size, j->n, size);
  ts_fft_core_line(j, b, b->line[2], b->line[2], 0, 0, scale);
  memcpy(y, b->line[2], (size_t)((j->half + 1) * 2 * size));
}

void ts_fft_real_line(TsFftJob *j, const TsFftBench *b, const char *x, char *y, double scale) {
  int size = j->size;
  char *z = b->line[2];
  if (j->n % 2 == 0) {
    j->k->merge_line(x, j->roots->line, z, j->half);
    ts_fft_core_line(j, b, z, y, 0, 1, scale);
    return;
  }
  memcpy(z, x, (size_t)((j->half + 1) * 2 * size));
  memset(z + size, 0, (size_t)size);
  for (int64_t i = 1; i <= j->half; i++) {
    char *to = z + (j->n - i) * 2 * size;
    memcpy(to, x + i * 2 * size, (size_t)(2 * size));
    if (size == 8)
      ((double *)to)[1] = -((double *)to)[1];
    else
      ((float *)to)[1] = -((float *)to)[1];
  }
  ts_fft_core_line(j, b, z, z, 1, 1, scale);
  ts_fft_copy(y, size, z, 2 * size, j->n, size);
}

static void dct2_line(TsFftJob *j, const TsFftBench *b, const char *x, char *y) {
  int64_t size = j->size, n = j->n;
  char *v = b->line[2], *spectrum = y;
  ts_fft_copy(v, size, x, 2 * size, (n + 1) / 2, j->size);
  for (int64_t i = 0; i < n / 2; i++)
    memcpy(v + (n - 1 - i) * size, x + (2 * i + 1) * size, (size_t)size);
  /* ts_fft_half_line overwrites line 2, so the input of the odd case moves away first. */
  memcpy(y, v, (size_t)(n * size));
  ts_fft_half_line(j, b, y, spectrum, 1);
  j->k->dct2_line(spectrum, j->quarter->line, v, n, j->f->scale, j->f->dc);
  memcpy(y, v, (size_t)(n * size));
}

static void dct3_line(TsFftJob *j, const TsFftBench *b, const char *x, char *y) {
  int64_t size = j->size, n = j->n;
  j->k->dct3_line(x, j->quarter->line, y, n, j->f->dc);
  ts_fft_real_line(j, b, y, b->line[2], j->f->scale);
  ts_fft_copy(y, 2 * size, b->line[2], size, (n + 1) / 2, j->size);
  for (int64_t i = 0; i < n / 2; i++)
    memcpy(y + (2 * i + 1) * size, b->line[2] + (n - 1 - i) * size, (size_t)size);
}

const char *ts_fft_line_in(const TsFftJob *j, const TsFftBench *b, const char *in) {
  int size = j->real_in ? j->size : 2 * j->size;
  if (j->in_step == size && j->given == j->wanted) return in;
  ts_fft_copy(b->line[3], size, in, j->in_step, j->given, size);
  memset(b->line[3] + j->given * size, 0, (size_t)((j->wanted - j->given) * size));
  return b->line[3];
}

/* One transform: through lines 3 and 4 where its memory is not contiguous, or not all
 * there, or too short for a half spectrum in it. */
static void line_transform(TsFftJob *j, const TsFftBench *b, int64_t index) {
  int64_t in_off, out_off;
  int cosine = j->f->kind >= TS_FFT_dct2;
  int out_size = j->real_out ? j->size : 2 * j->size;
  ts_fft_offsets(j, index, &in_off, &out_off);
  const char *in = ts_fft_line_in(j, b, (const char *)j->f->in + in_off);
  char *out = (char *)j->f->out + out_off, *y = out;
  if (j->out_step != out_size || cosine) y = b->line[4];
  switch (j->f->kind) {
  case TS_FFT_c2c:
    ts_fft_core_line(j, b, in, y, j->f->inverse != 0, j->f->inverse != 0, j->f->scale);
    break;
  case TS_FFT_r2c: ts_fft_half_line(j, b, in, y, j->f->scale); break;
  case TS_FFT_c2r: ts_fft_real_line(j, b, in, y, j->f->scale); break;
  case TS_FFT_dct2: dct2_line(j, b, in, y); break;
  default: dct3_line(j, b, in, y);
  }
  if (y != out) ts_fft_copy(out, j->out_step, y, out_size, j->bins, out_size);
}

int ts_fft_bench_take(TsFftJob *j, TsFftBench *b) {
  int64_t line = line_bytes(j), matrix = matrix_rows(j, j->core->root) * ROW;
  int64_t stripes = stripe_rows(j, j->core->root) * ROW;
  b->matrix = ts_work_take(TS_FFT_LINES * line + matrix + stripes);
  if (!b->matrix) {
    atomic_store(&j->failed, 1);
    return 0;
  }
  b->work = b->matrix + matrix;
  for (int i = 0; i < TS_FFT_LINES; i++) b->line[i] = b->work + stripes + i * line;
  return 1;
}

void ts_fft_bench_give(TsFftBench *b) { ts_work_give(b->matrix); }

void ts_fft_line_task(void *arg, int64_t lo, int64_t hi, int worker) {
  TsFftJob *j = arg;
  TsFftBench b;
  (void)worker;
  if (!ts_fft_bench_take(j, &b)) return;
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) line_transform(j, &b, i);
  ts_fft_bench_give(&b);
}
