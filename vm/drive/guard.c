/* Indices of rows and sizes of groups before a kernel runs. */
#include "vm/drive/guard.h"

#include <stdio.h>

#include "devices/cpu_pool.h"
#include "vm/core/exec.h"
#include "vm/drive/index.h"
#include "vm/core/offload.h"

static bool is_loss(int op) {
  return op == TS_OP_cross_entropy || op == TS_OP_cross_entropy_grad;
}

static bool is_grouped(int op) {
  return op == TS_OP_grouped_matmul || op == TS_OP_grouped_matmul_weight_grad;
}

enum { TABLE = 3, START }; /* operands of paged_attention */

static int axis_of(const TsNode *n, int input) {
  int nd = n->in[0]->meta.ndim;
  if (n->op == TS_OP_route_rows || n->op == TS_OP_csr_rows) return 0;
  if (is_grouped(n->op)) return nd - 2;
  if (n->op == TS_OP_take) return TS_INDEX_FLAT;
  if (n->op == TS_OP_one_hot) return TS_INDEX_CLASS;
  if (n->op == TS_OP_moe_places) return TS_INDEX_EXPERT;
  if (n->op == TS_OP_segment_reduce) return TS_INDEX_SEGMENT;
  if (n->op == TS_OP_embedding) return 0;
  if (n->op == TS_OP_paged_attention) return input == START ? TS_INDEX_START : 1;
  if (is_loss(n->op)) return nd - 1;
  return (int)(n->attr[0].i < 0 ? n->attr[0].i + nd : n->attr[0].i);
}

/* What places of entries are places in. */
static const TsMeta *sparse(const TsNode *n, int input) {
  if (n->op == TS_OP_spmm_coo) return input == 1 ? &n->out[0].meta : &n->in[3]->meta;
  return &n->in[input - 2]->meta;
}

TsGuard ts_guard_of(const TsNode *n, int input, const char *function) {
  TsGuard g = {.as = n->as, .op = (TsOp)n->op};
  bool entries = n->op == TS_OP_spmm_coo || n->op == TS_OP_sddmm;
  bool paged = n->op == TS_OP_paged_attention && input == TABLE; /* places in pages of keys */
  g.x = entries ? *sparse(n, input) : n->in[paged ? 1 : 0]->meta;
  g.axis = entries ? n->op == TS_OP_sddmm && input == 3 : axis_of(n, input);
  g.size = g.axis >= 0               ? g.x.dim[g.axis]
           : g.axis == TS_INDEX_FLAT ? ts_meta_numel(&g.x)
                                     : n->attr[0].i;
  if (g.axis == TS_INDEX_START)
    g.size = ts_index_starts(n->in[TABLE]->meta.dim[1] * n->in[1]->meta.dim[2], g.x.dim[2]);
  if (is_grouped(n->op)) g.size++; /* all rows may be one group's */
  if (n->op == TS_OP_csr_rows) g.size = n->attr[0].i;
  if (n->op == TS_OP_route_rows)
    g.size = n->attr[2].type == TS_ATTR_int /* rows, as often as each goes somewhere */
                 ? n->attr[0].i * n->attr[2].i
                 : ts_meta_numel(&n->in[2]->meta);
  if (is_loss(n->op)) g.ignored = n->attr[1].i;
  snprintf(g.function, sizeof g.function, "%s", function);
  snprintf(g.place, sizeof g.place, "%s", ts_graph_where(n));
  return g;
}

/* Whose error it is, and where; -1. */
static int explain(const TsGuard *g, TsContext *c) {
  if (g->as) ts_op_error_of(&c->err, ts_op_info((TsOp)(g->as - 1))->name);
  return ts_error_where(&c->err, g->function, g->place);
}

static int gathered(const TsGuard *g, TsContext *c, TsTensor *index) {
  TsIndex ix;
  TsTensor *x = ts_tensor_symbol(c, &g->x, NULL), *in[2] = {x, index};
  TsCall call = {.ctx = c, .op = g->op, .nin = 2, .in = in};
  int failed = !x || ts_index_open(&call, 1, g->axis, g->size, &ix);
  if (!failed) ts_index_close(&ix);
  ts_tensor_unref(x);
  return failed ? -1 : 0;
}

static int wrong_target(const TsGuard *g, TsContext *c, int64_t row, int64_t value) {
  return ts_error_set(
      &c->err, TS_ERR_index, "%s: target %lld of row %lld is not one of %lld classes",
      ts_op_info(g->op)->name, (long long)value, (long long)row, (long long)g->size);
}

static int targets(const TsGuard *g, TsContext *c, TsTensor *index) {
  TsTensor *t = ts_tensor_cast(c, index, TS_DT_i64);
  const int64_t *at = t ? ts_tensor_read(t) : NULL;
  int64_t n = t ? ts_tensor_numel(t) : 0, wrong = -1;
  for (int64_t i = 0; at && i < n && wrong < 0; i++)
    if (at[i] != g->ignored && (uint64_t)at[i] >= (uint64_t)g->size) wrong = i;
  if (wrong >= 0) wrong_target(g, c, wrong, at[wrong]);
  ts_tensor_unref(t);
  return at && wrong < 0 ? 0 : -1;
}

static int wrong_group(TsContext *c, TsOp op, int64_t rows, int64_t group, int64_t value) {
  return ts_error_set(&c->err, TS_ERR_index, "%s: group %lld has %lld rows, x has %lld",
                      ts_op_info(op)->name, (long long)group, (long long)value,
                      (long long)rows);
}

