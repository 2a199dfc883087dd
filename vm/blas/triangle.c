/* Systems and products of triangles: halves down to blocks, whose rows go through a kernel. */
#include "devices/cpu_pool.h"
#include "vm/blas/matrix.h"

enum { COLUMNS = 64, WORDS = TS_BLAS_BLOCK * TS_BLAS_BLOCK * 2 };

static void block(const Blas *x, const BlasTriangle *t, int64_t n, int64_t cols, BlasMatrix b) {
  double own[WORDS], strip[TS_BLAS_BLOCK * COLUMNS * 2];
  TsBlasTriangle *run = (t->solve ? x->k->blas.solve : x->k->blas.multiply)[x->type];
  BlasMatrix to = {(char *)own, TS_BLAS_BLOCK, 1, false};
  int64_t size = x->size;
  blas_copy(x, n, n, to, t->t, NULL);
  if (b.cs == 1) return run((int)n, cols, own, t->upper, t->unit, b.p, b.rs);
  for (int64_t c = 0; c < cols; c += COLUMNS) {
    int64_t some = cols - c < COLUMNS ? cols - c : COLUMNS;
    char *part = blas_at(x, b, 0, c).p;
    x->k->copy.transpose(n, some, strip, COLUMNS * size, part, b.cs * size, x->size, 0);
    run((int)n, some, own, t->upper, t->unit, strip, COLUMNS);
    x->k->copy.transpose(some, n, part, b.cs * size, strip, COLUMNS * size, x->size, 0);
  }
}

void blas_triangle(Blas *x, BlasTriangle t, int64_t n, int64_t cols, BlasMatrix b) {
  if (n <= 0 || cols <= 0 || x->failed || ts_cpu_interrupted()) return;
  if (n <= TS_BLAS_BLOCK) return block(x, &t, n, cols, b);
  int64_t h = (n / 2 + TS_BLAS_BLOCK - 1) / TS_BLAS_BLOCK * TS_BLAS_BLOCK;
  double space[2];
  const void *sign = blas_number(x, t.solve ? blas_minus_one : blas_one, space);
  BlasTriangle low = t; /* of the rows behind the first half */
  low.t = blas_at(x, t.t, h, h);
  BlasMatrix b2 = blas_at(x, b, h, 0),
             corner = blas_at(x, t.t, t.upper ? 0 : h, t.upper ? h : 0);
  bool behind =
      t.upper == t.solve; /* the first half reads the second one, or is read by it later */
  if (behind)
    blas_triangle(x, low, n - h, cols, b2);
  else
    blas_triangle(x, t, h, cols, b);
  if (t.upper)
    blas_product(x, h, cols, n - h, sign, corner, b2, b);
  else
    blas_product(x, n - h, cols, h, sign, corner, b, b2);
  if (behind)
    blas_triangle(x, t, h, cols, b);
  else
    blas_triangle(x, low, n - h, cols, b2);
}
