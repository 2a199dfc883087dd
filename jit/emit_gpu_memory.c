/* Loads and stores of one thread: vectors of up to 16 bytes where positions allow, elements
 * with predicates at edges. */
#include <stdio.h>
#include <string.h>

#include "jit/emit_gpu.h"

typedef LLVMValueRef V;

enum {
  MOST = 16,   /* elements of a vector of a frame */
  KEEP = true, /* what all rounds read is held in the first cache, with a path of its own */
  PAST = true, /* stores leave the first cache to it */
};

/* ---- elements in memory */
LLVMTypeRef ts_gpu_stored(TsGpuEmit *g, TsDtype d) {
  return d == TS_DT_bool ? ts_emit_int_type(g->e, 8, 0) : ts_emit_elem(g->e, d);
}

V ts_gpu_to_stored(TsGpuEmit *g, TsDtype d, V x) {
  return d == TS_DT_bool ? LLVMBuildZExt(g->e->b, x, ts_gpu_stored(g, d), "") : x;
}

V ts_gpu_from_stored(TsGpuEmit *g, TsDtype d, V x) {
  return d == TS_DT_bool ? ts_emit_cast(g->e, TS_DT_bool, TS_DT_u8, x) : x;
}

/* The memory that a view is of. */
static TsTileVal whole(TsTileVal memory) {
  while (memory->stmt && memory->stmt->op == TS_TILE_view) memory = memory->stmt->in[0];
  return memory;
}

static bool writes(const TsTileRegion *r, TsTileVal memory) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    bool write = s->op == TS_TILE_store || s->op == TS_TILE_scatter;
    if (write && whole(s->in[0]) == memory) return true;
    for (int i = 0; i < s->nregion; i++)
      if (writes(s->region[i], memory)) return true;
  }
  return false;
}

bool ts_gpu_reads_only(const TsGpuEmit *g, TsTileVal memory) {
  return !writes(g->phase->loop->region[0], whole(memory));
}

void ts_gpu_memory_begin(TsGpuEmit *g, TsTileVal memory, V pointer) {
  const TsTileType *t = &memory->type;
  V *part = ts_emit_take(g->e, sizeof *part * (size_t)(1 + t->rank));
  V stride = ts_gpu_i64(g, 1);
  part[0] = pointer;
  for (int a = t->rank; a-- > 0;) {
    part[1 + a] = t->strided ? ts_gpu_i64(g, t->stride[a]) : stride;
    stride = LLVMBuildNSWMul(g->e->b, stride, ts_emit_size(g->e, t->dim[a]), "");
  }
  g->memory[memory->id] = part;
}

/* Threads meet where one may want what another wrote, or writes what another still reads. */
static void before_read(TsGpuEmit *g, TsTileVal memory) {
  if (ts_gpu_reads_only(g, memory)) return;
  if (g->wrote) ts_gpu_sync(g);
  g->read = true;
}

static bool reads(const TsTileRegion *r, TsTileVal memory) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    bool read = s->op == TS_TILE_load || s->op == TS_TILE_gather;
    if (read && whole(s->in[0]) == memory) return true;
    for (int i = 0; i < s->nregion; i++)
      if (reads(s->region[i], memory)) return true;
  }
  return false;
}

/* What the phase only writes is nobody's to wait for. */
static void before_write(TsGpuEmit *g, TsTileVal memory) {
  if (!reads(g->phase->loop->region[0], whole(memory))) return;
  if (g->read) ts_gpu_sync(g);
  g->wrote = true;
}

/* ---- one access */
typedef struct Access {
  TsTileVal memory;
  const TsTileVal *at;
  const V *part;
  TsDtype d;
  int rank, axis[TS_TILE_RANK]; /* of the memory, for the tile's axes */
  bool edge;
  bool all;  /* read by all rounds, written by none */
  int width; /* elements of a vector that positions allow */
} Access;

static Access access_of(TsGpuEmit *g, const TsTileStmt *s, const TsTileType *tile) {
  Access a = {.memory = s->in[0], .at = s->in + 1, .rank = tile->rank};
  const TsTileType *m = &a.memory->type;
  const TsAttr *axes = ts_tile_attr(s, "axes");
  a.d = (TsDtype)m->dtype;
  a.part = g->memory[a.memory->id];
  if (!a.part) ts_emit_fail(g->e, "%s: memory that a GPU has not", ts_tile_op_name(s->op));
  for (int i = 0; i < tile->rank; i++)
    a.axis[i] =
        axes->type == TS_ATTR_ints && axes->n ? (int)axes->ints[i] : m->rank - tile->rank + i;
  a.edge = ts_tile_attr(s, "edge")->i;
  a.all = s->op == TS_TILE_load && tile->rank && ts_gpu_for_all_rounds(g, s);
  bool own = m->space == TS_SPACE_local || m->space == TS_SPACE_shared;
  a.width = g->aligned || own || m->space == TS_SPACE_scratch ? ts_gpu_alignment(s) : 1;
  return a;
}

static V moved(TsGpuEmit *g, const Access *a, V p, V by) {
  LLVMTypeRef t = ts_gpu_stored(g, a->d);
  if (!by || (LLVMIsAConstantInt(by) && !LLVMConstIntGetSExtValue(by))) return p;
  return LLVMBuildGEP2(g->e->b, t, p, &by, 1, "");
}

