/* Products of tiles by cooperative matrices (SPV_KHR_cooperative_matrix), in block form:
 * ir/tile/square.h says why their sums are no chain.
 *
 * A matrix belongs to a sub-group of 16, and how it lies in its lanes only the driver knows. Products
 * are cut as those of DPAS are (intel_matrix.c): of 8 rows, 16 columns and 32 bytes of k, sizes that
 * Intel's GPUs have; operands stand in shared memory, from where the driver reads them as it likes.
 * Sums stay matrices as long as a loop carries them, so no stage asks where they lie. Before it
 * and behind it they go by shared memory, each sub-group by bytes of its own, where a lane has a column
 * of a matrix; zeros are matrices at once. A pointer of SPIR-V says how long the numbers of a stride
 * are: LLVM takes that out of the mangled name, and who differs in nothing but the result has another
 * name by another integer for the stride. */
#include "jit/emit/simt/intel.h"

typedef LLVMValueRef V;

enum { ROWS = TS_INTEL_RUN, COLS = TS_INTEL_LANES, WORD = 4, BYTES = ROWS * COLS * WORD };
/* Of SPIR-V's specification: the scope, uses of a matrix, bits of operands that have signs, a
 * layout, bits of memory semantics. */
enum { SUBGROUP = 3 };
enum { LEFT, RIGHT, SUMS };
enum { FLOATS = 0, SIGNED = 1 | 2 | 4 | 8 };
enum { ROW_MAJOR = 0, ACQUIRE_RELEASE_OF_WORKGROUP = 0x8 | 0x100 };

bool ts_gpu_cooperative(const TsGpuEmit *g) {
  return g->e->target->matrix == TS_MATRIX_cooperative;
}

static V i32_of(TsGpuEmit *g, int64_t v) {
  return ts_emit_int(g->e, ts_emit_int_type(g->e, 32, 0), v);
}

/* ---- what is multiplied */
typedef struct Kind {
  TsDtype of;
  int signs;
  const char *left, *right, *multiply;
} Kind;

#define LOAD(number, stride) "_Z32__spirv_CooperativeMatrixLoadKHRPU3AS3" number "j" stride "j"
#define MULTIPLY(in)         "_Z34__spirv_CooperativeMatrixMulAddKHR" in
static const Kind kinds[] = {
    {TS_DT_bf16, FLOATS, LOAD("t", "m"), LOAD("t", "l"), MULTIPLY("ttfj")},
    {TS_DT_f16, FLOATS, LOAD("s", "m"), LOAD("s", "l"), MULTIPLY("ssfj")},
    {TS_DT_i8, SIGNED, LOAD("c", "m"), LOAD("c", "l"), MULTIPLY("ccij")},
};

static const Kind *kind_of(TsDtype d) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (kinds[i].of == d) return &kinds[i];
  return NULL;
}

static LLVMTypeRef number_type(TsGpuEmit *g, TsDtype d) {
  if (d == TS_DT_bf16) return LLVMBFloatTypeInContext(g->e->ctx);
  if (d == TS_DT_f16) return LLVMHalfTypeInContext(g->e->ctx);
  return ts_emit_int_type(g->e, 8, 0);
}

static LLVMTypeRef matrix_type(TsGpuEmit *g, LLVMTypeRef number, int rows, int cols, int use) {
  unsigned of[] = {SUBGROUP, (unsigned)rows, (unsigned)cols, (unsigned)use};
  return LLVMTargetExtTypeInContext(g->e->ctx, "spirv.CooperativeMatrixKHR", &number, 1, of, 4);
}

static LLVMTypeRef sums_type(TsGpuEmit *g, LLVMTypeRef number) {
  return matrix_type(g, number, ROWS, COLS, SUMS);
}

static V load(TsGpuEmit *g, const char *name, LLVMTypeRef t, V from, int64_t pitch) {
  V in[4] = {from, i32_of(g, ROW_MAJOR), ts_gpu_i64(g, pitch), i32_of(g, 0)};
  return ts_gpu_spirv_call(g, name, t, 4, in);
}

/* ---- sums and columns of lanes: by bytes of the sub-group's own */
static void meet(TsGpuEmit *g) {
  V in[3] = {i32_of(g, SUBGROUP), i32_of(g, SUBGROUP), i32_of(g, ACQUIRE_RELEASE_OF_WORKGROUP)};
  ts_gpu_spirv_call(g, "_Z22__spirv_ControlBarrierjjj", LLVMVoidTypeInContext(g->e->ctx), 3,
                    in);
}

typedef struct Between {
  LLVMTypeRef number;
  bool floats;
  V matrix, column; /* where it begins, and what this lane has of it */
} Between;

static Between between(TsGpuEmit *g, LLVMTypeRef number) {
  int64_t at = ts_gpu_shared_take(g, (int64_t)g->threads / COLS * BYTES);
  V first = ts_gpu_mul(g, ts_gpu_intel_group(g), ROWS * COLS);
  Between b = {.number = number, .floats = LLVMGetTypeKind(number) == LLVMFloatTypeKind};
  b.matrix = ts_gpu_shared_at(g, at, number, first);
  b.column =
      ts_gpu_shared_at(g, at, number, ts_gpu_add(g, first, ts_gpu_mod(g, g->tid64, COLS)));
  return b;
}

