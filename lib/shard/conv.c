/* How convolutions and other work on images is done in parts: images and channels are split, what
 * windows move along is whole. */
#include "lib/shard/shard.h"

static bool channels_last(const TsShard *s) {
  const TsOpInfo *o = ts_op_info(s->op);
  for (int i = 0; i < o->nattr; i++)
    if (o->attr[i].namelen == 6 && !__builtin_memcmp(o->attr[i].name, "layout", 6))
      return s->attr[i].i == 1;
  return false;
}

static int channel_axis(const TsShard *s) { return channels_last(s) ? s->in[0]->ndim - 1 : 1; }

void ts_shard_images(TsShard *s) {
  int c = channel_axis(s);
  ts_shard_along(s, 0, 0, 0, 0);
  ts_shard_along(s, 0, c, 0, c);
}

/* ---- convolutions. Groups are the outer part of channels, so they can be split instead. */
static int local_groups(const TsShard *s, TsShardPart *part) {
  ts_shard_own(s, part, "groups")->i = part->count[0];
  return 0;
}

static int groups(TsShard *s) {
  int64_t n = ts_shard_attr(s, "groups")->i;
  if (n == 1) return TS_WHOLE;
  int f = ts_shard_factor(s, TS_FACTOR_along, n);
  s->factor[f].filled = true; /* no convolution has 0 groups */
  s->local = local_groups;
  return f;
}

static void by_channel(TsShard *s, int first, int c, int f) {
  for (int i = first; i < s->nin; i++) { /* bias, residual */
    if (!s->in[i]) continue;
    ts_shard_in(s, i, i == 2 ? 0 : c, f);
    if (i == 3) ts_shard_in(s, i, 0, s->out_axis[0][0]);
  }
  ts_shard_out(s, 0, c, f);
}

/* Bias, residual and epilogue are for the sum: where there are some, no channels are summed. */
static bool has(const TsShard *s, int i) { return i < s->nin && s->in[i]; }

static void sum(TsShard *s, int x_axis, int w_axis) {
  int f = ts_shard_factor(s, TS_FACTOR_sum, s->in[0]->dim[x_axis]);
  ts_shard_in(s, 0, x_axis, f);
  ts_shard_in(s, 1, w_axis, f);
  s->widens = true;
}

void ts_shard_conv(TsShard *s) {
  int c = channel_axis(s), f = groups(s);
  ts_shard_along(s, 0, 0, 0, 0);
  if (f != TS_WHOLE) {
    ts_shard_in(s, 0, c, f);
    ts_shard_in(s, 1, 0, f);
    by_channel(s, 2, c, f);
    return;
  }
  f = ts_shard_factor(s, TS_FACTOR_along, s->in[1]->dim[0]);
  ts_shard_in(s, 1, 0, f);
  by_channel(s, 2, c, f);
  bool ends = ts_shard_attr(s, "epilogue")->type == TS_ATTR_str;
  if (!has(s, 2) && !has(s, 3) && !ends) sum(s, c, c);
}

void ts_shard_conv_transpose(TsShard *s) {
  int f = groups(s);
  ts_shard_along(s, 0, 0, 0, 0);
  if (f != TS_WHOLE) {
    ts_shard_in(s, 0, 1, f);
    ts_shard_in(s, 1, 0, f);
    by_channel(s, 2, 1, f);
    return;
  }
  f = ts_shard_factor(s, TS_FACTOR_along, s->in[1]->dim[1]);
  ts_shard_in(s, 1, 1, f);
  by_channel(s, 2, 1, f);
  if (!has(s, 2)) sum(s, 1, 0);
}

void ts_shard_conv_weight_grad(TsShard *s) {
  int c = channel_axis(s), f = groups(s);
  if (f != TS_WHOLE) {
    ts_shard_in(s, 0, c, f);
    ts_shard_in(s, 1, c, f);
    ts_shard_out(s, 0, 0, f);
  } else {
    ts_shard_along(s, 0, c, 0, c);
    ts_shard_along(s, 1, c, 0, 0);
  }
  sum(s, 0, 0);
}
