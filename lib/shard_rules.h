/* The rules of the column `shard` of lib/ops.def: how calls are done in parts (lib/shard.h). */
#ifndef TS_LIB_SHARD_RULES_H
#define TS_LIB_SHARD_RULES_H

#include "lib/op.h"

/* lib/shard.c: rules that many rows share */
TsShardRule ts_shard_whole;     /* chosen: each device does all of it */
TsShardRule ts_shard_pointwise; /* every axis of the result, and what is broadcast to it */
TsShardRule ts_shard_others;    /* all axes but the one that `axis` names, of inputs and results of
                                   the rank of the first input */
TsShardRule ts_shard_reshard; /* as the option says */
/* lib/shard_reduce.c */
TsShardRule ts_shard_reduce; /* by `axis`, of those that are reduced the first is summed in parts */
/* lib/shard_linalg.c */
TsShardRule ts_shard_matmul;

#endif
