/* Types of tensors without their data: dtype and sizes, broadcasting, text. */
#ifndef TS_LIB_SHAPE_H
#define TS_LIB_SHAPE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/dtype.h"
#include "lib/error.h"

enum { TS_MAX_RANK = 12 };

typedef struct TsMeta {
  uint8_t dtype;
  uint8_t ndim;
  uint8_t weak;   /* a bare number (TsWeak): it takes the dtype of the tensors around it */
  uint8_t device; /* index of the device that the tensor belongs to */
  uint16_t layout; /* how it is spread over a mesh (lib/mesh.h); 0: it is not */
  int64_t dim[TS_MAX_RANK];
} TsMeta;

/* -0.0 is a whole number to the type rules, as 0 is, so that integers stay integers; but only
 * f64 can store its sign. */
typedef enum TsWeak { TS_WEAK_no, TS_WEAK_number, TS_WEAK_minus_zero } TsWeak;

/* The type of a bare number: of what is whole i64, else f64. */
TsMeta ts_meta_number(double value);

static inline int64_t ts_meta_numel(const TsMeta *m) {
  int64_t n = 1;
  for (int i = 0; i < m->ndim; i++) n *= m->dim[i];
  return n;
}

static inline int64_t ts_meta_nbytes(const TsMeta *m) {
  return ts_dtype_nbytes((TsDtype)m->dtype, ts_meta_numel(m));
}

static inline bool ts_meta_same_shape(const TsMeta *a, const TsMeta *b) {
  if (a->ndim != b->ndim) return false;
  for (int i = 0; i < a->ndim; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

/* Steps between neighbours along each axis where elements lie row by row; a size of 0 counts
 * as 1. */
void ts_shape_strides(int n, const int64_t *dim, int64_t *stride);
/* Whether they are such. Axes of one element lie anyhow, and so does what has no elements. */
bool ts_shape_row_major(int n, const int64_t *dim, const int64_t *stride);
/* Axes of one element get the strides that they would have row by row. */
void ts_shape_settle(int n, const int64_t *dim, int64_t *stride);
static inline void ts_meta_strides(const TsMeta *m, int64_t *stride) {
  ts_shape_strides(m->ndim, m->dim, stride);
}
static inline bool ts_meta_row_major(const TsMeta *m, const int64_t *stride) {
  return ts_shape_row_major(m->ndim, m->dim, stride);
}

/* "f32[2,3]"; the buffer is returned for use in messages. */
enum { TS_META_TEXT = 160 };
const char *ts_meta_text(const TsMeta *m, char buffer[TS_META_TEXT]);

/* out = a broadcast with b (NumPy's rule: sizes aligned at the right, equal or
 * one of them 1). -1 if they do not fit; out may be a or b. dtype untouched. */
int ts_meta_broadcast(const TsMeta *a, const TsMeta *b, TsMeta *out);

/* Checks that the element count of dim fits memory arithmetic (below 2^62
 * bytes); fills the error otherwise. */
int ts_meta_check_size(const TsMeta *m, const char *what, TsError *err);

#endif