static V times(TsGpuEmit *g, V x, V stride) {
  return LLVMIsAConstantInt(stride) ? ts_gpu_mul(g, x, LLVMConstIntGetSExtValue(stride))
                                    : LLVMBuildNSWMul(g->e->b, x, stride, "");
}

/* What is the same for all threads, then what is the thread's own, then what is known. */
static V pointer_of(TsGpuEmit *g, const Access *a, const TsGpuCoord *at) {
  V all = NULL, own = NULL, known = NULL;
  for (int k = 0; k < a->memory->type.rank; k++)
    all = ts_gpu_add(g, all, times(g, ts_gpu_scalar(g, a->at[k]), a->part[1 + k]));
  for (int i = 0; i < a->rank; i++) {
    V stride = a->part[1 + a->axis[i]];
    if (at[i].base) own = ts_gpu_add(g, own, times(g, at[i].base, stride));
    if (at[i].off) known = ts_gpu_add(g, known, times(g, ts_gpu_i64(g, at[i].off), stride));
  }
  return moved(g, a, moved(g, a, moved(g, a, a->part[0], all), own), known);
}

static V size_of(TsGpuEmit *g, const Access *a, int axis) {
  return ts_emit_size(g->e, a->memory->type.dim[axis]);
}

/* Position along an axis of the memory. */
static V position(TsGpuEmit *g, const Access *a, int axis, const TsGpuCoord *at) {
  V p = ts_gpu_scalar(g, a->at[axis]);
  for (int i = 0; i < a->rank; i++)
    if (a->axis[i] == axis) p = ts_gpu_add(g, p, ts_gpu_coord(g, at[i]));
  return p;
}

/* Inside along all axes but `but`. */
static V inside(TsGpuEmit *g, const Access *a, const TsGpuCoord *at, int but) {
  V all = NULL;
  for (int k = 0; k < a->memory->type.rank; k++)
    if (k != but)
      all = ts_gpu_and(g, all, ts_gpu_below(g, position(g, a, k, at), size_of(g, a, k)));
  return all;
}

/* ---- vectors of stored elements */
static int width_at(const Access *a, int n) {
  int w = a->width < n ? a->width : n;
  while (n % w) w /= 2;
  return w;
}

/* The type of an access to w elements: of words where elements are shorter than one. */
static LLVMTypeRef words(TsGpuEmit *g, const Access *a, int w, int *per) {
  int size = ts_dtypes[a->d].nbytes, nbytes = w * size;
  int word = size >= 4 ? size : nbytes >= 4 ? 4 : nbytes;
  LLVMTypeRef t =
      size >= 4 || w == 1 ? ts_gpu_stored(g, a->d) : ts_emit_int_type(g->e, 8 * word, 0);
  *per = w == 1 ? 1 : word / size;
  return nbytes > word && w > 1 ? LLVMVectorType(t, (unsigned)(nbytes / word)) : t;
}

static V lane_of(TsGpuEmit *g, V x, int i) {
  if (LLVMGetTypeKind(LLVMTypeOf(x)) != LLVMVectorTypeKind) return x;
  return LLVMBuildExtractElement(g->e->b, x,
                                 ts_emit_int(g->e, ts_emit_int_type(g->e, 32, 0), i), "");
}

/* What is read once does not displace in the first cache what all rounds read, and that
 * stays. */
static V read_hinted(TsGpuEmit *g, V p, bool once, int count) {
  const char *two[] = {"ld.global.nc.L1::evict_last.v2.b32 {$0, $1}, [$2];",
                       "ld.global.L1::no_allocate.v2.b32 {$0, $1}, [$2];"};
  const char *four[] = {"ld.global.nc.L1::evict_last.v4.b32 {$0, $1, $2, $3}, [$4];",
                        "ld.global.L1::no_allocate.v4.b32 {$0, $1, $2, $3}, [$4];"};
  const char *text = count == 4 ? four[once] : two[once];
  const char *constraints = count == 4 ? "=r,=r,=r,=r,l" : "=r,=r,l";
  LLVMTypeRef i32 = ts_emit_int_type(g->e, 32, 0), list[4] = {i32, i32, i32, i32};
  LLVMTypeRef all = LLVMStructTypeInContext(g->e->ctx, list, (unsigned)count, 0);
  LLVMTypeRef from = LLVMTypeOf(p), t = LLVMFunctionType(all, &from, 1, 0);
  V f = LLVMGetInlineAsm(t, text, strlen(text), constraints, strlen(constraints), g->stays, 0,
                         LLVMInlineAsmDialectATT, 0);
  return LLVMBuildCall2(g->e->b, t, f, &p, 1, "");
}

/* Two or four words of 32 bits in the memory that all blocks see. */
static bool takes_hints(const TsGpuEmit *g, const Access *a, LLVMTypeRef t) {
  if (g->host || a->memory->type.space != TS_SPACE_global) return false;
  if (LLVMGetTypeKind(t) != LLVMVectorTypeKind) return false;
  if (LLVMGetVectorSize(t) != 2 && LLVMGetVectorSize(t) != 4) return false;
  LLVMTypeRef word = LLVMGetElementType(t);
  return LLVMGetTypeKind(word) == LLVMFloatTypeKind ||
         (LLVMGetTypeKind(word) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(word) == 32);
}

