/* Which products can be the heart of a kernel, by their types, sizes, and what follows them. See
 * ir/sched/product/product.h. */
#include "ir/sched/product/product.h"

#include <string.h>

#include "ir/sched/prologue.h"

enum {
  LEAST_ROWS = 32, /* below, packing B costs more than it gives */
  LEAST_COLUMNS = 16,
  MOST_K = 512, /* of rows of A that lie straight, if nothing joins: the VM is as fast */
  LEAST_K = 8,
  LEAST_WORK = 1 << 18 /* multiply-adds of a matrix; below, the call is what costs */
};

static bool good_types(const TsNode *n) {
  TsDtype a = (TsDtype)n->in[0]->meta.dtype, y = (TsDtype)n->out[0].meta.dtype;
  if (n->in[1]->meta.dtype != a) return false;
  if (a == TS_DT_f32 || a == TS_DT_f64) return y == a;
  return (a == TS_DT_bf16 || a == TS_DT_f16) && (y == a || y == TS_DT_f32);
}

/* What follows the product inside of its node. The VM does it a piece of a row at a time,
 * without asking for what it reads ahead: bias, gelu and residual cost 2.2 to 2.8 ns an
 * element there and 1.1 to 1.6 here; products of 16 bits with a bias or more take 0.9 to 1.0
 * of its time. */
static bool has_end(const TsNode *n) {
  bool named = n->attr[2].type == TS_ATTR_str && strcmp(n->attr[2].str, "none");
  return n->nin > 2 || named;
}

bool ts_sched_needs_prologue(const TsNode *n) {
  const TsMeta *a = &n->in[0]->meta;
  return a->dim[a->ndim - 1] > MOST_K && !ts_sched_is_view(n->in[0]->node) && !has_end(n) &&
         !ts_sched_is_pinned(n);
}

bool ts_sched_is_large_product(const TsNode *n) {
  if (n->op != TS_OP_matmul || n->nin < 2 || !good_types(n)) return false;
  const TsMeta *a = &n->in[0]->meta, *b = &n->in[1]->meta;
  if (a->ndim < 2 || b->ndim < 2) return false;
  int64_t m = a->dim[a->ndim - 2], k = a->dim[a->ndim - 1], cols = b->dim[b->ndim - 1];
  return m >= LEAST_ROWS && cols >= LEAST_COLUMNS && k >= LEAST_K && m * cols * k >= LEAST_WORK;
}

bool ts_sched_is_product(const TsNode *n) {
  return ts_sched_is_large_product(n) &&
         (!ts_sched_needs_prologue(n) || ts_sched_prologue_of_b(n));
}

bool ts_sched_by_pairs(const TsSched *s, const TsNode *n) {
  return s->profile == TS_PROFILE_fast && s->target && s->target->pairs &&
         n->op == TS_OP_matmul && n->nin > 1 && n->in[0]->meta.dtype == TS_DT_bf16;
}

/* Of whole numbers and of 8 bits: by a unit that makes squares alone. */
static bool is_of_squares(const TsTarget *t, const TsNode *n) {
  TsDtype a = (TsDtype)n->in[0]->meta.dtype, y = (TsDtype)n->out[0].meta.dtype;
  if (n->in[1]->meta.dtype != a || !t->matrix || !ts_sched_square_has(t, a)) return false;
  if (a == TS_DT_i8) return y == TS_DT_i32 || y == a; /* which wraps */
  bool eight = a == TS_DT_fp8_e4m3 || a == TS_DT_fp8_e5m2;
  return eight && (y == TS_DT_f32 || y == TS_DT_bf16 || y == TS_DT_f16);
}

bool ts_sched_is_any_product(const TsTarget *t, const TsNode *n) {
  if (n->op != TS_OP_matmul || n->nin < 2 || !(good_types(n) || is_of_squares(t, n)))
    return false;
  const TsMeta *a = &n->in[0]->meta, *b = &n->in[1]->meta;
  return a->ndim > 0 && b->ndim > 0 && ts_meta_numel(&n->out[0].meta) > 0;
}

double ts_sched_product_steps(const TsNode *n) {
  const TsMeta *a = &n->in[0]->meta;
  return (double)ts_meta_numel(&n->out[0].meta) * (double)a->dim[a->ndim - 1];
}
