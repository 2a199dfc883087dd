/* Attention as a kernel of Tile IR; the bits are those of vm/drive/attention.c. */
#ifndef TS_IR_SCHED_ATTENTION_H
#define TS_IR_SCHED_ATTENTION_H

#include "ir/sched/sched.h"

/* Whether n is attention of sizes and types that the kernel is made for. */
bool ts_sched_is_attention(const TsNode *n);
/* The same of few queries: for a GPU, where the VM has no way to them. */
bool ts_sched_is_decode(const TsNode *n);

/* Whether all that reads n's result looks at it with heads and rows exchanged, to put each
 * row's heads beside each other, and the kernel that writes it so is faster on the target than
 * the VM's with the copy behind it. */
bool ts_sched_transposed(const TsSched *s, const unsigned char *live, const TsNode *n);

/* The window that option says, 0: none, of queries and keys whose positions are below the given
 * number. One that holds all of these and needs 31 bits is none, as kernels add it to positions
 * of 32 bits. Smaller ones stay, so that a kernel is the same for fewer keys than its
 * window. */
int64_t ts_sched_window(const TsAttr *option, int64_t positions);
/* The same of attention n or its gradients. */
int64_t ts_sched_attention_window(const TsNode *n);

/* Why attention is not multiplied by the target's unit of squares; NULL: it is. */
const char *ts_sched_attention_without(const TsSched *s, const TsNode *n);
/* Keys of a block that the unit makes scores of, over which sums of rows are made in turn, for
 * attention n or its gradients. */
int64_t ts_sched_attention_keys(const TsTarget *t, const TsNode *n);

/* Whether n is a gradient of attention of sizes and options that the kernel is made for. */
bool ts_sched_is_attention_grad(const TsNode *n);
/* Parameters of k, which is to make the gradients n: q, k, v, out and its gradient, where the
 * layout has them, and dq, dk, dv, row-major; all [M, heads, rows, numbers]. And the values
 * that they are, in their order; which of the node's operands are read. */
void ts_sched_attention_grad_params(const TsNode *n, TsTile *k, TsLayoutFn *layout, void *arg,
                                    TsTileVal in[5], TsTileVal out[3]);
void ts_sched_attention_grad_values(const TsNode *n, TsVal value[8]);
extern const int ts_sched_attention_grad_reads[5];
int ts_sched_lower_attention_grad(const TsSched *s, const TsGroup *group, TsLayoutFn *layout,
                                  void *arg, TsSchedKernel *out, TsError *err);

/* Rounds 0 .. M * outer * inner of its kernels, as batch, outer and inner. */
TsTileLoop ts_sched_attention_rounds(TsTileBuild *b, int64_t outer, int64_t inner,
                                     TsTileVal at[3]);

/* As ts_sched_lower, of a group of kind attention. */
int ts_sched_lower_attention(const TsSched *s, const TsGroup *group, TsLayoutFn *layout,
                             void *arg, TsSchedKernel *out, TsError *err);

#endif
