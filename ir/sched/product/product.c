/* A group with one matmul as a kernel in block form: a round is a block of rows by a block of
 * columns of one matrix of the batch, along all of k. Pointwise nodes of the group that make an
 * operand (ir/sched/prologue.h) stand before the product, on tiles of all of k; what follows it,
 * the words of its epilogue attribute and the other nodes, behind it on the block. The space's
 * last two axes are the rows and columns. A batch of A over one B is one tall matrix where the
 * strides allow it. */
#include "ir/sched/product/product.h"

#include <stdio.h>
#include <string.h>

#include "ir/sched/product/state.h"
#include "ir/tile/product/product.h"

enum {
  GPU_BLOCK = 512, /* elements of a block of threads */
  GPU_MOST = 64    /* rows of it, columns */
};

static TsDtype sum_type(const TsNode *n) {
  if (n->in[0]->meta.dtype == TS_DT_i8) return TS_DT_i32;
  return n->out[0].meta.dtype == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
}

/* ---- parameters */
static void add_axis(TsTileType *t, int64_t size, int64_t stride) {
  t->dim[t->rank] = size;
  t->stride[t->rank++] = stride;
}

static void settle(TsTileType *t) {
  t->strided = !ts_shape_row_major(t->rank, t->dim, t->stride);
  if (!t->strided) memset(t->stride, 0, sizeof t->stride);
}

static TsTileType type_of(const TsProductLower *l, const TsProductAccess *a) {
  TsTileType t = {.dtype = a->v->meta.dtype};
  int batch = l->naxis - 2;
  bool result = a->side == TS_SIDE_result;
  int64_t size[2] = {l->axis[batch], l->axis[batch + 1]};
  if (!result) size[a->side == TS_SIDE_a] = l->k;
  bool turned = !result && l->how.direct && ts_product_lies_across(a) == (a->side == TS_SIDE_a);
  for (int i = 0; i < (result ? l->naxis : batch); i++)
    if (a->moves[i]) add_axis(&t, l->axis[i], a->moves[i]);
  for (int n = 0; n < 2; n++) { /* copies lie along the last axis */
    int i = turned ? 1 - n : n;
    if (a->has[i]) add_axis(&t, size[i], a->step[i]);
  }
  settle(&t);
  return t;
}

static void put_params(TsProductLower *l) {
  for (int pass = 0, count = 0; pass < 2; pass++)
    for (int i = 0; i < l->naccess; i++) {
      TsProductAccess *a = &l->access[i];
      if (a->written != (pass == 1)) continue;
      char name[16];
      snprintf(name, sizeof name, pass ? "y%d" : "x%d", pass ? count++ : i);
      TsTileType t = type_of(l, a);
      a->param = ts_tile_param(l->tile, a->v->name ? a->v->name : name, &t, a->written);
    }
}

/* The innermost digit of r, which counts to n; the others stay. */
static TsTileVal next_of(TsTileBuild *b, TsTileVal *r, int64_t n) {
  if (n == 1) return ts_tile_index(b, 0);
  TsTileVal by = ts_tile_index(b, n), digit = ts_tile_op2(b, TS_OP_mod, *r, by);
  *r = ts_tile_op2(b, TS_OP_floordiv, *r, by);
  return digit;
}

/* ---- the rounds: blocks of columns outside, of rows within, so that a thread's next round
 * reads the same columns; matrices of the batch outermost */
static void put_position(TsProductLower *l, TsTileVal r) {
  TsTileBuild *b = &l->b;
  int batch = l->naxis - 2;
  int64_t rows = (l->axis[batch] + l->block[0] - 1) / l->block[0];
  int64_t cols = (l->axis[batch + 1] + l->block[1] - 1) / l->block[1];
  TsTileVal m = next_of(b, &r, rows), n = next_of(b, &r, cols);
  for (int i = batch; i-- > 0;) {
    TsTileVal by = ts_tile_index(b, l->axis[i]);
    l->at[i] = i ? ts_tile_op2(b, TS_OP_mod, r, by) : r;
    if (i) r = ts_tile_op2(b, TS_OP_floordiv, r, by);
  }
  l->at[batch] = rows > 1 ? ts_tile_op2(b, TS_OP_mul, m, ts_tile_index(b, l->block[0])) : m;
  l->at[batch + 1] = cols > 1 ? ts_tile_op2(b, TS_OP_mul, n, ts_tile_index(b, l->block[1])) : n;
}

/* As many columns as there are, in a power of two. */
static void gpu_block(int64_t cols, int64_t block[2]) {
  block[1] = 1;
  while (block[1] < cols && block[1] < GPU_MOST) block[1] *= 2;
  block[0] = GPU_BLOCK / block[1] < GPU_MOST ? GPU_BLOCK / block[1] : GPU_MOST;
}

/* A, or the first that has all its elements. */
static const TsProductAccess *first_whole(const TsProductLower *l) {
  const TsProductAccess *a = &l->access[0];
  while (!a->has[0] || !a->has[1]) a++;
  return a;
}

static TsProductSize size_of(const TsProductLower *l) {
  int batch = l->naxis - 2;
  const TsProductAccess *a = first_whole(l);
  TsProductSize size = {.m = l->axis[batch],
                        .n = l->axis[batch + 1],
                        .k = l->k,
                        .batch = 1,
                        .threads = l->s->threads,
                        .transposed = a->step[0] == 1 && a->step[1] != 1,
                        .pairs = ts_tile_pairs_named(l->unit)};
  for (int i = 0; i < batch; i++) size.batch *= l->axis[i];
  size.high = l->g->choice.high, size.steps = l->g->choice.depth;
  return size;
}

