/* Copies between shared and device memory: boxes by the copy engine, and pieces by the threads. */
#include <stdio.h>
#include <string.h>

#include "jit/emit/roles/emit.h"

typedef LLVMValueRef V;

enum { GROUP = 128, GROUP_ROWS = 64, LARGEST_BOX = 256 };

/* A copy between a shared memory and a parameter: boxes of one view. In swizzled memory columns
 * lie in panels as wide as the pattern, one box each. */
typedef struct Boxes {
  TsTileVal shared, global;
  V at, row, col;         /* of the first box: address, position */
  int rows, cols, panels; /* of a box; how many boxes */
  int64_t panel;          /* bytes from one to the next */
  bool multicast;
  V head;     /* of a parameter of rank 3, or NULL: its boxes have all panels */
  V batch;    /* of one of rank 4 as well */
  bool boxed; /* of rank 4: boxes are parts of the columns all the same */
} Boxes;

static V view(TsRoles *m, const Boxes *x) {
  TsGpuMap map = {.param = x->global->index,
                  .rows = x->rows,
                  .cols = x->cols,
                  .panels = x->head && !x->boxed ? x->panels : 0,
                  .swizzle = x->shared->type.swizzle};
  TsGpuRoles *to = m->info;
  int i = 0;
  while (i < to->nmap && memcmp(&to->map[i], &map, sizeof map)) i++;
  if (i == to->nmap && i < TS_GPU_MAPS) to->map[to->nmap++] = map;
  if (i == TS_GPU_MAPS || !m->map[i]) ts_emit_fail(m->e, "too many views");
  return m->map[i];
}

/* The whole of a slot of shared memory, as far as it is this block's. */
static Boxes boxes_of(TsRoles *m, TsTileVal shared, TsTileVal global,
                      const TsTileVal *in_shared, const TsTileVal *in_global) {
  const TsTileType *t = &shared->type;
  int bytes = ts_dtypes[t->dtype].nbytes;
  Boxes x = {.shared = shared, .global = global};
  int rank = global->type.rank;
  bool strided = global->type.strided && (rank == 3 || global->type.stride[rank - 1] != 1);
  if (global->stmt || global->region || rank < 2 || rank > 4 || strided)
    ts_emit_fail(m->e, "copies are of matrices that are parameters");
  x.boxed = rank == 4 && ts_tile_dim_is(global->type.dim[3]);
  if (rank == 4) x.batch = ts_emit_scalar(m->e, *in_global++);
  if (rank > 2) x.head = ts_emit_scalar(m->e, *in_global++);
  if (ts_roles_zero(m, in_shared[1]) || ts_roles_zero(m, in_shared[2]))
    ts_emit_fail(m->e, "copies are of whole slots");
  x.at = ts_roles_slot(m, shared, ts_emit_scalar(m->e, in_shared[0]));
  x.row = ts_emit_scalar(m->e, in_global[0]), x.col = ts_emit_scalar(m->e, in_global[1]);
  int own = (int)ts_roles_own(m, t, 2);
  x.rows = (int)ts_roles_own(m, t, 1);
  x.cols = t->swizzle && own * bytes > t->swizzle ? t->swizzle / bytes : own;
  x.panels = own / x.cols;
  x.panel = (int64_t)x.rows * x.cols * bytes;
  if (t->split == 1) x.row = ts_roles_add(m, x.row, ts_roles_muli(m, m->rank, x.rows));
  if (t->split == 2) x.col = ts_roles_add(m, x.col, ts_roles_muli(m, m->rank, own));
  if (rank > 2 && !x.boxed &&
      (global->type.dim[rank - 1] % own || t->split || m->info->cluster > 1))
    ts_emit_fail(m->e, "copies are of whole rows of heads");
  if (x.cols > LARGEST_BOX || x.rows > LARGEST_BOX) ts_emit_fail(m->e, "a box is too large");
  return x;
}

