/* How layers, losses and steps of optimisers are done in parts. Gradients of weights are sums over
 * what the layer does alike: a factor that they lack. Leaves are of one axis, so of several such
 * axes the first is split. */
#include "lib/shard/shard.h"

/* The first axes, up to n, of the inputs and results named by bits. */
static int leading(TsShard *s, TsFactorKind kind, int d, unsigned in, unsigned out) {
  int f = ts_shard_factor(s, kind, s->in[0]->dim[d]);
  for (int i = 0; i < s->nin; i++)
    if (in >> i & 1 && s->in[i]) ts_shard_in(s, i, d, f);
  for (int o = 0; o < s->nout; o++)
    if (out >> o & 1) ts_shard_out(s, o, d, f);
  return f;
}

/* ---- normalisation of rows */
static int rows(const TsShard *s) { return s->in[0]->ndim - (int)ts_shard_attr(s, "dims")->i; }

void ts_shard_norm(TsShard *s) {
  for (int d = 0; d < rows(s); d++) leading(s, TS_FACTOR_along, d, 1, 1);
}

/* Axes of size 1 are no rows. */
void ts_shard_norm_grad(TsShard *s) {
  bool sums = s->nout > 1;
  for (int d = 0; d < rows(s); d++) {
    if (sums && s->in[0]->dim[d] == 1) continue;
    leading(s, sums ? TS_FACTOR_sum : TS_FACTOR_along, d, 1 | 4, 1);
    if (sums) break;
  }
  s->widens = false;
}

/* ---- positions */
static int local_offset(const TsShard *s, TsShardPart *part) {
  int f = s->in_axis[0][s->in[0]->ndim - 2];
  if (f != TS_WHOLE && !(s->nin > 1 && s->in[1]))
    ts_shard_own(s, part, "offset")->i += part->start[f];
  return 0;
}

void ts_shard_rope(TsShard *s) {
  int ndim = s->in[0]->ndim;
  const TsMeta *p = s->nin > 1 ? s->in[1] : NULL;
  for (int d = 0; d < ndim - 1; d++) {
    int f = leading(s, TS_FACTOR_along, d, 1, 1);
    if (p && d == ndim - 2) ts_shard_in(s, 1, -1, f);
    if (p && d == 0 && p->ndim == 2) ts_shard_in(s, 1, 0, f);
  }
  s->local = local_offset;
}

/* ---- attention: q [..,H,S,D], k and v [..,Hk,T,D], a mask that broadcasts to [..,H,S,T] */
enum { Q, K, V, MASK, SINK, OUT, G };

/* Axis d of what has the axes of q, from the right. */
static void for_queries(TsShard *s, int d, int f) {
  int back = d - s->in[Q]->ndim;
  ts_shard_in(s, Q, d, f);
  if (s->nin > MASK && s->in[MASK] && s->in[MASK]->ndim >= -back) ts_shard_in(s, MASK, back, f);
  if (s->nin > OUT) ts_shard_in(s, OUT, d, f);
  if (s->nin > G) ts_shard_in(s, G, d, f);
}

static void for_keys(TsShard *s, int d, int f) {
  ts_shard_in(s, K, d, f);
  ts_shard_in(s, V, d, f);
}

static bool has_sink(const TsShard *s) { return s->nin > SINK && s->in[SINK]; }

/* Of heads the groups that share keys; where all do, and only queries are asked for, any. */
static void heads(TsShard *s, bool gradient) {
  int d = s->in[Q]->ndim - 3;
  int64_t of_keys = d >= 0 ? s->in[K]->dim[d] : 0;
  if (d < 0) return;
  bool alike = of_keys == 1 && !gradient;
  int f = ts_shard_factor(s, TS_FACTOR_along, alike ? s->in[Q]->dim[d] : of_keys);
  s->factor[f].filled = true;
  for_queries(s, d, f);
  if (!alike) for_keys(s, d, f);
  if (has_sink(s)) ts_shard_in(s, SINK, 0, f);
  for (int o = 0; o < s->nout; o++)
    if (!alike || o == 0) ts_shard_out(s, o, s->out[o].ndim == 1 ? 0 : d, f);
}