int ts_guard_place(TsContext *c, int64_t rows, int64_t value) {
  return ts_error_set(&c->err, TS_ERR_index,
                      "route_rows: place %lld is out of range for %lld rows", (long long)value,
                      (long long)rows);
}

static int places(const TsGuard *g, TsContext *c, TsTensor *place) {
  TsTensor *t = ts_tensor_cast(c, place, TS_DT_i64);
  const int64_t *at = t ? ts_tensor_read(t) : NULL;
  int failed = at ? 0 : -1;
  for (int64_t i = 0, n = t ? ts_tensor_numel(t) : 0; i < n && !failed; i++)
    if (at[i] >= g->size) failed = ts_guard_place(c, g->size, at[i]);
  ts_tensor_unref(t);
  return failed;
}

int ts_guard_groups(TsContext *c, TsOp op, int64_t rows, const int64_t *size, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (size[i] < 0 || size[i] > rows) return wrong_group(c, op, rows, i, size[i]);
  return 0;
}

static int groups(const TsGuard *g, TsContext *c, TsTensor *sizes) {
  TsTensor *t = ts_tensor_cast(c, sizes, TS_DT_i64);
  const int64_t *at = t ? ts_tensor_read(t) : NULL;
  int failed = at ? ts_guard_groups(c, g->op, g->size - 1, at, ts_tensor_numel(t)) : -1;
  ts_tensor_unref(t);
  return failed;
}

bool ts_guard_of_offsets(const TsGuard *g) { return g->op == TS_OP_csr_rows; }

static int wrong_offset(TsContext *c, int64_t rows, int64_t entries, int64_t row, int64_t value,
                        int64_t next) {
  TsError *e = &c->err;
  if (row == 0 && value)
    return ts_error_set(e, TS_ERR_index, "csr_rows: offsets begin at %lld, not 0",
                        (long long)value);
  if (row == rows)
    return ts_error_set(e, TS_ERR_index, "csr_rows: offsets end at %lld, of %lld entries",
                        (long long)value, (long long)entries);
  return ts_error_set(e, TS_ERR_index,
                      "csr_rows: row %lld begins at entry %lld and ends at %lld",
                      (long long)row, (long long)value, (long long)next);
}

int ts_guard_offsets(TsContext *c, const int64_t *first, int64_t rows, int64_t entries) {
  if (first[0]) return wrong_offset(c, rows, entries, 0, first[0], 0);
  TS_CPU_LOOKING(i, 0, rows) {
    if (first[i + 1] >= first[i]) continue;
    return wrong_offset(c, rows, entries, i, first[i], first[i + 1]);
  }
  if (ts_cpu_interrupted())
    return ts_error_set(&c->err, TS_ERR_interrupt, "csr_rows: interrupted");
  return first[rows] == entries ? 0 : wrong_offset(c, rows, entries, rows, first[rows], 0);
}

static int offsets(const TsGuard *g, TsContext *c, TsTensor *index) {
  TsTensor *t = ts_tensor_cast(c, index, TS_DT_i64);
  const int64_t *at = t ? ts_tensor_read(t) : NULL;
  int failed = at ? ts_guard_offsets(c, at, g->x.dim[0] - 1, g->size) : -1;
  ts_tensor_unref(t);
  return failed;
}

bool ts_guard_wraps(const TsGuard *g) {
  return !is_loss(g->op) && !ts_guard_of_offsets(g) && !is_grouped(g->op) &&
         g->axis >= TS_INDEX_FLAT;
}
bool ts_guard_of_loss(const TsGuard *g) { return is_loss(g->op); }

int ts_guard_wrong(const TsGuard *g, TsContext *c, int64_t row, int64_t value, int64_t next) {
  if (is_loss(g->op)) {
    wrong_target(g, c, row, value);
  } else if (g->op == TS_OP_route_rows) {
    ts_guard_place(c, g->size, value);
  } else if (ts_guard_of_offsets(g)) {
    wrong_offset(c, g->x.dim[0] - 1, g->size, row, value, next);
  } else if (is_grouped(g->op)) {
    wrong_group(c, g->op, g->size - 1, row, value);
  } else {
    TsTensor *x = ts_tensor_symbol(c, &g->x, NULL), *in[2] = {x, NULL};
    TsCall call = {.ctx = c, .op = g->op, .nin = 2, .in = in};
    if (x) ts_index_wrong(&call, g->axis, g->size, value);
    ts_tensor_unref(x);
  }
  return explain(g, c);
}

/* Bytes that only a device has. */
static bool is_there(const TsContext *c, const TsTensor *index) {
  return ts_offload_on(c, index->meta.device) && c->offload->guard &&
         !(index->storage->valid & 1) && (index->storage->valid >> index->meta.device & 1);
}

int ts_guard_check(const TsGuard *g, TsContext *c, TsTensor *index) {
  int looked = is_there(c, index) ? c->offload->guard(c, g, index) : 0;
  if (looked) return looked == 1 ? 0 : -1;
  c->on_host++; /* what is made of the index on the way */
  int failed = is_loss(g->op)              ? targets(g, c, index)
               : is_grouped(g->op)         ? groups(g, c, index)
               : g->op == TS_OP_route_rows ? places(g, c, index)
               : ts_guard_of_offsets(g)    ? offsets(g, c, index)
                                           : gathered(g, c, index);
  c->on_host--;
  return failed ? explain(g, c) : 0;
}