static void read_vector(TsGpuEmit *g, const Access *a, V p, int n, V *out) {
  int w = width_at(a, n), per, size = ts_dtypes[a->d].nbytes;
  LLVMTypeRef t = words(g, a, w, &per), elem = ts_gpu_stored(g, a->d);
  bool hint = (g->once || (KEEP && a->all)) && takes_hints(g, a, t);
  for (int i = 0; i < n; i += w) {
    V at = moved(g, a, p, ts_gpu_i64(g, i));
    V x = hint ? read_hinted(g, at, g->once, (int)LLVMGetVectorSize(t))
               : LLVMBuildLoad2(g->e->b, t, at, "");
    if (!hint) LLVMSetAlignment(x, (unsigned)(w * size));
    for (int k = 0; k < w; k++) {
      V y = hint ? LLVMBuildExtractValue(g->e->b, x, (unsigned)(k / per), "")
                 : lane_of(g, x, k / per);
      if (hint && per == 1) y = LLVMBuildBitCast(g->e->b, y, elem, "");
      if (per > 1) {
        y = LLVMBuildLShr(g->e->b, y, ts_emit_int(g->e, LLVMTypeOf(y), k % per * 8 * size), "");
        y = LLVMBuildTrunc(g->e->b, y, elem, "");
      }
      out[i + k] = y;
    }
  }
}

static V packed(TsGpuEmit *g, const V *x, int per, int size, LLVMTypeRef word) {
  V y = NULL;
  if (per == 1) return x[0];
  if (per == 2 && size == 2 && (y = ts_gpu_short_pair(g, x[0], x[1]))) return y;
  for (int i = 0; i < per; i++) {
    V z = LLVMBuildZExt(g->e->b, x[i], word, "");
    z = LLVMBuildShl(g->e->b, z, ts_emit_int(g->e, word, i * 8 * size), "");
    y = y ? LLVMBuildOr(g->e->b, y, z, "") : z;
  }
  return y;
}

static bool some_for_all_rounds(const TsGpuEmit *g, const TsTileRegion *r);

static void write_past(TsGpuEmit *g, V p, V x) {
  LLVMBuilderRef b = g->e->b;
  bool four = LLVMGetVectorSize(LLVMTypeOf(x)) == 4;
  int count = four ? 4 : 2;
  const char *text = four ? "st.global.L1::no_allocate.v4.b32 [$0], {$1, $2, $3, $4};"
                          : "st.global.L1::no_allocate.v2.b32 [$0], {$1, $2};";
  const char *constraints = four ? "l,r,r,r,r" : "l,r,r";
  LLVMTypeRef i32 = ts_emit_int_type(g->e, 32, 0);
  LLVMTypeRef types[5] = {LLVMTypeOf(p), i32, i32, i32, i32};
  V in[5] = {p};
  for (int i = 0; i < count; i++) in[1 + i] = LLVMBuildBitCast(b, lane_of(g, x, i), i32, "");
  LLVMTypeRef t =
      LLVMFunctionType(LLVMVoidTypeInContext(g->e->ctx), types, (unsigned)count + 1, 0);
  V f = LLVMGetInlineAsm(t, text, strlen(text), constraints, strlen(constraints), 1, 0,
                         LLVMInlineAsmDialectATT, 0);
  LLVMBuildCall2(b, t, f, in, (unsigned)count + 1, "");
}

static void write_vector(TsGpuEmit *g, const Access *a, V p, int n, const V *x) {
  int w = width_at(a, n), per, size = ts_dtypes[a->d].nbytes;
  LLVMTypeRef t = words(g, a, w, &per);
  bool vector = LLVMGetTypeKind(t) == LLVMVectorTypeKind;
  LLVMTypeRef word = vector ? LLVMGetElementType(t) : t;
  bool past = PAST && takes_hints(g, a, t) &&
              some_for_all_rounds(g, g->phase->loop->region[0]) &&
              !reads(g->phase->loop->region[0], whole(a->memory));
  for (int i = 0; i < n; i += w) {
    V y = vector ? LLVMGetPoison(t) : NULL;
    for (int k = 0; k < w / per; k++) {
      V z = packed(g, x + i + k * per, per, size, word);
      y = vector ? LLVMBuildInsertElement(
                       g->e->b, y, z, ts_emit_int(g->e, ts_emit_int_type(g->e, 32, 0), k), "")
                 : z;
    }
    V at = moved(g, a, p, ts_gpu_i64(g, i));
    if (past)
      write_past(g, at, y);
    else
      LLVMSetAlignment(LLVMBuildStore(g->e->b, y, at), (unsigned)(w * size));
  }
}

/* ---- loads */
typedef struct Merge { /* values that come from several blocks */
  LLVMBasicBlockRef end, from[3];
  V x[3][MOST];
  int n;
} Merge;

static void come(TsGpuEmit *g, Merge *m, int n, const V *x) {
  memcpy(m->x[m->n], x, sizeof *x * (size_t)n);
  m->from[m->n++] = LLVMGetInsertBlock(g->e->b);
  LLVMBuildBr(g->e->b, m->end);
}

static void merge(TsGpuEmit *g, Merge *m, int n, V *out) {
  LLVMMoveBasicBlockAfter(m->end, LLVMGetLastBasicBlock(g->e->fn));
  LLVMPositionBuilderAtEnd(g->e->b, m->end);
  for (int i = 0; i < n; i++) {
    out[i] = LLVMBuildPhi(g->e->b, LLVMTypeOf(m->x[0][i]), "");
    for (int k = 0; k < m->n; k++) LLVMAddIncoming(out[i], &m->x[k][i], &m->from[k], 1);
  }
}

