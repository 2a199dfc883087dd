/* The rules of the column `shard` of lib/ops.def: how calls are done in parts (lib/shard/shard.h). */
#ifndef TS_LIB_SHARD_RULES_H
#define TS_LIB_SHARD_RULES_H

#include "lib/op.h"

/* lib/shard/shard.c: rules that many rows share */
TsShardRule ts_shard_whole;     /* chosen: each device does all of it */
TsShardRule ts_shard_pointwise; /* every axis of the result, and what is broadcast to it */
TsShardRule ts_shard_others; /* all axes but the one that `axis` names, of inputs and results of
                                 the rank of the first input */
TsShardRule ts_shard_reshard; /* as the option says */
TsShardRule ts_shard_besides; /* all axes but those of the list `axis` or `axes`; none: all */
TsShardRule ts_shard_kept;    /* axes of the first input that the result has, of equal size */
/* lib/shard/shape.c: views, and what is cut out or put in */
TsShardRule ts_shard_reshape, ts_shard_permute, ts_shard_expand, ts_shard_slice,
    ts_shard_narrow, ts_shard_select, ts_shard_slice_update, ts_shard_fold, ts_shard_pad,
    ts_shard_repeat, ts_shard_triangle, ts_shard_barrier;
/* lib/shard/index.c: elements by their places; random ones */
TsShardRule ts_shard_one_hot, ts_shard_gather, ts_shard_scatter, ts_shard_take,
    ts_shard_index_select, ts_shard_index_add, ts_shard_embedding, ts_shard_segment,
    ts_shard_dropout, ts_shard_categorical, ts_shard_route_rows, ts_shard_spmm, ts_shard_sddmm;
/* lib/shard/reduce.c */
/* by `axis`, of those that are reduced the first is summed in parts */
TsShardRule ts_shard_reduce;
/* lib/shard/linalg.c */
TsShardRule ts_shard_matmul, ts_shard_grouped_matmul, ts_shard_quantized_matmul,
    ts_shard_experts_linear, ts_shard_grouped_matmul_weight_grad, ts_shard_matrices,
    ts_shard_solution, ts_shard_filter;
/* lib/shard/conv.c: convolutions and what else works on images */
TsShardRule ts_shard_conv, ts_shard_conv_transpose, ts_shard_conv_weight_grad, ts_shard_images;
/* lib/shard/nn.c: other layers, losses, steps of optimisers */
TsShardRule ts_shard_norm, ts_shard_norm_grad, ts_shard_rope, ts_shard_attention,
    ts_shard_paged_attention, ts_shard_attention_grad, ts_shard_lstm_grad,
    ts_shard_cross_entropy, ts_shard_step;

#endif
