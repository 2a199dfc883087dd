/* QR of real matrices by reflections: panels by halves down to what a kernel takes (E. Elmroth and
 * F. Gustavson, "Applying recursion to serial and parallel QR factorization", IBM J. Res. Dev. 44,
 * 2000). */
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/work.h"
#include "vm/blas/factor.h"
#include "vm/blas/reflect.h"

/* r of a in place, and the panel; w: 2 BLAS_WIDE BLAS_WIDE numbers */
static void reflect(Blas *x, const BlasPanel *p, BlasMatrix a, int64_t m, int64_t n, char *w) {
  if (x->failed || ts_cpu_interrupted()) return;
  if (n <= TS_BLAS_REFLECT) {
    x->k->blas.columns[x->type].reflect(m, (int)n, a.p, a.cs, p->v.p, p->v.cs, p->t.p, p->t.cs);
    return;
  }
  int64_t h = blas_panel_half(n), k = n - h;
  BlasPanel right = blas_panel_at(x, p, h);
  reflect(x, p, a, m, h, w);
  blas_panel_apply(x, p, true, m, h, k, blas_at(x, a, 0, h), w);
  reflect(x, &right, blas_at(x, a, h, h), m - h, k, w);
  blas_scale(x, h, k, blas_at(x, p->v, 0, h), blas_zero);
  blas_panel_join(x, p, m, n, h, w);
}

/* Columns of q from those of a panel on, from what the panels behind it left: in them its own are
 * still those of 1, and its rows elsewhere 0. */
static void build(Blas *x, const BlasPanel *p, int64_t m, int64_t n, int64_t cols, BlasMatrix q,
                  char *w) {
  BlasMatrix low = {w, cols, 1, false}, high = {w + n * cols * x->size, cols, 1, false};
  int64_t more = cols - n;
  BlasMatrix behind = blas_transposed(blas_at(x, p->v, n, 0));
  blas_copy(x, n, n, low, blas_transposed(p->v), NULL);
  blas_set_product(x, n, more, m - n, behind, blas_at(x, q, n, n), blas_at(x, low, 0, n));
  blas_set_product(x, n, cols, n, p->t, low, high);
  blas_add_product(x, m, cols, n, p->v, high, q);
}

int64_t ts_factor_qr(TsFactor f, int64_t m, int64_t n, int64_t k, void *a, int64_t lda, void *q,
                     int64_t ldq) {
  Blas x = blas_of(f.k, f.type);
  int64_t least = m < n ? m : n, widest = n > k ? n : k;
  BlasMatrix r = {a, lda, 1, false}, to = {q, ldq, 1, false};
  char *v = blas_take(&x, m * least + 1), *t = blas_take(&x, BLAS_WIDE * least + 1),
       *w = blas_take(&x, 2 * BLAS_WIDE * (widest > BLAS_WIDE ? widest : BLAS_WIDE)),
       *own = blas_take(&x, m * BLAS_WIDE);
  BlasMatrix vs = blas_columns(v, m), ts = blas_columns(t, BLAS_WIDE);
  for (int64_t j = 0; j < least && !x.failed && !ts_cpu_interrupted(); j += BLAS_WIDE) {
    int64_t wide = least - j < BLAS_WIDE ? least - j : BLAS_WIDE;
    BlasMatrix col = blas_columns(own, m);
    BlasPanel p = {blas_at(&x, vs, j, j), blas_at(&x, ts, 0, j)};
    blas_copy(&x, m - j, wide, col, blas_at(&x, r, j, j), NULL);
    reflect(&x, &p, col, m - j, wide, w);
    blas_copy(&x, wide, wide, blas_at(&x, r, j, j), col, NULL);
    blas_panel_apply(&x, &p, true, m - j, wide, n - j - wide, blas_at(&x, r, j, j + wide), w);
  }
  double space[2];
  blas_scale(&x, m, k, to, blas_zero);
  for (int64_t i = 0; i < k; i++)
    memcpy(blas_at(&x, to, i, i).p, blas_number(&x, blas_one, space), (size_t)x.size);
  int64_t last = least ? (least - 1) / BLAS_WIDE * BLAS_WIDE : -1;
  for (int64_t j = last; j >= 0 && !x.failed && !ts_cpu_interrupted(); j -= BLAS_WIDE) {
    int64_t wide = least - j < BLAS_WIDE ? least - j : BLAS_WIDE;
    BlasPanel p = {blas_at(&x, vs, j, j), blas_at(&x, ts, 0, j)};
    build(&x, &p, m - j, wide, k - j, blas_at(&x, to, j, j), w);
  }
  ts_work_give(v), ts_work_give(t), ts_work_give(w), ts_work_give(own);
  return x.failed ? -1 : 0;
}
