/* The gradients of attention on plain pointers, threaded. What they are, bit for bit, is
 * defined in vm/drive/attention_grad.c. */
#ifndef TS_VM_ATTENTION_GRAD_H
#define TS_VM_ATTENTION_GRAD_H

#include "vm/drive/attention.h"

/* Arrays of a.dtype but for sink's; results are row-major. out and g lie as q does: each head at
 * its offset, rows a step apart, the last axis adjacent. */
typedef struct TsAttentionGrad {
  TsAttention a;                /* the call; y is not used */
  const void *out, *g;          /* [batch][heads][s][dv] */
  const int64_t *out_at, *g_at; /* of each query head */
  int64_t out_step, g_step;
  void *dq, *dk, *dv; /* [batch][heads][s][d], [batch][kv_heads][t][d], [..][t][dv] */
  void *scores;       /* [batch][heads][s][t], or NULL */
  void *sink;         /* [heads] in the wide type, or NULL */
} TsAttentionGrad;

/* 0, or -1 when there is no memory for scratch. */
int ts_attention_grad(const TsAttentionGrad *g, const TsKernels *k);

#endif