/* What all blocks of a cluster need, each fetches a part of, for all. */
static void share(TsRoles *m, Boxes *x) {
  int n = m->info->cluster;
  if (n == 1 || x->shared->type.split) return;
  x->multicast = true;
  if (x->panels % n == 0) {
    x->panels /= n;
    x->col = ts_roles_add(m, x->col, ts_roles_muli(m, m->rank, x->panels * x->cols));
    x->at = ts_roles_add(m, x->at, ts_roles_muli(m, m->rank, x->panels * x->panel));
    return;
  }
  if (x->rows % n) ts_emit_fail(m->e, "a cluster cannot share this copy");
  x->rows /= n;
  x->row = ts_roles_add(m, x->row, ts_roles_muli(m, m->rank, x->rows));
  x->at = ts_roles_add(m, x->at, ts_roles_muli(m, m->rank, x->panel / n));
  if (x->panel / n % TS_ROLES_SWIZZLED) ts_emit_fail(m->e, "a part of a pattern");
}

/* Some rows of a slot, which begin where the pattern does: of a parameter of heads, panel by panel. */
static void copy_rows(TsRoles *m, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type, *from = &s->in[1]->type;
  const TsAttr *shape = ts_tile_attr(s, "shape");
  TsTileVal whole[3] = {s->in[4], s->in[6], s->in[6]};
  int64_t first = ts_roles_zero(m, s->in[5]);
  bool fits = from->rank == 3 && t->swizzle && t->split == 0 && m->info->cluster == 1 &&
              shape->n == 2 && shape->ints[1] == t->dim[2] && shape->ints[0] % 8 == 0 &&
              first % 8 == 0;
  if (!fits) ts_emit_fail(m->e, "copies are of whole slots, or of rows of heads");
  Boxes x = boxes_of(m, s->in[0], s->in[1], whole, s->in + 7);
  int64_t row = (int64_t)x.cols * ts_dtypes[t->dtype].nbytes;
  V barrier = ts_roles_slot(m, s->in[2], ts_emit_scalar(m->e, s->in[3]));
  int panels = x.panels;
  x.rows = (int)shape->ints[0], x.panels = 1;
  V map = view(m, &x);
  for (int i = 0; i < panels; i++) {
    V in[7] = {ts_roles_addi(m, x.at, i * x.panel + first * row),
               map,
               ts_roles_int(m, 0),
               x.row,
               ts_roles_int(m, i),
               x.head,
               barrier};
    ts_roles_asm(m, NULL,
                 "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [$0], [$1, {$2, $3, $4, $5}], [$6];",
                 "r,l,r,r,r,r,r,~{memory}", 7, in, true);
  }
}

static bool is_of_rows(const TsTileStmt *s) {
  const TsAttr *shape = ts_tile_attr(s, "shape");
  return s->in[0]->type.rank == 3 && s->nin == 10 && shape->type == TS_ATTR_ints &&
         shape->n == 2 && shape->ints[0] != s->in[0]->type.dim[1];
}

int64_t ts_roles_copied_bytes(TsRoles *m, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type;
  int64_t n = ts_roles_slot_bytes(m, t);
  return is_of_rows(s) ? n / t->dim[1] * ts_tile_attr(s, "shape")->ints[0] : n;
}

static void copied_whole(TsRoles *m, const TsTileStmt *s, const TsTileType *shared) {
  const TsAttr *shape = ts_tile_attr(s, "shape");
  bool whole = shape->type == TS_ATTR_ints && shape->n == 2 &&
               shape->ints[0] == shared->dim[1] && shape->ints[1] == shared->dim[2];
  if (!whole) ts_emit_fail(m->e, "copies are of whole slots");
}