static LLVMBasicBlockRef block(TsGpuEmit *g) {
  return LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
}

static void branch(TsGpuEmit *g, V c, LLVMBasicBlockRef *yes, LLVMBasicBlockRef *no) {
  *yes = block(g), *no = block(g);
  LLVMBuildCondBr(g->e->b, c, *yes, *no);
  LLVMPositionBuilderAtEnd(g->e->b, *yes);
}

static bool along(const Access *a) {
  V s = a->rank ? a->part[1 + a->axis[a->rank - 1]] : NULL;
  return s && LLVMIsAConstantInt(s) && LLVMConstIntGetSExtValue(s) == 1;
}

/* n elements at these coordinates, which differ along the last axis. */
static void read_plain(TsGpuEmit *g, const Access *a, const TsGpuCoord (*at)[TS_TILE_RANK],
                       int n, V *out) {
  if (along(a)) {
    read_vector(g, a, pointer_of(g, a, at[0]), n, out);
    return;
  }
  for (int i = 0; i < n; i++) {
    out[i] = LLVMBuildLoad2(g->e->b, ts_gpu_stored(g, a->d), pointer_of(g, a, at[i]), "");
    LLVMSetAlignment(out[i], ts_dtypes[a->d].nbytes);
  }
}

static bool in_global(const Access *a) {
  return a->memory->type.space != TS_SPACE_local && a->memory->type.space != TS_SPACE_shared;
}

/* A vector is inside or outside as a whole. */
static bool undivided(const Access *a, int n) {
  int last = a->rank ? a->axis[a->rank - 1] : -1;
  if (last < 0 || a->width < n || !along(a)) return n == 1;
  int64_t size = a->memory->type.dim[last];
  return n == 1 || (!ts_tile_dim_is(size) && size % n == 0);
}

/* One vector, `by` bytes behind p, where c holds, else `out` as it is: loads without branches
 * between them are under way together. As text, for LLVM has no such load. */
static void read_guarded(TsGpuEmit *g, const Access *a, V p, int by, V c, int n, V *out) {
  int per, size = ts_dtypes[a->d].nbytes;
  LLVMBuilderRef b = g->e->b;
  LLVMTypeRef elem = ts_gpu_stored(g, a->d);
  words(g, a, n, &per);
  int count = n / per, bits = 8 * size * per;
  LLVMTypeRef whole = ts_emit_int_type(g->e, bits < 32 ? 32 : bits, 0), types[6],
              result = whole;
  char text[160], constraints[64];
  const char *r = bits == 64 ? "l" : "r";
  int at = count > 1
               ? snprintf(text, sizeof text, "@$%d ld.global.v%d.b%d {", count + 1, count, bits)
               : snprintf(text, sizeof text, "@$%d ld.global.b%d ", count + 1, bits);
  for (int i = 0; i < count; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, i ? ", $%d" : "$%d", i);
  snprintf(text + at, sizeof text - (size_t)at, "%s, [$%d+%d];", count > 1 ? "}" : "", count,
           by);
  at = 0;
  for (int i = 0; i < count; i++) at += snprintf(constraints + at, 8, i ? ",=%s" : "=%s", r);
  at += snprintf(constraints + at, 8, ",l,b");
  V in[6] = {p, c};
  types[0] = LLVMTypeOf(p), types[1] = LLVMTypeOf(c);
  for (int i = 0; i < count; i++) {
    at += snprintf(constraints + at, 8, ",%d", i);
    V x = packed(g, out + i * per, per, size, whole);
    if (per == 1) {
      x = LLVMBuildBitCast(b, x, ts_emit_int_type(g->e, 8 * size, 0), "");
      if (size < 4) x = LLVMBuildZExt(b, x, whole, "");
    }
    in[2 + i] = x, types[2 + i] = whole;
  }
  if (count > 1) {
    LLVMTypeRef list[4] = {whole, whole, whole, whole};
    result = LLVMStructTypeInContext(g->e->ctx, list, (unsigned)count, 0);
  }
  LLVMTypeRef ft = LLVMFunctionType(result, types, (unsigned)(2 + count), 0);
  V f = LLVMGetInlineAsm(ft, text, strlen(text), constraints, strlen(constraints), 1, 0,
                         LLVMInlineAsmDialectATT, 0);
  V y = LLVMBuildCall2(b, ft, f, in, (unsigned)(2 + count), "");
  for (int i = 0; i < n; i++) {
    V w = count > 1 ? LLVMBuildExtractValue(b, y, (unsigned)(i / per), "") : y;
    if (i % per) w = LLVMBuildLShr(b, w, ts_emit_int(g->e, whole, i % per * 8 * size), "");
    if (size < 4) w = LLVMBuildTrunc(b, w, ts_emit_int_type(g->e, 8 * size, 0), "");
    out[i] = LLVMBuildBitCast(b, w, elem, "");
  }
}

