/* Calls that the CPU runs while their kernels are compiled in the background.
 *
 * A kernel takes 20 ms to half a second from its Tile IR to the GPU, most of it in the driver's
 * compiler, and what a call waits for is not its kernel but its result. Where both have the
 * same bits and the CPU needs a fraction of that time, it runs the call, over fetched bytes, as
 * it runs what has no kernel. Each such call costs at most BUDGET_NS more than its kernel
 * would, and they end when the kernel is there. The steps of a kernel that is several are
 * compiled side by side. Rejected: a second, quicker kernel for each operator (the driver needs
 * 5 to 13 ms for one that is empty, and there would be twice as many to test). */
#include "jit/eager/state.h"
#include "jit/launch/profile.h"

static const double BUDGET_NS = 5e6, BYTE_NS = 0.2, PRODUCT_NS = 0.2;
/* Of the interpreter. What attention stands in for takes the compiler far longer. */
static const double UNIT_NS = 0.45, TILE_NS = 10, SCORE_NS = 20;
static const double STAND_NS = 20e6, STAND_ATTENTION_NS = 100e6;

static double numel(const TsTensor *t) { return t ? (double)ts_tensor_numel(t) : 0; }

/* Products of 16 bits are sums in another order on a matrix unit. */
static bool is_narrow(const TsTensor *t) {
  return t && ts_dtype_is((TsDtype)t->meta.dtype, TS_KIND_F | TS_KIND_X) &&
         ts_dtypes[t->meta.dtype].nbytes < 4;
}

static double rest(const TsTensor *t, int axis) {
  double d = axis < t->meta.ndim ? (double)t->meta.dim[axis] : 1;
  return d > 0 ? numel(t) / d : 0;
}

/* Of each query: of pages, those of its list. */
static double keys_of(const TsCall *c) {
  const TsTensor *k = c->in[1];
  double lists = c->op == TS_OP_paged_attention ? rest(c->in[3], 0) : 1;
  return k->meta.ndim > 1 ? lists * (double)k->meta.dim[k->meta.ndim - 2] : 1;
}

/* Multiply-adds of a call; 0: it has none. */
static double products_of(const TsCall *c) {
  const TsTensor *a = c->in[0], *b = c->nin > 1 ? c->in[1] : NULL;
  if (!a || !b) return 0;
  switch (c->op) {
  case TS_OP_matmul: return numel(c->out[0]) * (double)a->meta.dim[a->meta.ndim - 1];
  case TS_OP_grouped_matmul: return numel(c->out[0]) * (double)a->meta.dim[a->meta.ndim - 1];
  case TS_OP_grouped_matmul_weight_grad:
    return numel(a) * (double)b->meta.dim[b->meta.ndim - 1];
  case TS_OP_attention:
  case TS_OP_paged_attention: return 2 * numel(a) * keys_of(c);
  case TS_OP_attention_grad: return 7 * numel(a) * keys_of(c);
  case TS_OP_conv1d:
  case TS_OP_conv2d:
  case TS_OP_conv3d: return numel(c->out[0]) * rest(b, 0);
  case TS_OP_conv_transpose: return numel(a) * rest(b, 0);
  case TS_OP_conv_weight_grad: return numel(c->out[0]) * rest(b, 1);
  default: return 0;
  }
}

/* Per element of operands and results. */
static double element_ns(const TsCall *c) { return ts_op_info(c->op)->slow ? 50 : 3; }

static double call_ns(const TsCall *c, double products) {
  double ns = products * PRODUCT_NS, each = products ? 0 : element_ns(c);
  for (int i = 0; i < c->nin + c->nout; i++) {
    const TsTensor *t = i < c->nin ? c->in[i] : c->out[i - c->nin];
    if (t) ns += numel(t) * each + (double)ts_meta_nbytes(&t->meta) * BYTE_NS;
  }
  return ns;
}

static bool is_narrow_call(const TsCall *c) {
  for (int i = 0; i < c->nin; i++)
    if (is_narrow(c->in[i])) return true;
  return false;
}

static bool is_brief_call(const TsOffloader *o, const TsCall *c) {
  double products = products_of(c);
  if (o->c->profile == TS_PROFILE_fast) return false;
  if (products && is_narrow_call(c)) return false;
  return call_ns(c, products) < BUDGET_NS;
}

/* Who measures kernels, or wants them at once, waits for them. */
bool ts_offload_defers(const TsOffloader *o) {
  return o->launches.prepares || (o->later && !o->eager && !ts_profile_on());
}

bool ts_offload_brief(const TsOffloader *o) {
  const Meanwhile *m = &o->at;
  if (!ts_offload_defers(o) || o->launches.prepares) return false;
  if (m->call) return is_brief_call(o, m->call);
  return m->dst && (double)ts_meta_nbytes(&m->dst->meta) * BYTE_NS * 2 < BUDGET_NS;
}

/* What is recorded has to be launched. */
bool ts_offload_unhurried(const TsOffloader *o) {
  const TsCall *c = o->at.call;
  if (!ts_offload_defers(o) || o->launches.prepares || o->launches.replay || !c ||
      !is_narrow_call(c))
    return false;
  bool attends = c->op == TS_OP_attention || c->op == TS_OP_attention_grad ||
                 c->op == TS_OP_paged_attention;
  double products = products_of(c), ns = products * UNIT_NS;
  if (attends) ns += rest(c->in[0], c->in[0]->meta.ndim - 1) * keys_of(c) * SCORE_NS;
  for (int i = 0; i < c->nin + c->nout; i++)
    ns += numel(i < c->nin ? c->in[i] : c->out[i - c->nin]) * TILE_NS;
  return products && ns < (attends ? STAND_ATTENTION_NS : STAND_NS);
}

bool ts_offload_begin(TsOffloader *o, Meanwhile call) {
  if (o->at.call || o->at.dst) return false;
  o->at = call;
  return true;
}

void ts_offload_end(TsOffloader *o, bool outermost) {
  if (outermost) o->at = (Meanwhile){.call = NULL};
}
