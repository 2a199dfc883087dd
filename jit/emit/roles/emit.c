/* The walk over a kernel with roles: its statements, its function. See jit/emit/roles/emit.h. */
#include "jit/emit/roles/emit.h"

#include "jit/emit/simt/task.h"
#include "jit/gpu/persistent.h"

#include <stdio.h>
#include <string.h>

typedef LLVMValueRef V;

/* ---- statements */
static void size(TsRoles *m, const TsTileStmt *s) {
  V d = m->e->dim[ts_tile_attr(s, "index")->i];
  *ts_roles_define(m, s->out[0], 1) = LLVMBuildTrunc(m->e->b, d, ts_roles_i32(m), "");
}

/* The next launch relies on all before this one being over, so it may come behind the wait. */
static void await_launch(TsRoles *m) {
  if (!m->info->dependent) return;
  ts_roles_asm(m, NULL, "griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;",
               "~{memory}", 0, NULL, true);
}

static void statement(TsRoles *m, const TsTileStmt *s) {
  if (ts_roles_of_lanes(m, s)) return;
  if (s->op < TS_OP_COUNT) {
    ts_roles_pointwise(m, s);
    return;
  }
  switch (s->op) {
  case TS_TILE_for: ts_roles_loop(m, s); return;
  case TS_TILE_repeat: ts_roles_repeat(m, s); return;
  case TS_TILE_if: ts_roles_branch(m, s); return;
  case TS_TILE_alloc: ts_roles_alloc(m, s); return;
  case TS_TILE_dim: size(m, s); return;
  case TS_TILE_const:
  case TS_TILE_bits: ts_roles_constant(m, s); return;
  case TS_TILE_load: ts_roles_load(m, s); return;
  case TS_TILE_store:
  case TS_TILE_store_below: ts_roles_store(m, s); return;
  case TS_TILE_load_rows: ts_roles_load_rows(m, s); return;
  case TS_TILE_store_rows: ts_roles_put_rows(m, s); return;
  case TS_TILE_blank: ts_roles_blank(m, s); return;
  case TS_TILE_unpack: ts_roles_unpack(m, s); return;
  case TS_TILE_cast: ts_roles_cast(m, s); return;
  case TS_TILE_part: ts_roles_part(m, s); return;
  case TS_TILE_broadcast: ts_roles_broadcast(m, s); return;
  case TS_TILE_mma: ts_roles_product(m, s); return;
  case TS_TILE_outer: ts_roles_outer(m, s); return;
  case TS_TILE_await: ts_roles_await(m, s); return;
  case TS_TILE_arrive: ts_roles_arrive(m, s); return;
  case TS_TILE_expect: ts_roles_expect(m, s); return;
  case TS_TILE_copy_bulk: ts_roles_copy_bulk(m, s); return;
  case TS_TILE_copy_async: ts_roles_copy_async(m, s); return;
  case TS_TILE_store_bulk: ts_roles_store_bulk(m, s); return;
  case TS_TILE_commit: ts_roles_commit(m, s); return;
  case TS_TILE_wait: ts_roles_wait(m, s); return;
  case TS_TILE_sync: ts_roles_sync(m); return;
  case TS_TILE_pace: ts_roles_pace(m, s); return;
  case TS_TILE_ex2:
  case TS_TILE_lg2:
  case TS_TILE_inv:
  case TS_TILE_larger: ts_roles_function_of(m, s); return;
  case TS_TILE_iota: ts_roles_iota(m, s); return;
  case TS_TILE_quarter: ts_roles_quarter(m, s); return;
  case TS_TILE_row: ts_roles_row(m, s); return;
  case TS_TILE_claim: ts_roles_claim(m, s); return;
  case TS_TILE_own: ts_roles_own_of(m, s); return;
  case TS_TILE_turn: ts_roles_turn(m, s); return;
  case TS_TILE_barrier: ts_roles_barrier(m, s); return;
  case TS_TILE_until: ts_roles_until(m, s); return;
  case TS_TILE_signal: ts_roles_signal(m, s); return;
  case TS_TILE_await_launch: await_launch(m); return;
  case TS_TILE_fence:
    ts_roles_asm(m, NULL, "fence.proxy.async.shared::cta;", "~{memory}", 0, NULL, true);
    return;
  case TS_TILE_bitcast: ts_roles_same_bits(m, s); return;
  case TS_TILE_shl:
  case TS_TILE_shr:
  case TS_TILE_sar:
  case TS_TILE_mulhi:
  case TS_TILE_look:
  case TS_TILE_scale:
  case TS_TILE_ult: ts_roles_pointwise(m, s); return;
  case TS_TILE_registers: /* at the beginning of the role */
  case TS_TILE_yield: return;
  case TS_TILE_mark: ts_gpu_marks_put(&m->marks, s); return;
  default: ts_emit_fail(m->e, "%s has no code with roles", ts_tile_op_name(s->op));
  }
}