/* A line of a matrix of numbers that are no pattern: one behind the other. */
static void copy_line(TsRoles *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  const TsTileType *t = &s->in[0]->type, *from = &s->in[1]->type;
  int64_t bytes = ts_roles_slot_bytes(m, t);
  bool fits = m->single && s->nin == 8 && from->rank == 2 && from->dim[1] == t->dim[1] &&
              from->space == TS_SPACE_global && !from->strided && bytes % 16 == 0 &&
              m->info->cluster == 1;
  if (!fits || ts_roles_zero(m, s->in[5]) || ts_roles_zero(m, s->in[7]))
    ts_emit_fail(m->e, "lines are copied whole, by one thread");
  V at = LLVMBuildSExt(b, ts_emit_scalar(m->e, s->in[6]), ts_emit_int_type(m->e, 64, 0), "");
  at = LLVMBuildMul(b, at, ts_emit_i64(m->e, bytes), "");
  V in[4] = {ts_roles_slot(m, s->in[0], ts_emit_scalar(m->e, s->in[4])),
             LLVMBuildGEP2(b, ts_emit_int_type(m->e, 8, 0),
                           ts_emit_registers(m->e, s->in[1])[0], &at, 1, ""),
             ts_roles_int(m, bytes),
             ts_roles_slot(m, s->in[2], ts_emit_scalar(m->e, s->in[3]))};
  ts_roles_asm(m, NULL,
               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [$0], [$1], $2, [$3];",
               "r,l,r,r,~{memory}", 4, in, true);
}

/* What nobody reads again the second cache gives up first: scratch stays in it. */
static void copy_once(TsRoles *m, const Boxes *x, V map, V barrier) {
  V in[6] = {x->at, map, ts_roles_int(m, 0), x->row, x->head, barrier};
  ts_roles_asm(m, NULL,
               "{\n\t.reg .b64 hint;\n\t"
               "createpolicy.fractional.L2::evict_first.b64 hint, 1.0;\n\t"
               "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".L2::cache_hint [$0], [$1, {$2, $3, $2, $4}], [$5], hint;\n\t}",
               "r,l,r,r,r,r,~{memory}", 6, in, true);
}

/* Boxes of one matrix of a batch. */
static void copy_parts(TsRoles *m, const Boxes *x, V map, V barrier) {
  for (int i = 0; i < x->panels; i++) {
    V in[8] = {ts_roles_addi(m, x->at, i * x->panel),
               map,
               ts_roles_addi(m, x->col, (int64_t)i * x->cols),
               x->row,
               x->head,
               x->batch,
               barrier,
               ts_emit_int(m->e, ts_emit_int_type(m->e, 16, 0), (1 << m->info->cluster) - 1)};
    if (x->multicast)
      ts_roles_asm(m, NULL,
                   "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                   ".multicast::cluster [$0], [$1, {$2, $3, $4, $5}], [$6], $7;",
                   "r,l,r,r,r,r,r,h,~{memory}", 8, in, true);
    else
      ts_roles_asm(m, NULL,
                   "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                   " [$0], [$1, {$2, $3, $4, $5}], [$6];",
                   "r,l,r,r,r,r,r,~{memory}", 7, in, true);
  }
}

void ts_roles_copy_bulk(TsRoles *m, const TsTileStmt *s) {
  int rank = s->in[1]->type.rank;
  if (s->in[0]->type.space == TS_SPACE_shared && s->in[0]->type.rank == 2) {
    copy_line(m, s);
    return;
  }
  if (s->in[0]->type.space != TS_SPACE_shared || s->nin != 7 + rank || !m->single)
    ts_emit_fail(m->e, "one thread copies to shared memory");
  if (is_of_rows(s)) {
    copy_rows(m, s);
    return;
  }
  copied_whole(m, s, &s->in[0]->type);
  Boxes x = boxes_of(m, s->in[0], s->in[1], s->in + 4, s->in + 7);
  share(m, &x);
  V barrier = ts_roles_slot(m, s->in[2], ts_emit_scalar(m->e, s->in[3])), map = view(m, &x);
  if (x.boxed) {
    copy_parts(m, &x, map, barrier);
    return;
  }
  if (x.batch) {
    V in[7] = {x.at, map, ts_roles_int(m, 0), x.row, x.head, x.batch, barrier};
    ts_roles_asm(m, NULL,
                 "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [$0], [$1, {$2, $3, $2, $4, $5}], [$6];",
                 "r,l,r,r,r,r,r,~{memory}", 7, in, true);
    return;
  }
  if (x.head && ts_tile_attr(s, "stream")->i) {
    copy_once(m, &x, map, barrier);
    return;
  }
  if (x.head) {
    V in[6] = {x.at, map, ts_roles_int(m, 0), x.row, x.head, barrier};
    ts_roles_asm(m, NULL,
                 "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [$0], [$1, {$2, $3, $2, $4}], [$5];",
                 "r,l,r,r,r,r,~{memory}", 6, in, true);
    return;
  }
  for (int i = 0; i < x.panels; i++) {
    LLVMTypeRef i16 = ts_emit_int_type(m->e, 16, 0);
    V in[6] = {ts_roles_addi(m, x.at, i * x.panel),
               map,
               ts_roles_addi(m, x.col, (int64_t)i * x.cols),
               x.row,
               barrier,
               ts_emit_int(m->e, i16, (1 << m->info->cluster) - 1)};
    if (x.multicast)
      ts_roles_asm(m, NULL,
                   "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                   ".multicast::cluster [$0], [$1, {$2, $3}], [$4], $5;",
                   "r,l,r,r,r,h,~{memory}", 6, in, true);
    else
      ts_roles_asm(m, NULL,
                   "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                   " [$0], [$1, {$2, $3}], [$4];",
                   "r,l,r,r,r,~{memory}", 5, in, true);
  }
}

