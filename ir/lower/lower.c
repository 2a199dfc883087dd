/* Which kernel a group has. See ir/lower/lower.h. */
#include "ir/lower/row.h"

#include "devices/device.h"
#include "ir/sched/attention.h"
#include "ir/sched/index.h"
#include "ir/sched/product/product.h"

/* Of a node, alone or with others in its group; the first one that takes the operands makes the
 * kernel. */
typedef struct Row {
  int op;
  unsigned units; /* of the target: all of them */
  enum {
    ALONE,
    JOINS, /* with others of the group */
    SHOWN, /* its calls launch the kernel, many in one (jit/eager/optim.c): for f:ir alone */
  } how;
  TsLowerFn *make;
} Row;

static const Row row[] = {
    {TS_OP_matmul, TS_UNIT_mma, JOINS, ts_lower_product},
    {TS_OP_attention, TS_UNIT_roles, ALONE, ts_lower_decode},
    {TS_OP_attention, TS_UNIT_mma, ALONE, ts_lower_attention},
    {TS_OP_paged_attention, TS_UNIT_blocks, ALONE, ts_lower_pages},
    {TS_OP_attention_grad, TS_UNIT_mma, ALONE, ts_lower_attention_grad},
    {TS_OP_attention_grad, TS_UNIT_blocks, ALONE, ts_lower_attention_grad_unit},
    {TS_OP_attention_grad, TS_UNIT_blocks, ALONE, ts_lower_attention_wide},
    {TS_OP_attention_grad, TS_UNIT_blocks, ALONE, ts_lower_attention_grad_any},
    {TS_OP_grouped_matmul, TS_UNIT_mma, ALONE, ts_lower_grouped},
    {TS_OP_grouped_matmul_weight_grad, TS_UNIT_mma, ALONE, ts_lower_grouped},
    {TS_OP_grouped_matmul, TS_UNIT_squares, ALONE, ts_lower_grouped},
    {TS_OP_grouped_matmul_weight_grad, TS_UNIT_squares, ALONE, ts_lower_grouped},
    {TS_OP_matmul, TS_UNIT_blocks, ALONE, ts_lower_mixed},
    {TS_OP_grouped_matmul, TS_UNIT_blocks, ALONE, ts_lower_mixed},
    {TS_OP_grouped_matmul_weight_grad, TS_UNIT_blocks, ALONE, ts_lower_mixed},
    {TS_OP_conv1d, TS_UNIT_blocks, ALONE, ts_lower_conv},
    {TS_OP_conv2d, TS_UNIT_blocks, ALONE, ts_lower_conv},
    {TS_OP_conv3d, TS_UNIT_blocks, ALONE, ts_lower_conv},
    {TS_OP_conv_transpose, TS_UNIT_blocks, ALONE, ts_lower_conv},
    {TS_OP_conv_weight_grad, TS_UNIT_blocks, ALONE, ts_lower_conv},
    {TS_OP_argmin, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_argmax, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_any, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_all, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_count_nonzero, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_var, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_std, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_norm, TS_UNIT_blocks, ALONE, ts_lower_long_row},
    {TS_OP_norm, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_logsumexp, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_cumsum, TS_UNIT_blocks, ALONE, ts_lower_scan},
    {TS_OP_cumprod, TS_UNIT_blocks, ALONE, ts_lower_scan},
    {TS_OP_cummax, TS_UNIT_blocks, ALONE, ts_lower_scan},
    {TS_OP_linear_scan, TS_UNIT_blocks, ALONE, ts_lower_scan},
    {TS_OP_sort, TS_UNIT_blocks, ALONE, ts_lower_sort},
    {TS_OP_argsort, TS_UNIT_blocks, ALONE, ts_lower_sort},
    {TS_OP_topk, TS_UNIT_blocks, ALONE, ts_lower_sort},
    {TS_OP_histogram, TS_UNIT_blocks, ALONE, ts_lower_histogram},
    {TS_OP_median, TS_UNIT_blocks, ALONE, ts_lower_quantile},
    {TS_OP_quantile, TS_UNIT_blocks, ALONE, ts_lower_quantile},
    {TS_OP_uniform, TS_UNIT_blocks, ALONE, ts_lower_draw},
    {TS_OP_normal, TS_UNIT_blocks, ALONE, ts_lower_draw},
    {TS_OP_bernoulli, TS_UNIT_blocks, ALONE, ts_lower_draw},
    {TS_OP_randint, TS_UNIT_blocks, ALONE, ts_lower_draw},
    {TS_OP_dropout, TS_UNIT_blocks, ALONE, ts_lower_draw},
    {TS_OP_permutation, TS_UNIT_blocks, ALONE, ts_lower_draw},
    {TS_OP_add, TS_UNIT_blocks, ALONE, ts_lower_complex},
    {TS_OP_sub, TS_UNIT_blocks, ALONE, ts_lower_complex},
    {TS_OP_mul, TS_UNIT_blocks, ALONE, ts_lower_complex},
    {TS_OP_square, TS_UNIT_blocks, ALONE, ts_lower_complex},
    {TS_OP_neg, TS_UNIT_blocks, ALONE, ts_lower_complex},
    {TS_OP_conj, TS_UNIT_blocks, ALONE, ts_lower_complex},
    {TS_OP_real, TS_UNIT_blocks, ALONE, ts_lower_complex},
    {TS_OP_imag, TS_UNIT_blocks, ALONE, ts_lower_complex},
    {TS_OP_complex, TS_UNIT_blocks, ALONE, ts_lower_complex},
    {TS_OP_eq, TS_UNIT_blocks, ALONE, ts_lower_complex},
    {TS_OP_ne, TS_UNIT_blocks, ALONE, ts_lower_complex},
    {TS_OP_cast, TS_UNIT_blocks, ALONE, ts_lower_blocks_cast},
    {TS_OP_embedding, TS_UNIT_blocks, ALONE, ts_lower_blocks_rows},
    {TS_OP_quantized_matmul, TS_UNIT_blocks, ALONE, ts_lower_blocks_product},
    {TS_OP_experts_linear, TS_UNIT_blocks, ALONE, ts_lower_experts},
    {TS_OP_cast, TS_UNIT_blocks, ALONE, ts_lower_transpose},
    {TS_OP_cast, TS_UNIT_blocks, ALONE, ts_lower_complex},
    {TS_OP_fft, TS_UNIT_blocks, ALONE, ts_lower_fft},
    {TS_OP_ifft, TS_UNIT_blocks, ALONE, ts_lower_fft},
    {TS_OP_rfft, TS_UNIT_blocks, ALONE, ts_lower_fft},
    {TS_OP_irfft, TS_UNIT_blocks, ALONE, ts_lower_fft},
    {TS_OP_fft2, TS_UNIT_blocks, ALONE, ts_lower_fft},
    {TS_OP_ifft2, TS_UNIT_blocks, ALONE, ts_lower_fft},
    {TS_OP_fftn, TS_UNIT_blocks, ALONE, ts_lower_fft},
    {TS_OP_ifftn, TS_UNIT_blocks, ALONE, ts_lower_fft},
    {TS_OP_dct, TS_UNIT_blocks, ALONE, ts_lower_dct},
    {TS_OP_idct, TS_UNIT_blocks, ALONE, ts_lower_dct},
    {TS_OP_rope, TS_UNIT_blocks, ALONE, ts_lower_rope},
    {TS_OP_rope_grad, TS_UNIT_blocks, ALONE, ts_lower_rope},
    {TS_OP_sgd_step, TS_UNIT_blocks, SHOWN, ts_lower_optim},
    {TS_OP_adam_step, TS_UNIT_blocks, SHOWN, ts_lower_optim},
    {TS_OP_lion_step, TS_UNIT_blocks, SHOWN, ts_lower_optim},
    {TS_OP_gather, TS_UNIT_blocks, ALONE, ts_lower_at_index},
    {TS_OP_one_hot, TS_UNIT_blocks, ALONE, ts_lower_at_index},
    {TS_OP_take, TS_UNIT_blocks, ALONE, ts_lower_at_index},
    {TS_OP_index_select, TS_UNIT_blocks, ALONE, ts_lower_at_index},
    {TS_OP_scatter, TS_UNIT_blocks, ALONE, ts_lower_scatter},
    {TS_OP_scatter_add, TS_UNIT_blocks, ALONE, ts_lower_scatter_windows},
    {TS_OP_scatter_add, TS_UNIT_blocks, ALONE, ts_lower_scatter},
    {TS_OP_index_add, TS_UNIT_blocks, ALONE, ts_lower_scatter},
    {TS_OP_segment_reduce, TS_UNIT_blocks, ALONE, ts_lower_scatter},
    {TS_OP_spmm_coo, TS_UNIT_blocks, ALONE, ts_lower_spmm},
    {TS_OP_sddmm, TS_UNIT_blocks, ALONE, ts_lower_sddmm},
    {TS_OP_csr_rows, TS_UNIT_blocks, ALONE, ts_lower_csr_rows},
    {TS_OP_moe_places, TS_UNIT_blocks, ALONE, ts_lower_moe_places},
    {TS_OP_roll, TS_UNIT_blocks, ALONE, ts_lower_places},
    {TS_OP_pad, TS_UNIT_blocks, ALONE, ts_lower_places},
    {TS_OP_repeat_interleave, TS_UNIT_blocks, ALONE, ts_lower_places},
    {TS_OP_tril, TS_UNIT_blocks, ALONE, ts_lower_places},
    {TS_OP_triu, TS_UNIT_blocks, ALONE, ts_lower_places},
    {TS_OP_slice_update, TS_UNIT_blocks, ALONE, ts_lower_places},
    {TS_OP_slice_add, TS_UNIT_blocks, ALONE, ts_lower_places},
    {TS_OP_eye, TS_UNIT_blocks, ALONE, ts_lower_places},
    {TS_OP_arange, TS_UNIT_blocks, ALONE, ts_lower_places},
    {TS_OP_linspace, TS_UNIT_blocks, ALONE, ts_lower_places},
    {TS_OP_sum, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_min, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_max, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_sum, TS_UNIT_blocks, ALONE, ts_lower_columns},
    {TS_OP_mean, TS_UNIT_blocks, ALONE, ts_lower_columns},
    {TS_OP_mean, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_prod, TS_UNIT_blocks, ALONE, ts_lower_reduce},
    {TS_OP_max_pool, TS_UNIT_blocks, ALONE, ts_lower_pool},
    {TS_OP_max_pool_index, TS_UNIT_blocks, ALONE, ts_lower_pool},
    {TS_OP_avg_pool, TS_UNIT_blocks, ALONE, ts_lower_pool},
    {TS_OP_avg_pool_grad, TS_UNIT_blocks, ALONE, ts_lower_pool_grad},
    {TS_OP_adaptive_avg_pool, TS_UNIT_blocks, ALONE, ts_lower_adaptive},
    {TS_OP_adaptive_avg_pool_grad, TS_UNIT_blocks, ALONE, ts_lower_adaptive},
    {TS_OP_interpolate, TS_UNIT_blocks, ALONE, ts_lower_interpolate},
    {TS_OP_interpolate_grad, TS_UNIT_blocks, ALONE, ts_lower_interpolate_grad},
    {TS_OP_interpolate_grad, TS_UNIT_blocks, ALONE, ts_lower_interpolate_back},
};
enum { ROWS = sizeof row / sizeof *row };