/* One element, `by` bytes behind p, where c holds. */
static void write_guarded(TsGpuEmit *g, const Access *a, V p, int by, V c, V x) {
  int size = ts_dtypes[a->d].nbytes;
  LLVMBuilderRef b = g->e->b;
  char text[64], constraints[16];
  V in[3] = {p, LLVMBuildBitCast(b, x, ts_emit_int_type(g->e, 8 * size, 0), ""), c};
  if (size < 4) in[1] = LLVMBuildZExt(b, in[1], ts_emit_int_type(g->e, 32, 0), "");
  snprintf(text, sizeof text, "@$2 st.global.b%d [$0+%d], $1;", 8 * size, by);
  snprintf(constraints, sizeof constraints, "l,%s,b", size == 8 ? "l" : "r");
  LLVMTypeRef types[3] = {LLVMTypeOf(in[0]), LLVMTypeOf(in[1]), LLVMTypeOf(in[2])};
  LLVMTypeRef ft = LLVMFunctionType(LLVMVoidTypeInContext(g->e->ctx), types, 3, 0);
  V f = LLVMGetInlineAsm(ft, text, strlen(text), constraints, strlen(constraints), 1, 0,
                         LLVMInlineAsmDialectATT, 0);
  LLVMBuildCall2(b, ft, f, in, 3, "");
}

/* Elements side by side in the memory that all blocks see: each has a predicate, which is the
 * fewest instructions that the driver's compiler has to look at. */
static bool by_predicates(const TsGpuEmit *g, const Access *a) {
  int size = ts_dtypes[a->d].nbytes;
  return !g->host && in_global(a) && along(a) && size <= 8 && (size & (size - 1)) == 0;
}

/* For each of n elements at these coordinates whether it is inside, if valid. */
static void each_inside(TsGpuEmit *g, const Access *a, V valid, const TsGpuCoord *at, int n,
                        V *in) {
  int axis = a->axis[a->rank - 1];
  V p = position(g, a, axis, at), size = size_of(g, a, axis);
  valid = ts_gpu_and(g, valid, inside(g, a, at, axis));
  for (int i = 0; i < n; i++) {
    V below = ts_gpu_below(g, ts_gpu_add(g, p, ts_gpu_i64(g, i)), size);
    in[i] = ts_gpu_and(g, valid, below);
  }
}

static void read_each(TsGpuEmit *g, const Access *a, V valid,
                      const TsGpuCoord (*at)[TS_TILE_RANK], int n, const V *fill, V *out) {
  V in[MOST], p = pointer_of(g, a, at[0]);
  each_inside(g, a, valid, at[0], n, in);
  memcpy(out, fill, sizeof *out * (size_t)n);
  for (int i = 0; i < n; i++)
    read_guarded(g, a, p, i * ts_dtypes[a->d].nbytes, in[i], 1, out + i);
}

/* Some elements are inside: those outside read what is nearest. */
static void read_some(TsGpuEmit *g, const Access *a, const TsGpuCoord (*at)[TS_TILE_RANK],
                      int n, const V *fill, V *out) {
  int axis = a->axis[a->rank - 1];
  V first = position(g, a, axis, at[0]), size = size_of(g, a, axis);
  for (int i = 0; i < n; i++) {
    V p = ts_gpu_add(g, first, ts_gpu_i64(g, i)), in = ts_gpu_below(g, p, size);
    V near = ts_emit_call2(g->e, "llvm.smax", p, ts_gpu_i64(g, 0));
    near = ts_emit_call2(g->e, "llvm.smin", near, ts_gpu_add(g, size, ts_gpu_i64(g, -1)));
    V by = times(g, LLVMBuildSub(g->e->b, near, first, ""), a->part[1 + axis]);
    V x = LLVMBuildLoad2(g->e->b, ts_gpu_stored(g, a->d),
                         moved(g, a, pointer_of(g, a, at[0]), by), "");
    LLVMSetAlignment(x, ts_dtypes[a->d].nbytes);
    out[i] = LLVMBuildSelect(g->e->b, in, x, fill[i], "");
  }
}

/* Whether all, or at least one, of n elements are inside. */
static V all_inside(TsGpuEmit *g, const Access *a, const TsGpuCoord *at, int n, V *some) {
  LLVMBuilderRef b = g->e->b;
  int axis = a->rank ? a->axis[a->rank - 1] : -1;
  V rest = inside(g, a, at, axis);
  *some = NULL;
  if (axis < 0) return rest;
  V p = position(g, a, axis, at), size = size_of(g, a, axis);
  if (undivided(a, n)) return ts_gpu_and(g, rest, ts_gpu_below(g, p, size));
  V from = LLVMBuildICmp(b, LLVMIntSGE, p, ts_gpu_i64(g, 0), "");
  V until = LLVMBuildICmp(b, LLVMIntSLE, ts_gpu_add(g, p, ts_gpu_i64(g, n)), size, "");
  V begins = LLVMBuildICmp(b, LLVMIntSLT, p, size, "");
  V ends = LLVMBuildICmp(b, LLVMIntSGT, p, ts_gpu_i64(g, -n), "");
  *some = ts_gpu_and(g, rest, ts_gpu_and(g, begins, ends));
  return ts_gpu_and(g, rest, ts_gpu_and(g, from, until));
}