/* Which keys a query sees depends on its place among the others, unless it sees all. */
void ts_shard_attention(TsShard *s) {
  int ndim = s->in[Q]->ndim;
  for (int d = 0; d < ndim - 3; d++) {
    int f = ts_shard_factor(s, TS_FACTOR_along, s->in[Q]->dim[d]);
    for_queries(s, d, f), for_keys(s, d, f);
    ts_shard_out(s, 0, d, f);
  }
  heads(s, false);
  if (ts_shard_attr(s, "causal")->i || ts_shard_attr(s, "window")->type == TS_ATTR_int) return;
  int f = ts_shard_factor(s, TS_FACTOR_along, s->in[Q]->dim[ndim - 2]);
  for_queries(s, ndim - 2, f);
  ts_shard_out(s, 0, ndim - 2, f);
}

/* Over pages [Hk,pages,P,D]: texts, and groups of heads that share keys. */
void ts_shard_paged_attention(TsShard *s) {
  enum { TABLE = 3, START, OF_HEADS };
  int f = ts_shard_factor(s, TS_FACTOR_along, s->in[Q]->dim[0]);
  ts_shard_in(s, Q, 0, f), ts_shard_in(s, TABLE, 0, f), ts_shard_in(s, START, 0, f);
  ts_shard_out(s, 0, 0, f);
  f = ts_shard_factor(s, TS_FACTOR_along, s->in[K]->dim[0]);
  s->factor[f].filled = true;
  ts_shard_in(s, Q, 1, f), ts_shard_in(s, K, 0, f), ts_shard_in(s, V, 0, f);
  for (int i = OF_HEADS; i < s->nin; i++)
    if (s->in[i]) ts_shard_in(s, i, 0, f);
  ts_shard_out(s, 0, 1, f);
}

/* The gradient of sink is a sum over the batch. */
void ts_shard_attention_grad(TsShard *s) {
  bool sums = has_sink(s), first = true;
  for (int d = 0; d < s->in[Q]->ndim - 3; d++) {
    if (sums && (!first || s->in[Q]->dim[d] == 1)) continue;
    int f = ts_shard_factor(s, sums ? TS_FACTOR_sum : TS_FACTOR_along, s->in[Q]->dim[d]);
    first = false;
    for_queries(s, d, f), for_keys(s, d, f);
    for (int o = 0; o < s->nout - sums; o++) ts_shard_out(s, o, d, f);
  }
  heads(s, true);
}

/* ---- x [steps, batch, 4 n], w, h and c [batch, n], y and gy as x, gh and gc as h */
void ts_shard_lstm_grad(TsShard *s) {
  int f = ts_shard_factor(s, TS_FACTOR_sum, s->in[0]->dim[1]);
  for (int i = 0; i < s->nin; i++)
    if (s->in[i] && i != 1) ts_shard_in(s, i, s->in[i]->ndim == 3 ? 1 : 0, f);
  for (int o = 0; o < s->nout; o++)
    if (o != 1) ts_shard_out(s, o, o == 0 ? 1 : 0, f);
}

/* ---- rows of logits; of a mean or a sum: vm/mesh/define.c */
void ts_shard_cross_entropy(TsShard *s) {
  enum { NONE = 2 };
  bool gradient = s->nin > 2;
  if (ts_shard_attr(s, "reduction")->i != NONE) return;
  for (int d = 0; d < s->in[0]->ndim - 1; d++)
    leading(s, TS_FACTOR_along, d, gradient ? 7 : 3, 1);
}

/* The clock is for all; state that is absent, or made by the first step, is as the parameter. */
void ts_shard_step(TsShard *s) {
  int clock = ts_op_info(s->op)->nin - 1;
  unsigned states = (1u << clock) - 1;
  for (int d = 0; d < s->in[0]->ndim; d++) leading(s, TS_FACTOR_along, d, states, ~0u);
}