static bool is_of(const TsGroup *g, const Row *r) {
  if (r->how != JOINS) return g->nnode == 1 && g->node[0]->op == r->op;
  for (int i = 0; i < g->nnode; i++)
    if (g->node[i]->op == r->op) return true;
  return false;
}

/* What says nothing of it. */
static void has_no_choice(TsSchedKernel *out) {
  for (int i = 0; i < TS_CHOICE_FIELDS; i++) *ts_choice_at(&out->took, i) = -1;
  out->told = true;
}

/* 1 with the kernel; 0: no row has one; -1. */
static int from_table(const TsSched *s, const TsGroup *g, TsLayoutFn *layout, void *arg,
                      TsSchedKernel *out, TsError *err) {
  for (int i = 0; i < ROWS; i++) {
    if (s->plain || !ts_target_has(s->target, row[i].units) || !is_of(g, &row[i])) continue;
    int made = row[i].make(s, g, layout, arg, out, err);
    if (made > 0 && !out->told) has_no_choice(out);
    if (made) return made;
  }
  return 0;
}

static int no_gradients(const TsSched *s, const TsNode *n, TsError *err) {
  const char *why = s->target->matrix ? ts_lower_attention_grad_without(s, n) : NULL;
  return ts_error_set(err, TS_ERR_value,
                      "there is no kernel of these gradients of attention: %s%sothers take "
                      "heads of 256 numbers at most, in 2 to 4 axes",
                      why ? why : "", why ? "; " : "");
}