/* A line, 16 bytes a thread: each group of warps of the role copies all of it, so that each
 * can wait for its own copies alone. What is outside is zero. */
void ts_roles_copy_async(TsRoles *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  TsTileVal to = s->in[0], from = s->in[1];
  if (to->type.rank == 3) {
    ts_roles_copy_tile(m, s);
    return;
  }
  const TsAttr *shape = ts_tile_attr(s, "shape");
  int bytes = ts_dtypes[to->type.dtype].nbytes, each = 16 / bytes;
  int64_t n = shape->type == TS_ATTR_ints && shape->n == 1 ? shape->ints[0] : 0;
  if (m->single || to->type.rank != 1 || from->type.rank != 1 || s->nin != 4 || n % each ||
      n / each > GROUP)
    ts_emit_fail(m->e, "threads copy lines to shared memory");
  LLVMTypeRef i64 = ts_emit_int_type(m->e, 64, 0);
  V t = ts_roles_andi(m, m->t, GROUP - 1), first = ts_roles_muli(m, t, each);
  V pos = ts_roles_add(m, ts_emit_scalar(m->e, s->in[3]), first);
  V end = LLVMBuildTrunc(b, ts_emit_size(m->e, from->type.dim[0]), ts_roles_i32(m), "");
  V inside = LLVMBuildICmp(b, LLVMIntSLT, pos, end, "");
  V here = LLVMBuildICmp(b, LLVMIntULT, first, ts_roles_int(m, n), "");
  pos = LLVMBuildSelect(b, inside, pos, ts_roles_int(m, 0), "");
  V far = LLVMBuildMul(b, LLVMBuildZExt(b, pos, i64, ""), ts_emit_i64(m->e, bytes), "");
  V place = ts_roles_add(m, ts_emit_scalar(m->e, s->in[2]), first);
  V in[4] = {ts_roles_add(m, ts_emit_registers(m->e, to)[0], ts_roles_muli(m, place, bytes)),
             LLVMBuildGEP2(b, ts_emit_int_type(m->e, 8, 0), ts_emit_registers(m->e, from)[0],
                           &far, 1, ""),
             LLVMBuildSelect(b, inside, ts_roles_int(m, 16), ts_roles_int(m, 0), ""),
             ts_roles_flag(m, here)};
  ts_roles_asm(m, NULL,
               "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $3, 0;\n\t"
               "@p cp.async.ca.shared.global [$0], [$1], 16, $2;\n\t}",
               "r,l,r,r,~{memory}", 4, in, true);
}

/* Panels of 64 rows of a head, one after the other: in shared memory they are not
 * neighbours. */