static V row_of(TsGpuEmit *g, const Between *b, int row) {
  V by = ts_gpu_i64(g, (int64_t)row * COLS);
  return LLVMBuildInBoundsGEP2(g->e->b, b->number, b->column, &by, 1, "");
}

static V zeros(TsGpuEmit *g, LLVMTypeRef number) {
  bool floats = LLVMGetTypeKind(number) == LLVMFloatTypeKind;
  V zero = LLVMConstNull(number);
  return ts_gpu_spirv_call(
      g, floats ? "_Z26__spirv_CompositeConstructf" : "_Z26__spirv_CompositeConstructi",
      sums_type(g, number), 1, &zero);
}

static V from_column(TsGpuEmit *g, const Between *b, V column) {
  for (int i = 0; i < ROWS; i++)
    LLVMBuildStore(g->e->b, LLVMBuildExtractElement(g->e->b, column, i32_of(g, i), ""),
                   row_of(g, b, i));
  meet(g);
  V y = load(g, b->floats ? LOAD("f", "m") : LOAD("i", "m"), sums_type(g, b->number), b->matrix,
             COLS);
  return meet(g), y;
}

void ts_gpu_cooperative_join(TsGpuEmit *g, int n, V *x) {
  LLVMTypeRef number = LLVMGetElementType(LLVMTypeOf(x[0]));
  Between b = {0};
  for (int i = 0; i < n; i++) {
    if (!LLVMIsNull(x[i]) && !b.matrix) b = between(g, number);
    x[i] = LLVMIsNull(x[i]) ? zeros(g, number) : from_column(g, &b, x[i]);
  }
}

void ts_gpu_cooperative_split(TsGpuEmit *g, LLVMTypeRef number, int n, const V *x, V *out) {
  Between b = between(g, number);
  const char *store = b.floats ? "_Z33__spirv_CooperativeMatrixStoreKHRPU3AS3ffjmj"
                               : "_Z33__spirv_CooperativeMatrixStoreKHRPU3AS3iijmj";
  for (int i = 0; i < n; i++) {
    V in[5] = {b.matrix, x[i], i32_of(g, ROW_MAJOR), ts_gpu_i64(g, COLS), i32_of(g, 0)};
    ts_gpu_spirv_call(g, store, LLVMVoidTypeInContext(g->e->ctx), 5, in);
    meet(g);
    out[i] = LLVMGetPoison(LLVMVectorType(number, ROWS));
    for (int k = 0; k < ROWS; k++) {
      V one = LLVMBuildLoad2(g->e->b, number, row_of(g, &b, k), "");
      out[i] = LLVMBuildInsertElement(g->e->b, out[i], one, i32_of(g, k), "");
    }
    meet(g);
  }
}

/* ---- the product */
typedef struct Operand {
  const char *load;
  LLVMTypeRef type;
  TsIntelSide rows;
} Operand;

static V read(TsGpuEmit *g, const Operand *o, V row, V col) {
  return load(g, o->load, o->type, ts_gpu_intel_at(g, &o->rows, row, col), o->rows.pitch);
}

static V from(TsGpuEmit *g, V x, int64_t by) { return ts_gpu_add(g, x, ts_gpu_i64(g, by)); }

void ts_gpu_cooperative_sums(TsGpuEmit *g, const TsTileStmt *s, const TsIntelGroups *w,
                             V *sum) {
  const TsTileType *a = &s->in[0]->type;
  const Kind *kind = kind_of((TsDtype)a->dtype);
  int depth = TS_INTEL_STEP_BYTES / ts_dtypes[a->dtype].nbytes;
  LLVMTypeRef number = number_type(g, kind->of);
  Operand l = {kind->left, matrix_type(g, number, ROWS, depth, LEFT),
               ts_gpu_intel_put(g, s->in[0])};
  Operand r = {kind->right, matrix_type(g, number, depth, COLS, RIGHT),
               ts_gpu_intel_put(g, s->in[1])};
  ts_gpu_sync(g);
  TsIntelPlace p = ts_gpu_intel_place(g, w);
  V *x = ts_emit_take(g->e, sizeof *x * (size_t)w->strips);
  for (int64_t k = 0; k < a->dim[1]; k += depth) {
    V now = ts_gpu_i64(g, k);
    for (int c = 0; c < w->strips; c++)
      x[c] = read(g, &r, now, from(g, p.col, (int64_t)c * COLS));
    for (int b = 0, i = 0; b < w->bands; b++) {
      V y = read(g, &l, from(g, p.row, (int64_t)b * ROWS), now);
      for (int c = 0; c < w->strips; c++, i++)
        sum[i] = ts_gpu_spirv_call(g, kind->multiply, LLVMTypeOf(sum[i]), 4,
                                   (V[]){y, x[c], sum[i], i32_of(g, kind->signs)});
    }
  }
}