/* Of i8 and fp8, which matrix units alone multiply on a GPU, with sums of other types. */
static int no_product(const TsSched *s, const TsNode *n, TsError *err) {
  TsDtype a = (TsDtype)n->in[0]->meta.dtype, b = (TsDtype)n->in[1]->meta.dtype;
  TsDtype y = (TsDtype)n->out[0].meta.dtype;
  bool eight = a == TS_DT_fp8_e4m3 || a == TS_DT_fp8_e5m2, whole = a == TS_DT_i8;
  unsigned units = eight ? TS_UNIT_roles : TS_UNIT_mma;
  const char *is = ts_dtypes[a].name, *sums = whole ? "i32" : "f32";
  static const char none[] = "there is no kernel of this product";
  if (a != b)
    return ts_error_set(err, TS_ERR_value, "%s: its factors are %s and %s", none, is,
                        ts_dtypes[b].name);
  if (!eight && !whole)
    return ts_error_set(err, TS_ERR_value, "%s of %s with a result of %s", none, is,
                        ts_dtypes[y].name);
  if (!ts_target_has(s->target, units) && !ts_sched_square_has(s->target, a))
    return ts_error_set(err, TS_ERR_value, "%s: %s has no matrix unit that multiplies %s", none,
                        s->target->name, is);
  if (y != (whole ? TS_DT_i32 : TS_DT_f32) && (whole || y == a))
    return ts_error_set(
        err, TS_ERR_value,
        "%s: its result is %s, and the matrix unit of %s adds up %s in %s: with "
        "accumulate = \"%s\" there is one",
        none, ts_dtypes[y].name, s->target->name, is, sums, sums);
  return ts_error_set(
      err, TS_ERR_value,
      "%s: the matrix unit of %s takes %s that lies along k, in rows of whole words", none,
      s->target->name, is);
}

