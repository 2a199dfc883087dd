/* Panels of reflections, each with the triangle that makes one product of them (R. Schreiber and C.
 * Van Loan, "A storage-efficient WY representation for products of Householder transformations",
 * SIAM J. Sci. Stat. Comput. 10, 1989). */
#include "vm/blas/reflect.h"

void blas_add_product(Blas *x, int64_t m, int64_t n, int64_t k, BlasMatrix a, BlasMatrix b,
                      BlasMatrix c) {
  double space[2];
  blas_product(x, m, n, k, blas_number(x, blas_one, space), a, b, c);
}

void blas_set_product(Blas *x, int64_t m, int64_t n, int64_t k, BlasMatrix a, BlasMatrix b,
                      BlasMatrix c) {
  blas_scale(x, m, n, c, blas_zero);
  blas_add_product(x, m, n, k, a, b, c);
}

BlasPanel blas_panel_at(const Blas *x, const BlasPanel *p, int64_t at) {
  return (BlasPanel){blas_at(x, p->v, at, at), blas_at(x, p->t, at, at)};
}

int64_t blas_panel_half(int64_t n) {
  return (n / 2 + TS_BLAS_REFLECT - 1) / TS_BLAS_REFLECT * TS_BLAS_REFLECT;
}

void blas_panel_apply(Blas *x, const BlasPanel *p, bool turned, int64_t m, int64_t n,
                      int64_t cols, BlasMatrix c, char *w) {
  BlasMatrix low = {w, cols, 1, false}, high = {w + n * cols * x->size, cols, 1, false};
  blas_set_product(x, n, cols, m, blas_transposed(p->v), c, low);
  blas_set_product(x, n, cols, n, turned ? blas_transposed(p->t) : p->t, low, high);
  blas_add_product(x, m, cols, n, p->v, high, c);
}

void blas_panel_join(Blas *x, const BlasPanel *p, int64_t m, int64_t n, int64_t h, char *w) {
  int64_t k = n - h;
  BlasPanel right = blas_panel_at(x, p, h);
  BlasMatrix t = blas_at(x, p->t, 0, h), sums = {w, k, 1, false},
             some = {w + h * k * x->size, k, 1, false};
  blas_scale(x, k, h, blas_at(x, p->t, h, 0), blas_zero);
  blas_set_product(x, h, k, m - h, blas_transposed(blas_at(x, p->v, h, 0)), right.v, sums);
  blas_set_product(x, h, k, k, sums, right.t, some);
  blas_set_product(x, h, k, h, p->t, some, t);
}
