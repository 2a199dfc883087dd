/* What could be chosen for a group's kernel on a GPU: the tile of a product and the order of
 * its blocks; rows of attention; threads, vectors and pieces of what walks over elements. All
 * give the same bits. */
#include "ir/sched/sched.h"

enum { MATRIX_BYTES = 2 /* of elements that the matrix unit takes, at most */ };

typedef struct List {
  const TsGroup *g;
  TsSchedChoice *at;
  int n;
} List;

static void add(List *l, TsSchedChoice c) {
  for (int i = 0; i < l->n; i++)
    if (ts_sched_choice_same(&l->at[i], &c)) return;
  if (l->n < TS_SCHED_CHOICES) l->at[l->n++] = c;
}

static const int tile[][2] = {{128, 256}, {192, 192}, {128, 192}, {192, 128},
                              {128, 128}, {128, 64},  {64, 64}};

/* How many times larger or smaller. */
static double times_away(int have, int want) {
  return have > want ? (double)have / want : (double)want / have;
}

void ts_sched_gpu_tile(int *rows, int *columns) {
  double least = 0;
  int best = 0;
  for (size_t i = 0; i < sizeof tile / sizeof *tile; i++) {
    double away = times_away(tile[i][0], *rows) * times_away(tile[i][1], *columns);
    if (least && away >= least) continue;
    best = (int)i, least = away;
  }
  *rows = tile[best][0], *columns = tile[best][1];
}

static const TsNode *product_of(const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++)
    if (g->node[i]->op == TS_OP_matmul) return g->node[i];
  return NULL;
}

/* Of kernels by warps (ir/tile/gpu/warp_product_choice.c) some tiles and numbers of stages. */
static void warp_products(List *l) {
  const TsNode *n = product_of(l->g);
  if (!n || ts_dtypes[n->in[0]->meta.dtype].nbytes > MATRIX_BYTES) return;
  static const int some[][2] = {{128, 256}, {128, 128}, {64, 128}, {64, 64}};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++)
    for (int stages = 3; stages <= 4; stages++)
      add(l, (TsSchedChoice){.rows = some[i][0], .columns = some[i][1], .stages = stages});
  for (int stages = 2; stages <= 6; stages++) add(l, (TsSchedChoice){.stages = stages});
}

/* Tiles that are not much larger than the result, two blocks together or one; then another
 * order of the usual ones. */
static void products(List *l) {
  const TsNode *n = product_of(l->g);
  if (!n || ts_dtypes[n->in[0]->meta.dtype].nbytes > MATRIX_BYTES) return;
  const TsMeta *y = &n->out[0].meta;
  int64_t cols = y->dim[y->ndim - 1], rows = cols ? ts_meta_numel(y) / cols : 0;
  for (size_t i = 0; i < sizeof tile / sizeof *tile; i++)
    for (int cluster = 2; cluster >= 1; cluster--)
      if (tile[i][0] * cluster < 2 * rows && tile[i][1] < 2 * cols)
        add(l, (TsSchedChoice){.rows = tile[i][0], .columns = tile[i][1], .cluster = cluster});
  for (int group = 4; group <= 16; group *= 4) add(l, (TsSchedChoice){.group = group});
  for (int limit = 1; limit <= 32; limit *= 32) add(l, (TsSchedChoice){.limit = limit});
}

static void walks(List *l) {
  for (int threads = 64; threads <= 1024; threads *= 2)
    add(l, (TsSchedChoice){.threads = threads});
  for (int threads = 128; threads <= 512; threads *= 2)
    add(l, (TsSchedChoice){.threads = threads, .vector = 8});
  add(l, (TsSchedChoice){.vector = 8});
  for (int piece = 512; piece <= 8192 && !l->g->nrow; piece *= 2)
    add(l, (TsSchedChoice){.piece = piece});
}

/* Of queries; narrow heads alone have more than one. */
static void attentions(List *l) {
  for (int rows = 128; rows <= 192; rows += 64) add(l, (TsSchedChoice){.rows = rows});
}

int ts_sched_choices_gpu(const TsTarget *t, const TsGroup *g,
                         TsSchedChoice out[TS_SCHED_CHOICES]) {
  List l = {.g = g, .at = out};
  add(&l, (TsSchedChoice){0});
  switch (g->kind) {
  case TS_GROUP_matmul:
    if (ts_target_has(t, TS_UNIT_roles))
      products(&l);
    else
      warp_products(&l);
    break;
  case TS_GROUP_attention: attentions(&l); break;
  case TS_GROUP_map:
  case TS_GROUP_rows:
  case TS_GROUP_columns: walks(&l); break;
  default: break;
  }
  return l.n;
}