void ts_roles_region(TsRoles *m, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) statement(m, s);
}

/* ---- the kernel */
static V special(TsRoles *m, const char *name) {
  char text[64];
  snprintf(text, sizeof text, "mov.u32 $0, %%%s;", name);
  return ts_roles_asm(m, ts_roles_i32(m), text, "=r", 0, NULL, false);
}

/* Whether blocks that write no turns down run code without any: where softmax stands between products a
 * turn delays both. In kernels of products alone two codes cost more than turns, as processors share
 * their instructions; so they do where few of the warps multiply, and wait for memory. */
static bool has_two_codes(const TsRoles *m, const TsTileStmt *first) {
  int64_t multiply = 0;
  for (const TsTileStmt *s = first; s; s = s->next)
    if (s->op == TS_TILE_role && ts_roles_find(s->region[0], TS_TILE_mma))
      multiply += ts_tile_attr(s, "warps")->i;
  return 2 * multiply > m->info->threads / 32 && ts_roles_find(first->in_region, TS_TILE_ex2);
}

static void without_turns(TsRoles *m, const TsTileStmt *first, LLVMBasicBlockRef end) {
  LLVMBasicBlockRef with = ts_roles_block(m), without = ts_roles_block(m);
  uint32_t shared = m->shared;
  LLVMBuildCondBr(m->e->b, m->marks.listed, with, without);
  LLVMPositionBuilderAtEnd(m->e->b, without);
  ts_roles_emit(m, first, end);
  LLVMPositionBuilderAtEnd(m->e->b, with);
  m->shared = shared;
}

/* A round of the grid's loop. */
static void block_of(TsRoles *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  V block = m->task ? LLVMGetParam(m->e->fn, 1) : special(m, "ctaid.x");
  V number = LLVMBuildUDiv(b, block, ts_roles_int(m, m->info->cluster), "");
  V step = ts_roles_muli(m, number, ts_tile_attr(s, "step")->i);
  *ts_roles_define(m, s->region[0]->param[0], 1) =
      ts_roles_add(m, ts_emit_scalar(m->e, s->in[0]), step);
  const TsTileStmt *x = s->region[0]->first;
  for (; x && x->op != TS_TILE_role; x = x->next) statement(m, x);
  ts_roles_barriers(m, s->region[0]);
  LLVMBasicBlockRef end = ts_roles_block(m);
  if (m->marks.listed && has_two_codes(m, x)) without_turns(m, x, end);
  ts_gpu_marks_open(&m->marks);
  ts_roles_emit(m, x, end);
  LLVMPositionBuilderAtEnd(b, end);
}

static void map_parameter(TsRoles *m, unsigned index) {
  LLVMContextRef ctx = m->e->ctx;
  LLVMTypeRef bytes = LLVMArrayType2(LLVMInt8TypeInContext(ctx), 128);
  LLVMAttributeRef list[2] = {
      LLVMCreateTypeAttribute(ctx, LLVMGetEnumAttributeKindForName("byval", 5), bytes),
      LLVMCreateEnumAttribute(ctx, LLVMGetEnumAttributeKindForName("align", 5), 64)};
  for (int i = 0; i < 2; i++) LLVMAddAttributeAtIndex(m->e->fn, index + 1, list[i]);
}

enum { PTX_KERNEL = 71 };

/* How many maps there are is known when the copies were seen: room for all, a first walk
 * counts. */