/* Blocks of GPUs are their own. Of a CPU's matrix unit the registers are. */
static void say(TsProductLower *l, const TsProductSize *size) {
  const TsTarget *t = l->s->target;
  int mr = -1, nv;
  l->told = true;
  if (ts_target_gpu(t)) {
    for (int i = 0; i < TS_CHOICE_FIELDS; i++) *ts_choice_at(&l->took, i) = -1;
    return;
  }
  if (size->pairs != TS_PAIRS_amx_bf16)
    ts_tile_product_registers(t, t->vector_bytes / ts_dtypes[l->d].nbytes, size->m, size->n,
                              size->high, &mr, &nv);
  l->took = (TsSchedChoice){
      .rows = (int)l->block[0], .columns = (int)l->block[1], .high = size->high ? mr : 0};
}

static int put_rounds(TsProductLower *l) {
  TsProductSize size = size_of(l);
  const TsSchedChoice *c = &l->g->choice;
  ts_sched_choice_head(c, l->tile);
  if (l->square)
    l->tile->threads = l->how.threads, l->tile->stages = l->how.stages;
  else if (ts_target_gpu(l->s->target))
    gpu_block(size.n, l->block);
  else
    ts_tile_product_near(l->s->target, l->d, &size, c->rows, c->columns, l->block);
  say(l, &size);
  int64_t rounds = size.batch * ((size.m + l->block[0] - 1) / l->block[0]) *
                   ((size.n + l->block[1] - 1) / l->block[1]);
  l->tile->ntile = 2;
  memcpy(l->tile->tile, l->block, sizeof l->block);
  l->b = ts_tile_build(l->tile);
  TsTileLoop loop = ts_tile_for(&l->b, ts_tile_index(&l->b, 0), ts_tile_index(&l->b, rounds), 1,
                                true, 0, NULL);
  put_position(l, loop.i);
  /* What makes the operands stands before all else. */
  for (int prologue = 1; prologue >= 0; prologue--)
    for (int i = 0; i < l->g->nnode; i++)
      if ((l->side[i] != TS_SIDE_result) == prologue && ts_product_put(l, i)) return -1;
  for (int i = 0; i < l->naccess; i++)
    if (l->access[i].written) ts_product_store(l, &l->access[i]);
  ts_tile_for_end(&l->b, &loop, NULL, NULL);
  return l->tile->failed ? ts_error_memory(l->err) : 0;
}

static int open_product(TsProductLower *l) {
  l->product = ts_sched_product_of(l->g);
  if (!l->product || !l->s->target || !ts_sched_sides(l->g, l->side))
    return ts_product_refuse(l, "no product");
  const TsMeta *a = &l->product->in[0]->meta;
  int more = (ts_product_rows(l->product) == 1) + (ts_product_columns(l->product) == 1);
  if (l->g->naxis + more < 2 || l->g->naxis + more > TS_TILE_RANK)
    return ts_product_refuse(l, "no product");
  l->k = a->dim[a->ndim - 1];
  l->d = l->factor = sum_type(l->product);
  if (ts_sched_by_pairs(l->s, l->product)) l->unit = l->s->target->pairs;
  if (l->unit) l->factor = TS_DT_bf16;
  if (ts_product_operands(l)) return -1;
  if (!l->unit) l->square = (l->unit = ts_product_square_unit(l)) != NULL;
  ts_product_axes(l);
  TsProductSize size = size_of(l);
  if (l->square) ts_product_square_block(l, &size);
  return 0;
}

bool ts_sched_product_size(const TsSched *s, const TsGroup *group, TsProductSize *size,
                           TsDtype *d) {
  TsError ignored = {0};
  TsProductLower l = {.s = s, .g = group, .err = &ignored};
  if (open_product(&l)) return false;
  *size = size_of(&l);
  *d = l.d;
  return true;
}

static int lower(TsProductLower *l) {
  if (open_product(l)) return -1;
  if (!(l->tile = ts_tile_new(l->s->g->name))) return ts_error_memory(l->err);
  l->tile->target = l->s->target->name;
  put_params(l);
  return put_rounds(l);
}

void ts_sched_product_how(const TsSched *s, const TsGroup *group, TsText *text) {
  TsError ignored = {0};
  TsProductLower l = {.s = s, .g = group, .err = &ignored};
  if (group->kind != TS_GROUP_matmul || open_product(&l) || !l.square) return;
  ts_text_format(text, "by %s of %s: %lldx%lld by %d threads", l.unit, ts_dtype_name(l.factor),
                 (long long)l.block[0], (long long)l.block[1], l.how.threads);
  if (l.how.stages) ts_text_format(text, ", %d stages", l.how.stages);
  if (l.how.direct)
    ts_text_format(text, " copied past registers, %d bytes a lane", l.how.direct);
  if (l.how.paired) ts_text_str(text, ", waves in pairs take turns");
}

int ts_sched_lower_product(const TsSched *s, const TsGroup *group, TsLayoutFn *layout,
                           void *arg, TsSchedKernel *out, TsError *err) {
  TsProductLower l = {.s = s, .g = group, .layout = layout, .arg = arg, .err = err};
  if (lower(&l)) {
    ts_tile_free(l.tile);
    return -1;
  }
  *out = (TsSchedKernel){.tile = l.tile, .took = l.took, .told = l.told};
  for (int pass = 0, n = 0; pass < 2; pass++)
    for (int i = 0; i < l.naccess; i++)
      if (l.access[i].written == (pass == 1)) out->value[n++] = l.access[i].v;
  return 0;
}
