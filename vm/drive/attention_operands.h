/* The tensors of a call of attention, or of its gradient, made ready for the drivers. */
#ifndef TS_VM_ATTENTION_OPERANDS_H
#define TS_VM_ATTENTION_OPERANDS_H

#include "vm/drive/attention.h"
#include "vm/core/vm.h"

typedef struct TsAttentionOperands {
  TsTensor *q, *k, *v, *mask, *sink;
  int64_t *q_at, *k_at, *v_at, *mask_at;
} TsAttentionOperands;

/* Element offsets of x's matrices, its last two axes; x broadcasts to lead, `count` matrices in
 * all. For ts_work_give; NULL: out of memory. */
int64_t *ts_attention_offsets(const TsTensor *x, const TsMeta *lead, int64_t count);
/* x with an adjacent last axis. */
TsTensor *ts_attention_adjacent(TsContext *c, TsTensor *x);

/* Fills *a, whose dtype is set, but for y, from inputs q k v mask? sink? and options
 * causal window scale; *o, all zeros before, is to be closed in any case. -1 with the
 * error filled. */
int ts_attention_open(TsCall *call, TsAttention *a, TsAttentionOperands *o);
void ts_attention_close(TsAttentionOperands *o);

#endif