static void function(TsRoles *m, int nmap) {
  TsEmit *e = m->e;
  const TsTile *k = e->k;
  LLVMTypeRef type[40], global = LLVMPointerTypeInContext(e->ctx, 1);
  unsigned n = 0, first = (unsigned)k->nparam + (m->info->scratch > 0);
  for (unsigned i = 0; i < first; i++) type[n++] = global;
  for (int i = 0; i < nmap; i++) type[n++] = LLVMPointerTypeInContext(e->ctx, 0);
  for (int i = 0; i < k->ndim; i++) type[n++] = ts_emit_int_type(e, 64, 0);
  e->fn = LLVMAddFunction(e->module, m->info->name,
                          LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), type, n, 0));
  LLVMSetFunctionCallConv(e->fn, PTX_KERNEL);
  ts_emit_launch(e, "nvvm.maxntid", "maxntidx", m->info->threads);
  ts_emit_launch(e, "nvvm.minctasm", "minctasm", 1);
  if (m->info->cluster > 1)
    ts_emit_launch(e, "nvvm.cluster_dim", "cluster_dim_x", m->info->cluster);
  ts_emit_grid_constants(e, (int)first, nmap);
  for (int i = 0; i < nmap; i++) {
    map_parameter(m, first + (unsigned)i);
    m->map[i] = LLVMGetParam(e->fn, first + (unsigned)i);
  }
  for (int i = 0; i < k->ndim; i++)
    e->dim[i] = LLVMGetParam(e->fn, first + (unsigned)(nmap + i));
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""));
  for (int i = 0; i < k->nparam; i++)
    *ts_roles_define(m, k->param[i], 1) = LLVMGetParam(e->fn, (unsigned)i);
  if (m->info->scratch) m->scratch = LLVMGetParam(e->fn, (unsigned)k->nparam);
}

static V dynamic_memory(TsRoles *m) {
  TsEmit *e = m->e;
  LLVMTypeRef t = LLVMArrayType2(LLVMInt8TypeInContext(e->ctx), 0);
  V memory = LLVMGetNamedGlobal(e->module, "shared_memory");
  if (memory) return LLVMBuildPtrToInt(e->b, memory, ts_roles_i32(m), "");
  memory = LLVMAddGlobalInAddressSpace(e->module, t, "shared_memory", 3);
  LLVMSetLinkage(memory, LLVMExternalLinkage);
  LLVMSetAlignment(memory, TS_ROLES_SWIZZLED);
  return LLVMBuildPtrToInt(e->b, memory, ts_roles_i32(m), "");
}

static bool is_last_size(const TsRoles *m, TsTileVal n) {
  return n->stmt && n->stmt->op == TS_TILE_dim &&
         ts_tile_attr(n->stmt, "index")->i == m->e->k->ndim - 1;
}

static const TsTileStmt *grid_of(TsRoles *m) {
  const TsTileStmt *grid = NULL;
  for (const TsTileStmt *s = m->e->k->body->first; s; s = s->next) {
    if (s->op != TS_TILE_for) continue;
    if (grid) ts_emit_fail(m->e, "one phase, not two");
    grid = s;
  }
  if (!grid || !ts_roles_find(grid->region[0], TS_TILE_role)) ts_emit_fail(m->e, "no roles");
  if (!is_last_size(m, grid->in[1]))
    ts_emit_fail(m->e,
                 "the grid's rounds are not the last size, which launches take them from");
  return grid;
}

/* Views that copies need, each once: of a parameter one for fetching, one for storing. */
static int count_maps(const TsTileRegion *r, bool *known) {
  int n = 0;
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    bool fetch = s->op == TS_TILE_copy_bulk;
    bool line = fetch && s->in[0]->type.rank == 2; /* needs none */
    if ((fetch && !line) || s->op == TS_TILE_store_bulk) {
      bool *is = &known[2 * s->in[fetch]->index + fetch];
      n += !*is;
      *is = true;
    }
    for (int i = 0; i < s->nregion; i++) n += count_maps(s->region[i], known);
  }
  return n;
}

