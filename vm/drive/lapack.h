/* The LAPACK routines we call, for the four types, through void pointers: s f32,
 * d f64, c complex64, z complex128. The trailing size_t are gfortran's hidden
 * lengths of the character arguments. LAPACK counts with 32-bit integers. */
#ifndef TS_VM_LAPACK_H
#define TS_VM_LAPACK_H

#include <stddef.h>

#define TS_LAPACK_FOUR(X, name, ...)                                                           \
  X(s##name##_, __VA_ARGS__)                                                                   \
  X(d##name##_, __VA_ARGS__) X(c##name##_, __VA_ARGS__) X(z##name##_, __VA_ARGS__)
#define TS_LAPACK_DECLARE(name, ...) void name(__VA_ARGS__);
#define DECLARE(name, ...)           TS_LAPACK_FOUR(TS_LAPACK_DECLARE, name, __VA_ARGS__)

typedef const char *TsChar;
typedef const int *TsInt;

DECLARE(geqrf, TsInt m, TsInt n, void *a, TsInt lda, void *tau, void *work, TsInt lwork,
        int *info)
DECLARE(gemm, TsChar ta, TsChar tb, TsInt m, TsInt n, TsInt k, const void *alpha, const void *a,
        TsInt lda, const void *b, TsInt ldb, const void *beta, void *c, TsInt ldc, size_t,
        size_t)
#undef DECLARE

#define DECLARE2(real, complex, ...)                                                           \
  void s##real##_(__VA_ARGS__);                                                                \
  void d##real##_(__VA_ARGS__);                                                                \
  void c##complex##_(__VA_ARGS__);                                                             \
  void z##complex##_(__VA_ARGS__);
DECLARE2(orgqr, ungqr, TsInt m, TsInt n, TsInt k, void *a, TsInt lda, const void *tau,
         void *work, TsInt lwork, int *info)
#undef DECLARE2

#define DECLARE_REAL(name, ...)                                                                \
  void s##name##_(__VA_ARGS__);                                                                \
  void d##name##_(__VA_ARGS__);
#define DECLARE_COMPLEX(name, ...)                                                             \
  void c##name##_(__VA_ARGS__);                                                                \
  void z##name##_(__VA_ARGS__);
DECLARE_REAL(gesdd, TsChar jobz, TsInt m, TsInt n, void *a, TsInt lda, void *s, void *u,
             TsInt ldu, void *vt, TsInt ldvt, void *work, TsInt lwork, int *iwork, int *info,
             size_t)
DECLARE_COMPLEX(gesdd, TsChar jobz, TsInt m, TsInt n, void *a, TsInt lda, void *s, void *u,
                TsInt ldu, void *vt, TsInt ldvt, void *work, TsInt lwork, void *rwork,
                int *iwork, int *info, size_t)
DECLARE_REAL(stedc, TsChar compz, TsInt n, void *d, void *e, void *z, TsInt ldz, void *work,
             TsInt lwork, int *iwork, TsInt liwork, int *info, size_t)
DECLARE_REAL(syevd, TsChar jobz, TsChar uplo, TsInt n, void *a, TsInt lda, void *w, void *work,
             TsInt lwork, int *iwork, TsInt liwork, int *info, size_t, size_t)
DECLARE_COMPLEX(heevd, TsChar jobz, TsChar uplo, TsInt n, void *a, TsInt lda, void *w,
                void *work, TsInt lwork, void *rwork, TsInt lrwork, int *iwork, TsInt liwork,
                int *info, size_t, size_t)
DECLARE_REAL(geev, TsChar jobvl, TsChar jobvr, TsInt n, void *a, TsInt lda, void *re, void *im,
             void *vl, TsInt ldvl, void *vr, TsInt ldvr, void *work, TsInt lwork, int *info,
             size_t, size_t)
DECLARE_COMPLEX(geev, TsChar jobvl, TsChar jobvr, TsInt n, void *a, TsInt lda, void *values,
                void *vl, TsInt ldvl, void *vr, TsInt ldvr, void *work, TsInt lwork,
                void *rwork, int *info, size_t, size_t)
#undef DECLARE_REAL
#undef DECLARE_COMPLEX

#endif