int ts_lower_group(const TsSched *s, const TsGroup *g, TsLayoutFn *layout, void *arg,
                   TsSchedKernel *out, TsError *err) {
  int made = from_table(s, g, layout, arg, out, err);
  if (made) return made < 0 ? -1 : 0;
  if (g->kind != TS_GROUP_vm) return ts_sched_lower(s, g, layout, arg, out, err);
  if (ts_sched_is_index(s->target, g->node[0]))
    return ts_sched_lower_index(s, g, layout, arg, out, err);
  if (g->node[0]->op == TS_OP_attention_grad) return no_gradients(s, g->node[0], err);
  if (s->target && g->node[0]->op == TS_OP_matmul && g->node[0]->nin > 1)
    return no_product(s, g->node[0], err);
  return ts_error_set(err, TS_ERR_value, "there is no kernel of this operator");
}

const char *ts_lower_without(const TsSched *s, const TsGroup *g) {
  if (g->nnode != 1 || !s->target || !s->target->matrix) return NULL;
  if (g->node[0]->op == TS_OP_attention) return ts_sched_attention_without(s, g->node[0]);
  if (g->node[0]->op != TS_OP_attention_grad) return NULL;
  return ts_lower_attention_grad_without(s, g->node[0]);
}

bool ts_lower_has(const TsTarget *t, const TsNode *n) {
  for (int i = 0; i < ROWS; i++)
    if (row[i].op == n->op && row[i].how != SHOWN && ts_target_has(t, row[i].units))
      return true;
  return ts_sched_is_index(t, n);
}

void ts_lower_for(TsSched *s, const TsDevice *d) {
  s->processors = d->processors;
  s->simulated = d->simulated;
  s->most_work = d->most_work;
}

/* ---- what rows ask */
int ts_lower_refused(TsError *err) {
  if (err->code == TS_ERR_memory) return -1;
  ts_error_clear(err);
  return 0;
}

static bool fits(const TsSched *s, double work) {
  return !s->most_work || work <= (double)s->most_work;
}

int ts_lower_roles(const TsSched *s, double work) {
  return ts_target_has(s->target, TS_UNIT_roles) && fits(s, work) ? s->processors : 0;
}

bool ts_lower_warps(const TsSched *s, double work, TsGpuMachine *gpu) {
  *gpu = (TsGpuMachine){s->target, s->processors};
  return ts_target_has(s->target, TS_UNIT_mma) && fits(s, work);
}
