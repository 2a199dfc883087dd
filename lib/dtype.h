/* Element types: names, sizes, kinds, promotion. The table is lib/dtypes.def. */
#ifndef TS_LIB_DTYPE_H
#define TS_LIB_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/error.h"

typedef enum TsDtype {
#define DT(name, bytes, kind, block, compute, accum, npy, st, help) TS_DT_##name,
#include "lib/dtypes.def"
#undef DT
  TS_DT_COUNT,
  TS_DT_none = TS_DT_COUNT
} TsDtype;

/* Kinds, also as the letters of an operator row's TYPES column. */
enum {
  TS_KIND_B = 1,
  TS_KIND_U = 2,
  TS_KIND_I = 4,
  TS_KIND_F = 8,
  TS_KIND_C = 16,
  TS_KIND_X = 32
};

typedef struct TsDtypeInfo {
  const char *name;
  uint8_t nbytes; /* of one element, or of one block */
  uint8_t kind;
  uint16_t block;  /* elements that lie together in nbytes; 1, or of kind X more */
  uint8_t compute; /* the type in which pointwise kernels calculate */
  uint8_t accum;   /* the type of sums */
  const char *npy, *safetensors, *help;
} TsDtypeInfo;

extern const TsDtypeInfo ts_dtypes[TS_DT_COUNT];

/* Elements of a block, and bytes, at most. */
enum { TS_BLOCK_MOST = 256, TS_BLOCK_NBYTES_MOST = 255 };

static inline bool ts_dtype_is(TsDtype d, int kinds) {
  return (ts_dtypes[d].kind & kinds) != 0;
}
static inline const char *ts_dtype_name(TsDtype d) {
  return d < TS_DT_COUNT ? ts_dtypes[d].name : "none";
}

/* Stored in blocks along the last axis: a storage format, whose elements nothing moves one by one. */
static inline bool ts_dtype_in_blocks(int d) {
  return d < TS_DT_COUNT && ts_dtypes[d].block > 1;
}

/* Bytes of n elements in a row, or of a stride of n elements; whole blocks of them. */
static inline int64_t ts_dtype_nbytes(TsDtype d, int64_t n) {
  return ts_dtype_in_blocks(d) ? n / ts_dtypes[d].block * ts_dtypes[d].nbytes
                               : n * ts_dtypes[d].nbytes;
}

/* The type by its name (also float32, int64, bfloat16, ... as NumPy and PyTorch
 * say them), or TS_DT_none. */
TsDtype ts_dtype_parse(const char *name, int len);

/* The type in which values of both can be combined (Array API's table, with
 * integer + float -> the float as in PyTorch). Symmetric, associative within a
 * kind. TS_DT_none if there is none (what is stored in blocks with anything else). */
TsDtype ts_dtype_promote(TsDtype a, TsDtype b);

TsDtype ts_dtype_real(TsDtype d);    /* complex64 -> f32, complex128 -> f64, else d */
TsDtype ts_dtype_complex(TsDtype d); /* f64 -> complex128, other reals -> complex64 */
TsDtype ts_dtype_float(TsDtype d);   /* bool and integers -> f32, else d */

/* bool 0, integers 1, floats 2, complex 3: what a value may be stored as without
 * losing its kind is of its rank or a higher one. */
int ts_dtype_rank(TsDtype d);

/* Least and greatest value of a bool or integer type. */
void ts_dtype_int_range(TsDtype d, int64_t *lo, int64_t *hi);

/* The number as an element of the type stores it: rounded once, the real part of complex types.
 * Integers must hold it. */
double ts_dtype_stored(TsDtype d, double value);

/* Whether bool and integers hold a number that an operator is given; other types round it. -1
 * with the error filled. */
int ts_dtype_check_number(TsDtype d, double value, const char *op, TsError *err);

#endif
