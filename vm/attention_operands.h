/* The tensors of a call of attention, or of its gradient, made ready for the drivers. */
#ifndef TS_VM_ATTENTION_OPERANDS_H
#define TS_VM_ATTENTION_OPERANDS_H

#include "vm/attention.h"
#include "vm/vm.h"

typedef struct TsAttentionOperands {
  TsTensor *q, *k, *v, *mask, *sink;
  int64_t *q_at, *k_at, *v_at, *mask_at;
} TsAttentionOperands;

/* Fills *a, whose dtype is set, but for y, from inputs q k v mask? sink? and options
 * causal window scale; *o, all zeros before, is to be closed in any case. -1 with the
 * error filled. */
int ts_attention_open(TsCall *call, TsAttention *a, TsAttentionOperands *o);
void ts_attention_close(TsAttentionOperands *o);

#endif
