/* Attention on plain pointers, threaded. What it computes, bit for bit, is defined in
 * vm/drive/attention.c. */
#ifndef TS_VM_ATTENTION_H
#define TS_VM_ATTENTION_H

#include <stdbool.h>

#include "vm/core/kernels.h"

/* Keys and values that lie in pages, [kv_heads][all][size][d], one after the other in a text by
 * a table. Nothing is read that no query of the text, an entry of the batch, sees. */
typedef struct TsAttentionPages {
  TsDtype dtype;            /* of k and v, whose numbers are read as q's */
  const int64_t *table;     /* [batch][count]: each in 0 .. all - 1 */
  int64_t count, size, all; /* pages of a text; keys of a page; pages */
  const int64_t *start;     /* [batch]: the position of query 0 */
  const float *scale[2];    /* [kv_heads][all][size]: of rows of k and v, or NULL */
} TsAttentionPages;

/* Statistics and sums are f32 for f32 and narrower floats, else f64: the wide type.
 * Offsets and strides count elements; the last axis of q, k and v is adjacent. Query
 * heads are numbered through all batches, b * heads + h; head h uses kv head
 * h / (heads / kv_heads) of its batch, and key heads are numbered b * kv_heads + h. */
typedef struct TsAttention {
  TsDtype dtype; /* of q, k, v and y */
  int64_t batch, heads, kv_heads, s, t, d, dv;
  const void *q, *k, *v;
  const int64_t *q_at, *k_at, *v_at; /* of each head */
  int64_t q_step, k_step, v_step;    /* from one row to the next */
  void *y;                           /* [batch][heads][s][dv] */
  const void *bias;                  /* in the wide type, or NULL */
  const uint8_t *seen;               /* or NULL; not both */
  const int64_t *mask_at;            /* of each query head */
  int64_t mask_step;                 /* from one query to the next */
  int mask_key_step;                 /* 1, or 0 for one value for all keys */
  const void *sink;                  /* [heads] in the wide type, or NULL */
  bool causal;
  int64_t place;  /* of query 0 among the keys: t - s, or 0 */
  int64_t window; /* 0: none */
  double scale;
  const TsAttentionPages *pages; /* or NULL; k_at, v_at, steps, place are of keys without */
} TsAttention;

/* 0, or -1 when there is no memory for scratch. */
int ts_attention(const TsAttention *a, const TsKernels *k);

#endif