static void store_head(TsRoles *m, Boxes *x, int first) {
  int panels = x->panels;
  V below = ts_roles_muli(m, m->group, GROUP_ROWS), row = ts_roles_add(m, x->row, below);
  V at =
      ts_roles_add(m, x->at, ts_roles_muli(m, m->group, GROUP_ROWS * x->shared->type.swizzle));
  x->rows = GROUP_ROWS, x->panels = 1;
  V map = view(m, x);
  for (int i = 0; i < panels; i++) {
    V in[8] = {map,
               ts_roles_addi(m, at, i * x->panel),
               ts_roles_int(m, 0),
               row,
               ts_roles_int(m, first + i),
               x->head,
               m->leader,
               x->batch};
    ts_roles_asm(m, NULL,
                 x->batch ? "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $6, 0;\n\t"
                            "@p cp.async.bulk.tensor.5d.global.shared::cta.bulk_group"
                            " [$0, {$2, $3, $4, $5, $7}], [$1];\n\t}"
                          : "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $6, 0;\n\t"
                            "@p cp.async.bulk.tensor.4d.global.shared::cta.bulk_group"
                            " [$0, {$2, $3, $4, $5}], [$1];\n\t}",
                 x->batch ? "l,r,r,r,r,r,r,r,~{memory}" : "l,r,r,r,r,r,r,~{memory}",
                 x->batch ? 8 : 7, in, true);
  }
  ts_roles_asm(m, NULL,
               "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $0, 0;\n\t"
               "@p cp.async.bulk.commit_group;\n\t}",
               "r,~{memory}", 1, &m->leader, true);
}

/* One thread stores all of a slot; its commit is a statement of its own. */
static void store_slot(TsRoles *m, const TsTileStmt *s) {
  int rank = s->in[0]->type.rank;
  copied_whole(m, s, &s->in[1]->type);
  Boxes x = boxes_of(m, s->in[1], s->in[0], s->in + 2 + rank, s->in + 2);
  bool add = ts_tile_attr(s, "add")->i;
  if (!x.batch) ts_emit_fail(m->e, "one thread stores rows of heads in batches");
  V in[6] = {view(m, &x), x.at, ts_roles_int(m, 0), x.row, x.head, x.batch};
  ts_roles_asm(m, NULL,
               add ? "cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.bulk_group"
                     " [$0, {$2, $3, $2, $4, $5}], [$1];"
                   : "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group"
                     " [$0, {$2, $3, $2, $4, $5}], [$1];",
               "l,r,r,r,r,r,~{memory}", 6, in, true);
}

/* Each group of warps stores its own rows. The commit that follows is part of it. */
void ts_roles_store_bulk(TsRoles *m, const TsTileStmt *s) {
  int rank = s->in[0]->type.rank;
  if (m->single) {
    store_slot(m, s);
    return;
  }
  if (ts_tile_attr(s, "add")->i) ts_emit_fail(m->e, "one thread adds");
  if (m->unit != TS_ROLES_wgmma || s->nin != 5 + rank || !s->next ||
      s->next->op != TS_TILE_commit)
    ts_emit_fail(m->e, "stores are of a role with a matrix unit, each a group");
  copied_whole(m, s, &s->in[1]->type);
  Boxes x = boxes_of(m, s->in[1], s->in[0], s->in + 2 + rank, s->in + 2);
  if (x.head && !x.boxed) {
    store_head(m, &x, (int)ts_roles_zero(m, s->in[1 + rank]) / x.cols);
    return;
  }
  if (x.panels != 1) ts_emit_fail(m->e, "stores are as wide as the pattern");
  if (m->mma) x.rows = GROUP_ROWS;
  V below = ts_roles_muli(m, m->group, GROUP_ROWS);
  V at = ts_roles_add(m, x.at, ts_roles_muli(m, m->group, GROUP_ROWS * x.shared->type.swizzle));
  V in[7] = {view(m, &x), at, x.col, ts_roles_add(m, x.row, below), m->leader, x.head, x.batch};
  if (x.boxed) {
    ts_roles_asm(m, NULL,
                 "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $4, 0;\n\t"
                 "@p cp.async.bulk.tensor.4d.global.shared::cta.bulk_group"
                 " [$0, {$2, $3, $5, $6}], [$1];\n\t@p cp.async.bulk.commit_group;\n\t}",
                 "l,r,r,r,r,r,r,~{memory}", 7, in, true);
    return;
  }
  ts_roles_asm(
      m, NULL,
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $4, 0;\n\t"
      "@p cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [$0, {$2, $3}], [$1];\n\t"
      "@p cp.async.bulk.commit_group;\n\t}",
      "l,r,r,r,r,~{memory}", 5, in, true);
}
