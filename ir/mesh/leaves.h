/* A call over leaves as nodes of a graph: what vm/mesh/leaves.h does at once. */
#ifndef TS_IR_MESH_LEAVES_H
#define TS_IR_MESH_LEAVES_H

#include "ir/compose/build.h"
#include "lib/shard/shard.h"

/* Leaves lo..hi of the factor f, of `leaves`: results that have the factor are joined in out[o];
 * of others sum[o][0..) are the subtrees' sums, as many as it returns. in: the operands of the
 * part. A failure is the build's. */
int ts_leaves_build(TsBuild *b, const TsShard *s, const TsShardPart *part, int f, int leaves,
                    int lo, int hi, const TsVal *in, TsVal *out, TsVal (*sum)[TS_LEAF_SUMS]);
/* x and y, combined as the factor says. */
TsVal ts_leaves_combine(TsBuild *b, TsFactorKind kind, TsVal x, TsVal y);

#endif
