/* BLAS for the LAPACK that is linked: its routines by their Fortran names (names.c), on our matrix
 * product, so that LAPACK's blocked and recursive algorithms run at its speed and give the same
 * bits for any number of threads and any instruction set. Only what LAPACK calls, which checks the
 * arguments; what it needs beside comes from the reference BLAS.
 *
 * Sums. C = beta C + alpha A B is one chain of fma for each element that begins at beta C, k
 * ascending, with alpha A (alpha B where B is smaller) rounded before; alpha is 1 or -1 nearly
 * always, and that is exact. Triangles and symmetric matrices are cut in halves down to a block,
 * off whose diagonal there are products. */
#ifndef TS_VM_BLAS_H
#define TS_VM_BLAS_H

#include <setjmp.h>

#include "vm/core/kernels.h"

/* What ends a routine of LAPACK on this thread: jumps to `out` with these. */
enum { TS_BLAS_INTERRUPTED = 1, TS_BLAS_NO_MEMORY = 2 };

/* From here to ts_blas_end this thread may call LAPACK: interrupts leave it by a jump to out
 * (devices/cpu_pool.h), and so does memory that is not there. */
void ts_blas_begin(const TsKernels *k, sigjmp_buf *out);
void ts_blas_end(void);

#endif