/* The outline of e->k. Gives the number of views. */
static int begin(TsRoles *m) {
  TsEmit *e = m->e;
  const TsTile *k = e->k;
  TsGpuRoles *info = m->info;
  bool again = m->task && m->part > 0; /* views of parts before are there */
  if (!again) memset(info, 0, sizeof *info);
  info->threads = k->threads, info->cluster = k->cluster > 1 ? k->cluster : 1;
  info->nparam = k->nparam, info->ndim = k->ndim;
  snprintf(info->name, sizeof info->name, "%s", k->name);
  e->value = ts_emit_take(e, sizeof *e->value * (k->nvalue + 1));
  memset(e->value, 0, sizeof *e->value * (k->nvalue + 1));
  m->axis = ts_emit_take(e, k->nvalue + 1);
  memset(m->axis, 0, k->nvalue + 1);
  ts_roles_axes(m, k->body);
  bool *known = ts_emit_take(e, 2 * (size_t)k->nparam + 1);
  memset(known, 0, 2 * (size_t)k->nparam + 1);
  int nmap = count_maps(k->body, known);
  info->scratch = ts_roles_scratch_bytes(m, NULL);
  if (nmap > TS_GPU_MAPS || k->nparam + nmap + k->ndim > 39) ts_emit_fail(e, "too many views");
  return nmap;
}

/* Gives the loop over the grid. */
static const TsTileStmt *body(TsRoles *m, int nmap) {
  const TsTileStmt *grid = grid_of(m);
  m->smem = dynamic_memory(m);
  m->tid = special(m, "tid.x");
  m->rank = m->info->cluster > 1 ? special(m, "cluster_ctarank") : ts_roles_int(m, 0);
  if (!m->task)
    ts_gpu_marks_begin(&m->marks, &ts_gpu_marks_ptx, m->e, m->tid, special(m, "ctaid.x"),
                       m->info->threads / 32);
  for (const TsTileStmt *s = m->e->k->body->first; s != grid; s = s->next) statement(m, s);
  block_of(m, grid);
  bool whole = !m->task || m->part < 0;
  if (whole && m->info->nmap != nmap)
    ts_emit_fail(m->e, "%d views, not %d", m->info->nmap, nmap);
  return grid;
}

void ts_roles_module(TsEmit *e, TsGpuRoles *info) {
  TsRoles m = {.e = e, .info = info};
  int nmap = begin(&m);
  info->dependent = ts_roles_find(e->k->body, TS_TILE_await_launch) &&
                    ts_target_has(e->target, TS_UNIT_early);
  function(&m, nmap);
  body(&m, nmap);
  if (info->cluster > 1) ts_roles_meet(&m); /* others still write into this block's memory */
  ts_gpu_marks_end(&m.marks);
  LLVMBuildRetVoid(e->b);
  info->shared = m.shared;
}

/* ---- as a function of a persistent kernel */
static void map_word(TsRoles *m, int i, int words) {
  LLVMBuilderRef b = m->e->b;
  int64_t first = (words * 8 + TS_GPU_TASK_MAPS - 1) / TS_GPU_TASK_MAPS * TS_GPU_TASK_MAPS;
  V at = LLVMBuildPtrToInt(b, LLVMGetParam(m->e->fn, 0), ts_emit_int_type(m->e, 64, 0), "");
  at = LLVMBuildAdd(b, at, ts_emit_i64(m->e, first + (int64_t)i * TS_TENSOR_MAP_NBYTES), "");
  m->map[i] = LLVMBuildIntToPtr(b, at, LLVMPointerTypeInContext(m->e->ctx, 0), "");
}

int64_t ts_roles_task(TsEmit *e, TsGpuRoles *info, const char *name, int threads, int part) {
  TsRoles m = {.e = e, .info = info, .task = threads, .part = part};
  const TsTile *k = e->k;
  int nmap = begin(&m), nscratch = 0;
  for (const TsTileStmt *s = k->body->first; s; s = s->next)
    nscratch += s->op == TS_TILE_alloc && s->out[0]->type.space == TS_SPACE_scratch;
  if (info->cluster > 1) ts_emit_fail(e, "blocks of a cluster are no tasks");
  ts_gpu_task_function(e, name);
  for (int i = 0; i < k->nparam; i++)
    *ts_roles_define(&m, k->param[i], 1) = ts_gpu_task_pointer(e, i);
  if (info->scratch) m.scratch = ts_gpu_task_pointer(e, k->nparam); /* one behind the other */
  for (int i = 0; i < k->ndim; i++) e->dim[i] = ts_gpu_task_word(e, k->nparam + nscratch + i);
  for (int i = 0; i < nmap; i++) map_word(&m, i, k->nparam + nscratch + k->ndim);
  ts_roles_barriers_end(&m, body(&m, nmap)->region[0]);
  LLVMBuildRetVoid(e->b);
  return info->shared = m.shared;
}
