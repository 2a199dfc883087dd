/* Sums over pieces in the canonical tree. An axis that is summed over is cut into leaves; each
 * is summed as if it were alone, and leaves are added pairwise, level by level, an unpaired last
 * one going up as it is. Who has several leaves adds those of his largest complete subtrees and
 * hands on these, unrounded. So the bits depend on the number of leaves alone, not on who has
 * which (docs/numerics.md). */
#ifndef TS_VM_MESH_LEAVES_H
#define TS_VM_MESH_LEAVES_H

#include "lib/shard/shard.h"
#include "vm/core/vm.h"

/* The sum, or other combination, of a subtree. */
typedef struct TsLeafSum {
  int level, place; /* leaves place * 2^level .. of the tree */
  TsTensor *value;
} TsLeafSum;

/* The largest complete subtrees of leaves lo..hi of n: how many; level and place of each. */
int ts_leaves_sums(int n, int lo, int hi, TsLeafSum *sum);
/* Runs one call over leaves lo..hi of the factor f, whose leaves are of this part: part says what
 * the part has of each factor, in[] are its operands. Results that have the factor are joined in
 * out[]; of others sum[o][0..*nsum) are the subtrees. 0 or -1, nothing kept. */
int ts_leaves_run(TsContext *c, const TsShard *s, const TsShardPart *part, int f, int leaves,
                  int lo, int hi, TsTensor *const *in, TsTensor **out,
                  TsLeafSum (*sum)[TS_LEAF_SUMS], int *nsum);
/* The root of the tree of n leaves, on the device of its first value. sum: those of all, in any
 * order; their values go. */
TsTensor *ts_leaves_root(TsContext *c, TsFactorKind kind, int n, int nsum, TsLeafSum *sum);

/* Adds neighbours among these subtrees, as far as both are there; what is left, in the order of their
 * places, is as ts_leaves_sums has it. Values go into their sums. 0 or -1. */
int ts_leaves_fold(TsContext *c, TsFactorKind kind, int n, int *nsum, TsLeafSum *sum);

/* A tensor of summands added up: all devices along the axes that held them have the sums. */
TsTensor *ts_mesh_summed(TsContext *c, TsTensor *t);
struct TsParts;
TsTensor *ts_mesh_summed_parts(TsContext *c, const struct TsParts *of);
/* The same, of which each gets its piece: the sum lies as `to` (ts_layout_scatters). */
TsTensor *ts_mesh_summed_into(TsContext *c, const struct TsParts *of, const TsLayout *to);

#endif
