/* Calls of one device over leaves, so that the bits are those of a mesh: vm/mesh/leaves.h. */
#include <string.h>

#include "lib/shard/shard.h"
#include "vm/mesh/call.h"
#include "vm/mesh/define.h"
#include "vm/mesh/leaves.h"

static TsTensor *rounded(TsContext *c, TsTensor *x, TsDtype d) {
  if (!x || ts_tensor_dtype(x) == d) return x;
  TsAttr a = ts_attr_dtype(d);
  TsTensor *y = ts_vm_call1(c, TS_OP_cast, 1, &x, &a);
  ts_tensor_unref(x);
  return y;
}

static int run(TsCall *call, const TsShard *s, int f, int leaves) {
  TsLeafSum sum[TS_MAX_OUT][TS_LEAF_SUMS];
  TsShardPart part;
  TsTensor *out[TS_MAX_OUT];
  int nsum = 0, failed = 0;
  for (int i = 0; i < s->nfactor; i++) part.start[i] = 0, part.count[i] = s->factor[i].size;
  if (ts_leaves_run(call->ctx, s, &part, f, leaves, 0, leaves, call->in, out, sum, &nsum))
    return -1;
  for (int o = 0; o < call->nout; o++) {
    if (ts_shard_axis(s, o, f) >= 0) {
      call->out[o] = out[o];
      continue;
    }
    TsTensor *y = ts_leaves_root(call->ctx, s->factor[f].kind, leaves, nsum, sum[o]);
    call->out[o] = rounded(call->ctx, y, (TsDtype)s->out[o].dtype);
    failed |= !call->out[o];
  }
  return failed ? -1 : 1;
}

int ts_leaves_call(TsCall *call, const TsMeta *out) {
  TsContext *c = call->ctx;
  const TsOpInfo *o = ts_op_info(call->op);
  if (o->cls != TS_CLASS_REDUCE && o->cls != TS_CLASS_KERNEL) return 0;
  if (!call->attr || call->nin > TS_MAX_IN)
    return 0; /* of a list of any length nothing is summed */
  int done = ts_mesh_define(call, out), leaves = c->leaves, f;
  if (done) return done;
  const TsMeta *meta[TS_MAX_IN];
  int8_t axis[TS_MAX_IN][TS_MAX_RANK];
  for (int i = 0; i < call->nin; i++) meta[i] = call->in[i] ? &call->in[i]->meta : NULL;
  TsShard s = {.op = call->op,
               .nin = call->nin,
               .nout = call->nout,
               .in = meta,
               .out = out,
               .attr = call->attr,
               .in_axis = axis,
               .err = &c->err};
  memset(axis, TS_WHOLE, sizeof axis);
  memset(s.out_axis, TS_WHOLE, sizeof s.out_axis);
  o->shard(&s);
  if (!ts_shard_leaves(&s, NULL, leaves, &f)) return 0;
  c->leaves = 0;
  done = run(call, &s, f, leaves);
  c->leaves = leaves;
  return done;
}
