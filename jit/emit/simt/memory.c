/* Elements and vectors in memory: of up to 16 bytes where positions allow, elements with
 * predicates at edges. What is read and written there: jit/emit/simt/load.c, store.c,
 * gather.c. */
#include "jit/emit/simt/memory.h"

typedef LLVMValueRef V;
typedef TsGpuAccess Access;

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

/* Two or four words of 32 bits in the memory that all blocks see. */
static bool takes_hints(const TsGpuEmit *g, const Access *a, LLVMTypeRef t) {
  if (!g->maker->read_hinted || g->meets || a->memory->type.space != TS_SPACE_global)
    return false;
  if (LLVMGetTypeKind(t) != LLVMVectorTypeKind) return false;
  if (LLVMGetVectorSize(t) != 2 && LLVMGetVectorSize(t) != 4) return false;
  LLVMTypeRef word = LLVMGetElementType(t);
  return LLVMGetTypeKind(word) == LLVMFloatTypeKind ||
         (LLVMGetTypeKind(word) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(word) == 32);
}

void ts_gpu_read_vector(TsGpuEmit *g, const Access *a, V p, int n, V *out) {
  int w = width_at(a, n), per, size = ts_dtypes[a->d].nbytes;
  LLVMTypeRef t = words(g, a, w, &per), elem = ts_gpu_stored(g, a->d);
  bool hint = !g->after && (g->once || a->all) && takes_hints(g, a, t);
  for (int i = 0; i < n; i += w) {
    V at = ts_gpu_moved(g, a, p, ts_gpu_i64(g, i));
    V x = hint ? g->maker->read_hinted(g, at, g->once, (int)LLVMGetVectorSize(t))
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

void ts_gpu_write_vector(TsGpuEmit *g, const Access *a, V p, int n, const V *x) {
  int w = width_at(a, n), per, size = ts_dtypes[a->d].nbytes;
  LLVMTypeRef t = words(g, a, w, &per);
  bool vector = LLVMGetTypeKind(t) == LLVMVectorTypeKind;
  LLVMTypeRef word = vector ? LLVMGetElementType(t) : t;
  for (int i = 0; i < n; i += w) {
    V y = vector ? LLVMGetPoison(t) : NULL;
    for (int k = 0; k < w / per; k++) {
      V z = packed(g, x + i + k * per, per, size, word);
      y = vector ? LLVMBuildInsertElement(
                       g->e->b, y, z, ts_emit_int(g->e, ts_emit_int_type(g->e, 32, 0), k), "")
                 : z;
    }
    V at = ts_gpu_moved(g, a, p, ts_gpu_i64(g, i));
    LLVMSetAlignment(LLVMBuildStore(g->e->b, y, at), (unsigned)(w * size));
  }
}

/* One vector, `by` bytes behind p, where c holds, else `out` as it is: loads without branches
 * between them are under way together. */
void ts_gpu_read_guarded(TsGpuEmit *g, const Access *a, V p, int by, V c, int n, V *out) {
  int per, size = ts_dtypes[a->d].nbytes;
  LLVMBuilderRef b = g->e->b;
  LLVMTypeRef elem = ts_gpu_stored(g, a->d);
  words(g, a, n, &per);
  int count = n / per, bits = 8 * size * per;
  LLVMTypeRef whole = ts_emit_int_type(g->e, bits < 32 ? 32 : bits, 0);
  V old[4];
  for (int i = 0; i < count; i++) {
    V x = packed(g, out + i * per, per, size, whole);
    if (per == 1) {
      x = LLVMBuildBitCast(b, x, ts_emit_int_type(g->e, 8 * size, 0), "");
      if (size < 4) x = LLVMBuildZExt(b, x, whole, "");
    }
    old[i] = x;
  }
  V y = g->maker->read_guarded(g, p, by, c, count, bits, old);
  for (int i = 0; i < n; i++) {
    V w = count > 1 ? LLVMBuildExtractValue(b, y, (unsigned)(i / per), "") : y;
    if (i % per) w = LLVMBuildLShr(b, w, ts_emit_int(g->e, whole, i % per * 8 * size), "");
    if (size < 4) w = LLVMBuildTrunc(b, w, ts_emit_int_type(g->e, 8 * size, 0), "");
    out[i] = LLVMBuildBitCast(b, w, elem, "");
  }
}

/* One element, `by` bytes behind p, where c holds. */
void ts_gpu_write_guarded(TsGpuEmit *g, const Access *a, V p, int by, V c, V x) {
  int size = ts_dtypes[a->d].nbytes;
  LLVMBuilderRef b = g->e->b;
  x = LLVMBuildBitCast(b, x, ts_emit_int_type(g->e, 8 * size, 0), "");
  if (size < 4) x = LLVMBuildZExt(b, x, ts_emit_int_type(g->e, 32, 0), "");
  g->maker->write_guarded(g, p, by, c, size, x);
}