static void read_elems(TsGpuEmit *g, const TsTileStmt *s, const Access *a, V valid,
                       const TsGpuCoord (*at)[TS_TILE_RANK], int n, V *out) {
  V fill[MOST], x[MOST], some = NULL, all = NULL;
  double with = a->edge ? ts_tile_attr(s, "fill")->f : 0;
  for (int i = 0; i < n; i++)
    fill[i] = ts_gpu_to_stored(g, a->d, ts_emit_number(g->e, a->d, 0, with));
  if (a->edge) all = all_inside(g, a, at[0], n, &some);
  if (!all && !valid) {
    read_plain(g, a, at, n, out);
  } else if (!g->host && in_global(a) && undivided(a, n)) {
    memcpy(out, fill, sizeof *out * (size_t)n);
    read_guarded(g, a, pointer_of(g, a, at[0]), 0, ts_gpu_and(g, valid, all), n, out);
  } else {
    Merge m = {.end = block(g)};
    LLVMBasicBlockRef yes, no;
    branch(g, ts_gpu_and(g, valid, all), &yes, &no);
    read_plain(g, a, at, n, x);
    come(g, &m, n, x);
    LLVMPositionBuilderAtEnd(g->e->b, no);
    if (some && by_predicates(g, a)) {
      read_each(g, a, valid, at, n, fill, x);
      come(g, &m, n, x);
      merge(g, &m, n, out);
      for (int i = 0; i < n; i++) out[i] = ts_gpu_from_stored(g, a->d, out[i]);
      return;
    }
    if (some) {
      LLVMBasicBlockRef part, none;
      branch(g, ts_gpu_and(g, valid, some), &part, &none);
      read_some(g, a, at, n, fill, x);
      come(g, &m, n, x);
      LLVMPositionBuilderAtEnd(g->e->b, none);
    }
    come(g, &m, n, fill);
    merge(g, &m, n, out);
  }
  for (int i = 0; i < n; i++) out[i] = ts_gpu_from_stored(g, a->d, out[i]);
}

void ts_gpu_load_chunk(TsGpuEmit *g, TsGpuFrame *f, const TsTileStmt *s, int chunk, V *out) {
  Access a = access_of(g, s, &s->out[0]->type);
  read_elems(g, s, &a, f->valid[chunk],
             (const TsGpuCoord(*)[TS_TILE_RANK])f->at + chunk * f->vector, f->vector, out);
}

V ts_gpu_load_at(TsGpuEmit *g, const TsTileStmt *s, const TsGpuCoord *at) {
  Access a = access_of(g, s, &s->out[0]->type);
  V x;
  read_elems(g, s, &a, NULL, (const TsGpuCoord(*)[TS_TILE_RANK])at, 1, &x);
  return x;
}

V ts_gpu_row_at(TsGpuEmit *g, const TsTileStmt *s) {
  Access a = access_of(g, s, &s->out[0]->type);
  const TsGpuCoord at[TS_TILE_RANK] = {{0}};
  if (a.edge || a.rank != 1 || !along(&a) || !in_global(&a)) return NULL;
  return a.width * ts_dtypes[a.d].nbytes == 16 ? pointer_of(g, &a, at) : NULL;
}

void ts_gpu_read_row(TsGpuEmit *g, TsDtype d, V p, int n, V *out) {
  int size = ts_dtypes[d].nbytes;
  Access a = {.d = d, .width = n * size > 16 ? 16 / size : n};
  read_vector(g, &a, p, n, out);
  for (int i = 0; i < n; i++) out[i] = ts_gpu_from_stored(g, d, out[i]);
}

/* What all rounds read is in the caches, and waits in no register for its use. */
bool ts_gpu_for_all_rounds(const TsGpuEmit *g, const TsTileStmt *s) {
  if (!ts_gpu_reads_only(g, s->in[0])) return false;
  for (int i = 1; i < s->nin; i++)
    if (!s->in[i]->stmt || s->in[i]->stmt->op != TS_TILE_const) return false;
  return true;
}

static bool some_for_all_rounds(const TsGpuEmit *g, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == TS_TILE_load && s->out[0]->type.rank && ts_gpu_for_all_rounds(g, s))
      return true;
    for (int i = 0; i < s->nregion; i++)
      if (some_for_all_rounds(g, s->region[i])) return true;
  }
  return false;
}

static bool has(const TsTileRegion *r, int op) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == op) return true;
    for (int i = 0; i < s->nregion; i++)
      if (has(s->region[i], op)) return true;
  }
  return false;
}

/* Loads stand before branches that they are wanted behind: these stay there. */
void ts_gpu_load(TsGpuEmit *g, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  before_read(g, s->in[0]);
  if (!y->type.rank) {
    TsGpuCoord at[TS_TILE_RANK] = {{0}};
    V x = ts_gpu_load_at(g, s, at);
    ts_gpu_define(g, y, &x);
    return;
  }
  if (!ts_gpu_resident(g, &y->type)) {
    if (!ts_gpu_reads_only(g, s->in[0]))
      ts_emit_fail(g->e, "a tile of changing memory is too large for registers");
    ts_gpu_walk_load(g, s);
    return; /* whoever wants elements reads them */
  }
  if (ts_gpu_for_all_rounds(g, s)) return;
  const TsTileRegion *all = g->phase->loop->region[0];
  g->stays = ts_gpu_reads_only(g, s->in[0]) && has(all, TS_TILE_rare);
  g->once = g->stays || (ts_gpu_reads_only(g, s->in[0]) && some_for_all_rounds(g, all));
  TsGpuFrame *f = ts_gpu_frame(g, &y->type);
  V *list = ts_emit_take(g->e, sizeof *list * (size_t)(f->vector * f->chunks));
  for (int k = 0; k < f->chunks; k++) ts_gpu_load_chunk(g, f, s, k, list + k * f->vector);
  g->once = g->stays = false;
  ts_gpu_define(g, y, list);
}

