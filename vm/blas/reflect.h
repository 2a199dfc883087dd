/* Products of reflections, 1 + v t v', of real matrices. */
#ifndef TS_VM_BLAS_REFLECT_H
#define TS_VM_BLAS_REFLECT_H

#include "vm/blas/matrix.h"

enum { BLAS_WIDE = 64 }; /* columns that meet the rest at once */

typedef struct BlasPanel {
  BlasMatrix v, t; /* as TsBlasReflect has them, by column */
} BlasPanel;

/* c = a b, or c += a b. */
void blas_set_product(Blas *x, int64_t m, int64_t n, int64_t k, BlasMatrix a, BlasMatrix b,
                      BlasMatrix c);
void blas_add_product(Blas *x, int64_t m, int64_t n, int64_t k, BlasMatrix a, BlasMatrix b,
                      BlasMatrix c);

BlasPanel blas_panel_at(const Blas *x, const BlasPanel *p, int64_t at);
/* c, m x cols, reflected by the n columns of a panel, the last one first, or the first one first
 * (turned); w: 2 n cols numbers. */
void blas_panel_apply(Blas *x, const BlasPanel *p, bool turned, int64_t m, int64_t n,
                      int64_t cols, BlasMatrix c, char *w);
/* t of n columns, of which the first h and the others have theirs; w: 2 h (n - h) numbers. */
void blas_panel_join(Blas *x, const BlasPanel *p, int64_t m, int64_t n, int64_t h, char *w);
/* Where halves of n > TS_BLAS_REFLECT columns meet. */
int64_t blas_panel_half(int64_t n);

#endif