/* ---- stores */
static void write_plain(TsGpuEmit *g, const Access *a, const TsGpuCoord (*at)[TS_TILE_RANK],
                        int n, const V *x) {
  if (along(a)) {
    write_vector(g, a, pointer_of(g, a, at[0]), n, x);
    return;
  }
  for (int i = 0; i < n; i++)
    LLVMSetAlignment(LLVMBuildStore(g->e->b, x[i], pointer_of(g, a, at[i])),
                     ts_dtypes[a->d].nbytes);
}

static void write_each(TsGpuEmit *g, const Access *a, V valid,
                       const TsGpuCoord (*at)[TS_TILE_RANK], int n, const V *x) {
  V in[MOST], p = pointer_of(g, a, at[0]);
  each_inside(g, a, valid, at[0], n, in);
  for (int i = 0; i < n; i++) write_guarded(g, a, p, i * ts_dtypes[a->d].nbytes, in[i], x[i]);
}

static void write_some(TsGpuEmit *g, const Access *a, const TsGpuCoord (*at)[TS_TILE_RANK],
                       int n, const V *x) {
  int axis = a->axis[a->rank - 1];
  for (int i = 0; i < n; i++) {
    V in = ts_gpu_below(g, position(g, a, axis, at[i]), size_of(g, a, axis));
    LLVMBasicBlockRef after = ts_gpu_if(g, in);
    write_plain(g, a, at + i, 1, x + i);
    ts_gpu_if_end(g, after);
  }
}

static void write_elems(TsGpuEmit *g, const Access *a, V valid,
                        const TsGpuCoord (*at)[TS_TILE_RANK], int n, const V *x) {
  V stored[MOST], some = NULL, all = NULL;
  for (int i = 0; i < n; i++) stored[i] = ts_gpu_to_stored(g, a->d, x[i]);
  if (a->edge) all = all_inside(g, a, at[0], n, &some);
  V c = ts_gpu_and(g, valid, all);
  if (!c) {
    write_plain(g, a, at, n, stored);
    return;
  }
  LLVMBasicBlockRef yes, no, end = block(g);
  branch(g, c, &yes, &no);
  write_plain(g, a, at, n, stored);
  LLVMBuildBr(g->e->b, end);
  LLVMPositionBuilderAtEnd(g->e->b, no);
  if (some && by_predicates(g, a)) {
    write_each(g, a, valid, at, n, stored);
  } else if (some) {
    LLVMBasicBlockRef after = ts_gpu_if(g, ts_gpu_and(g, valid, some));
    write_some(g, a, at, n, stored);
    ts_gpu_if_end(g, after);
  }
  LLVMBuildBr(g->e->b, end);
  LLVMMoveBasicBlockAfter(end, LLVMGetLastBasicBlock(g->e->fn));
  LLVMPositionBuilderAtEnd(g->e->b, end);
}

static void store_scalar(TsGpuEmit *g, const TsTileStmt *s, const Access *a) {
  TsGpuCoord at[1][TS_TILE_RANK] = {{{0}}};
  V x = ts_gpu_scalar(g, s->in[s->nin - 1]), first;
  first =
      LLVMBuildICmp(g->e->b, LLVMIntEQ, g->tid, ts_emit_int(g->e, LLVMTypeOf(g->tid), 0), "");
  write_elems(g, a, first, (const TsGpuCoord(*)[TS_TILE_RANK])at, 1, &x);
}

static void store_frame(TsGpuEmit *g, const Access *a, TsGpuFrame *f, TsTileVal x) {
  V *list = ts_gpu_slots(g, f, x);
  for (int k = 0; k < f->chunks; k++)
    write_elems(g, a, f->valid[k], (const TsGpuCoord(*)[TS_TILE_RANK])f->at + k * f->vector,
                f->vector, list + k * f->vector);
}

/* Chunk after chunk of a tile that has no frame. */
static void store_loose(TsGpuEmit *g, const Access *a, TsTileVal x) {
  TsGpuFrame probe = {.vector = 1};
  V n = ts_gpu_i64(g, 1), zero = ts_gpu_i64(g, 0);
  for (int i = 0; i < x->type.rank; i++)
    n = LLVMBuildNSWMul(g->e->b, n, ts_emit_size(g->e, x->type.dim[i]), "");
  ts_gpu_prepare(g, x);
  for (int v = g->phase->vector; v > 1 && probe.vector == 1; v /= 2) {
    int64_t last = x->type.dim[x->type.rank - 1];
    if (!ts_tile_dim_is(last) && last % v == 0) probe.vector = v;
  }
  V span = ts_gpu_i64(g, ts_gpu_frame_span(g, &probe));
  V chunks = LLVMBuildAdd(g->e->b, n, ts_gpu_add(g, span, ts_gpu_i64(g, -1)), "");
  chunks = LLVMBuildSDiv(g->e->b, chunks, span, "");
  TsGpuLoop l = ts_gpu_loop(g, zero, chunks, ts_gpu_i64(g, 1));
  store_frame(g, a, ts_gpu_frame_loose(g, &x->type, l.i), x);
  ts_gpu_loop_end(g, &l);
}

void ts_gpu_store_chunk(TsGpuEmit *g, const TsTileStmt *s, TsGpuFrame *f) {
  TsTileVal x = s->in[s->nin - 1];
  Access a = access_of(g, s, &x->type);
  store_frame(g, &a, f, x);
}

void ts_gpu_store(TsGpuEmit *g, const TsTileStmt *s) {
  TsTileVal x = s->in[s->nin - 1];
  Access a = access_of(g, s, &x->type);
  bool here = x->type.rank && ts_gpu_resident(g, &x->type);
  if (here) ts_gpu_force(g, x);
  before_write(g, s->in[0]);
  if (!x->type.rank)
    store_scalar(g, s, &a);
  else if (here)
    store_frame(g, &a, ts_gpu_frame(g, &x->type), x);
  else if (!ts_gpu_walk_store(g, s))
    store_loose(g, &a, x);
}

/* ---- elements at positions */
static V reach(TsGpuEmit *g, const TsTileStmt *s, V at, V *in) {
  TsTileVal memory = s->in[0];
  const V *part = g->memory[memory->id];
  TsDtype d = (TsDtype)s->in[1]->type.dtype;
  if (!part) ts_emit_fail(g->e, "%s: memory that a GPU has not", ts_tile_op_name(s->op));
  at = ts_emit_cast(g->e, TS_DT_i64, d, at);
  *in = ts_gpu_below(g, at, ts_emit_size(g->e, memory->type.dim[0]));
  V by = times(g, at, part[1]);
  return LLVMBuildGEP2(g->e->b, ts_gpu_stored(g, (TsDtype)memory->type.dtype), part[0], &by, 1,
                       "");
}

static V gathered(TsGpuEmit *g, const TsTileStmt *s, V valid, V at) {
  TsDtype d = (TsDtype)s->in[0]->type.dtype;
  V in, p = reach(g, s, at, &in);
  if (!ts_tile_attr(s, "edge")->i && !valid) {
    V y = LLVMBuildLoad2(g->e->b, ts_gpu_stored(g, d), p, "");
    LLVMSetAlignment(y, ts_dtypes[d].nbytes);
    return ts_gpu_from_stored(g, d, y);
  }
  V fill = ts_gpu_to_stored(g, d, ts_emit_number(g->e, d, 0, ts_tile_attr(s, "fill")->f)), x;
  Access a = {.memory = s->in[0], .d = d, .width = 1};
  if (!g->host && in_global(&a)) {
    read_guarded(g, &a, p, 0, ts_gpu_and(g, valid, in), 1, &fill);
    return ts_gpu_from_stored(g, d, fill);
  }
  Merge m = {.end = block(g)};
  LLVMBasicBlockRef yes, no;
  branch(g, ts_gpu_and(g, valid, in), &yes, &no);
  x = LLVMBuildLoad2(g->e->b, ts_gpu_stored(g, d), p, "");
  LLVMSetAlignment(x, ts_dtypes[d].nbytes);
  come(g, &m, 1, &x);
  LLVMPositionBuilderAtEnd(g->e->b, no);
  come(g, &m, 1, &fill);
  merge(g, &m, 1, &x);
  return ts_gpu_from_stored(g, d, x);
}

void ts_gpu_gather(TsGpuEmit *g, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  before_read(g, s->in[0]);
  if (!y->type.rank) {
    V x = gathered(g, s, NULL, ts_gpu_scalar(g, s->in[1]));
    ts_gpu_define(g, y, &x);
    return;
  }
  TsGpuFrame *f = ts_gpu_frame(g, &y->type);
  V *at = ts_gpu_slots(g, f, s->in[1]);
  V *list = ts_emit_take(g->e, sizeof *list * (size_t)(f->vector * f->chunks));
  for (int i = 0; i < f->vector * f->chunks; i++)
    list[i] = gathered(g, s, f->valid[i / f->vector], at[i]);
  ts_gpu_define(g, y, list);
}

static void scattered(TsGpuEmit *g, const TsTileStmt *s, V valid, V at, V x) {
  TsDtype d = (TsDtype)s->in[0]->type.dtype;
  V in, p = reach(g, s, at, &in);
  LLVMBasicBlockRef after = ts_gpu_if(g, ts_gpu_and(g, valid, in));
  LLVMSetAlignment(LLVMBuildStore(g->e->b, ts_gpu_to_stored(g, d, x), p), ts_dtypes[d].nbytes);
  ts_gpu_if_end(g, after);
}

void ts_gpu_scatter(TsGpuEmit *g, const TsTileStmt *s) {
  TsTileVal x = s->in[2];
  if (!x->type.rank) {
    before_write(g, s->in[0]);
    V first =
        LLVMBuildICmp(g->e->b, LLVMIntEQ, g->tid, ts_emit_int(g->e, LLVMTypeOf(g->tid), 0), "");
    scattered(g, s, first, ts_gpu_scalar(g, s->in[1]), ts_gpu_scalar(g, x));
    return;
  }
  TsGpuFrame *f = ts_gpu_frame(g, &x->type);
  V *at = ts_gpu_slots(g, f, s->in[1]), *list = ts_gpu_slots(g, f, x);
  before_write(g, s->in[0]);
  for (int i = 0; i < f->vector * f->chunks; i++)
    scattered(g, s, f->valid[i / f->vector], at[i], list[i]);
}
