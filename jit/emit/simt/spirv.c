/* SPIR-V, for Intel's GPUs and whoever else has a driver for it: OpenCL's functions by their
 * mangled names, which LLVM makes instructions of. A warp is a sub-group of 32, which the
 * kernel asks for; where a device has none of that size (lanes below 32) the threads of a
 * block meet for each shuffle and tell one another by shared memory. Shared memory is a
 * variable of the kernel, so a launch says nothing of it. A phase that multiplies by the matrix
 * unit (intel_matrix.c) has sub-groups of the unit's size, and the rest of it does as
 * without. */
#include <stdio.h>
#include <string.h>

#include "jit/emit/simt/intel.h"

typedef LLVMValueRef V;

enum { SPIR_FUNC = 75, SPIR_KERNEL = 76 };
/* Of SPIR-V's specification: scopes, and the bits of memory semantics. */
enum { DEVICE = 1, WORKGROUP = 2, SUBGROUP = 3 };
enum { ACQUIRE_RELEASE = 8, OF_WORKGROUP = 0x100, OF_CROSS_WORKGROUP = 0x200 };

static LLVMTypeRef i32(TsGpuEmit *g) { return ts_emit_int_type(g->e, 32, 0); }
static LLVMTypeRef i64(TsGpuEmit *g) { return ts_emit_int_type(g->e, 64, 0); }
static V number(TsGpuEmit *g, int64_t v) { return ts_emit_int(g->e, i32(g), v); }
static bool has_warps(const TsGpuEmit *g) {
  return g->e->target->lanes >= TS_GPU_WARP && !ts_gpu_intel_lanes(g);
}

/* ---- functions of OpenCL's */
static void mark_convergent(TsGpuEmit *g, V call) {
  unsigned kind = LLVMGetEnumAttributeKindForName("convergent", 10);
  LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                           LLVMCreateEnumAttribute(g->e->ctx, kind, 0));
}

static V call(TsGpuEmit *g, const char *name, LLVMTypeRef out, int nin, V *in) {
  LLVMTypeRef list[6];
  for (int i = 0; i < nin; i++) list[i] = LLVMTypeOf(in[i]);
  LLVMTypeRef t = LLVMFunctionType(out, list, (unsigned)nin, 0);
  V f = LLVMGetNamedFunction(g->e->module, name);
  if (!f) {
    f = LLVMAddFunction(g->e->module, name, t);
    LLVMSetFunctionCallConv(f, SPIR_FUNC);
  }
  V y = LLVMBuildCall2(g->e->b, t, f, in, (unsigned)nin, "");
  LLVMSetInstructionCallConv(y, SPIR_FUNC);
  return y;
}

V ts_gpu_spirv_call(TsGpuEmit *g, const char *name, LLVMTypeRef out, int nin, V *in) {
  V y = call(g, name, out, nin, in);
  return mark_convergent(g, y), y;
}

static V place(TsGpuEmit *g, bool of_block) {
  V first = number(g, 0);
  V at = call(g, of_block ? "_Z12get_group_idj" : "_Z12get_local_idj", i64(g), 1, &first);
  return LLVMBuildTrunc(g->e->b, at, i32(g), "");
}

/* ---- kernels */
static void say(TsGpuEmit *g, const char *what, int n, const int *value) {
  LLVMMetadataRef list[3];
  for (int i = 0; i < n; i++) list[i] = LLVMValueAsMetadata(number(g, value[i]));
  LLVMGlobalSetMetadata(g->e->fn,
                        LLVMGetMDKindIDInContext(g->e->ctx, what, (unsigned)strlen(what)),
                        LLVMMDNodeInContext2(g->e->ctx, list, (size_t)n));
}

/* SPIR-V 1.2 has no other words for it that all drivers take. */
static void ask_for_registers(TsGpuEmit *g) {
  bool was = LLVMContextShouldDiscardValueNames(g->e->ctx);
  LLVMContextSetDiscardValueNames(g->e->ctx, false);
  LLVMSetValueName2(LLVMGetParam(g->e->fn, 0), TS_TARGET_LARGE, strlen(TS_TARGET_LARGE));
  LLVMContextSetDiscardValueNames(g->e->ctx, was);
}

static void kernel(TsGpuEmit *g) {
  const int block[3] = {g->threads * g->phase->rounds, 1, 1}, unit = ts_gpu_intel_lanes(g);
  const int lanes = unit ? unit : TS_GPU_WARP;
  say(g, "reqd_work_group_size", 3, block);
  if (unit || has_warps(g)) say(g, "intel_reqd_sub_group_size", 1, &lanes);
  if (g->phase->registers == TS_GPU_LARGE) ask_for_registers(g);
}

static V shared(TsGpuEmit *g, const char *name, LLVMTypeRef elem, int64_t n) {
  V v = LLVMAddGlobalInAddressSpace(g->e->module, LLVMArrayType2(elem, (uint64_t)n), name,
                                    (unsigned)g->maker->shared);
  LLVMSetInitializer(v, LLVMGetUndef(LLVMArrayType2(elem, (uint64_t)n)));
  LLVMSetLinkage(v, LLVMInternalLinkage);
  LLVMSetAlignment(v, 16);
  return v;
}

static LLVMTypeRef byte(TsGpuEmit *g) { return ts_emit_int_type(g->e, 8, 0); }

/* The phase's own; how large it is turns out at its end. */
static V memory(TsGpuEmit *g) { return shared(g, "shared", byte(g), 1); }

static void close_memory(TsGpuEmit *g, V was, int64_t nbytes) {
  V own = nbytes ? shared(g, "shared", byte(g), nbytes) : LLVMGetPoison(LLVMTypeOf(was));
  LLVMReplaceAllUsesWith(was, own); /* where nothing is stored there may be addresses */
  LLVMDeleteGlobal(was);
}

/* ---- meeting */
static void barrier(TsGpuEmit *g, int scope) {
  V in[3] = {number(g, scope), number(g, scope),
             number(g, ACQUIRE_RELEASE | OF_WORKGROUP | OF_CROSS_WORKGROUP)};
  mark_convergent(
      g, call(g, "_Z22__spirv_ControlBarrierjjj", LLVMVoidTypeInContext(g->e->ctx), 3, in));
  if (!g->e->target->forgets) return; /* jit/compile/gpu.c: passes_of */
  LLVMBasicBlockRef behind = LLVMAppendBasicBlockInContext(g->e->ctx, g->e->fn, "");
  LLVMBuildBr(g->e->b, behind);
  LLVMPositionBuilderAtEnd(g->e->b, behind);
}

static void warp_sync(TsGpuEmit *g) { barrier(g, has_warps(g) ? SUBGROUP : WORKGROUP); }

static void sync(TsGpuEmit *g) {
  if (g->phase->rounds == 1)
    barrier(g, WORKGROUP);
  else if (g->threads == TS_GPU_WARP && has_warps(g))
    barrier(g, SUBGROUP);
  else
    ts_emit_fail(g->e, "parts of a block cannot meet on %s", g->e->target->name);
}

/* ---- what other lanes of the warp have. Without sub-groups: tell, take from whom it is, and
 * meet before the next one tells. */
static V exchange(TsGpuEmit *g, V thread) {
  char name[32];
  snprintf(name, sizeof name, "exchange.%s", LLVMGetValueName(g->e->fn));
  V list = LLVMGetNamedGlobal(g->e->module, name);
  if (!list) list = shared(g, name, i32(g), g->threads);
  return LLVMBuildInBoundsGEP2(g->e->b, i32(g), list, &thread, 1, "");
}

static V own_thread(TsGpuEmit *g) { return LLVMBuildZExt(g->e->b, g->tid, i64(g), ""); }

static void tell(TsGpuEmit *g, V x) {
  if (has_warps(g)) return;
  LLVMBuildStore(g->e->b, x, exchange(g, own_thread(g)));
  barrier(g, WORKGROUP);
}

static void told(TsGpuEmit *g) {
  if (!has_warps(g)) barrier(g, WORKGROUP);
}

static V of_lane(TsGpuEmit *g, V x, int lane) {
  LLVMBuilderRef b = g->e->b;
  if (has_warps(g)) {
    V y = call(g, "_Z23intel_sub_group_shufflejj", i32(g), 2, (V[]){x, number(g, lane)});
    return mark_convergent(g, y), y;
  }
  V first = LLVMBuildAnd(b, own_thread(g), ts_gpu_i64(g, -TS_GPU_WARP), "");
  return LLVMBuildLoad2(b, i32(g), exchange(g, ts_gpu_add(g, first, ts_gpu_i64(g, lane))), "");
}

static V shuffle(TsGpuEmit *g, V x, int mask) {
  LLVMBuilderRef b = g->e->b;
  if (has_warps(g)) {
    V y = call(g, "_Z27intel_sub_group_shuffle_xorjj", i32(g), 2, (V[]){x, number(g, mask)});
    return mark_convergent(g, y), y;
  }
  tell(g, x);
  V other = LLVMBuildXor(b, own_thread(g), ts_gpu_i64(g, mask), "");
  V y = LLVMBuildLoad2(b, i32(g), exchange(g, other), "");
  return told(g), y;
}

/* A shuffle from a lane that is known is an operand of the comparison on Intel's GPUs. */
static V equals(TsGpuEmit *g, V x) {
  LLVMBuilderRef b = g->e->b;
  V y = number(g, 0);
  tell(g, x);
  for (int i = 0; i < TS_GPU_WARP; i++) {
    V same = LLVMBuildICmp(b, LLVMIntEQ, of_lane(g, x, i), x, "");
    V bit = number(g, (int64_t)1 << i);
    y = LLVMBuildOr(b, y, LLVMBuildSelect(b, same, bit, number(g, 0), ""), "");
  }
  return told(g), y;
}

/* ---- numbers */
static V bits(TsGpuEmit *g, V x) {
  bool wide = LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMDoubleTypeKind;
  return LLVMBuildBitCast(g->e->b, x, wide ? i64(g) : i32(g), "");
}

/* Neither 0 nor NaN: what equals it has its bits, and no order of it and another number is
 * undefined but by that one. */
static bool is_plain_number(V x) {
  LLVMBool lost;
  double v = LLVMIsAConstantFP(x) ? LLVMConstRealGetDouble(x, &lost) : 0;
  return v < 0 || v > 0;
}

/* fmin and fmax of OpenCL pass over NaN. Equal numbers differ in their signs at most. */
static V extreme(TsGpuEmit *g, bool min, V x, V y) {
  LLVMBuilderRef b = g->e->b;
  if (is_plain_number(x) || is_plain_number(y)) {
    V limit = is_plain_number(y) ? y : x, z = limit == y ? x : y;
    V beyond = LLVMBuildFCmp(b, min ? LLVMRealOGT : LLVMRealOLT, z, limit, "");
    return LLVMBuildSelect(b, beyond, limit, z, "");
  }
  V first = LLVMBuildFCmp(b, min ? LLVMRealOLT : LLVMRealOGT, x, y, "");
  V same = LLVMBuildFCmp(b, LLVMRealOEQ, x, y, ""),
    none = LLVMBuildFCmp(b, LLVMRealUNO, x, y, "");
  V equal = (min ? LLVMBuildOr : LLVMBuildAnd)(b, bits(g, x), bits(g, y), "");
  equal = LLVMBuildBitCast(b, equal, LLVMTypeOf(x), "");
  V z = LLVMBuildSelect(b, same, equal, LLVMBuildSelect(b, first, x, y, ""), "");
  return LLVMBuildSelect(b, none, LLVMBuildFAdd(b, x, y, ""), z, "");
}

/* ---- profile marks: one clock, of the device, whose ticks nobody says the length of. Which
 * processor runs a block is not known: the first. */
static V clock(TsGpuEmit *g) {
  V scope = number(g, DEVICE);
  return call(g, "_Z20__spirv_ReadClockKHRj", i64(g), 1, &scope);
}

static V processor(TsGpuEmit *g) { return number(g, 0); }

static void join(TsGpuEmit *g, int n, V *x) {
  if (ts_gpu_cooperative(g)) ts_gpu_cooperative_join(g, n, x);
}

const TsGpuMaker ts_gpu_spirv = {
    .global = 1,
    .shared = 3,
    .constants = 2,
    .call = SPIR_KERNEL,
    .place = place,
    .begin = ts_gpu_begin,
    .kernel = kernel,
    .memory = memory,
    .close_memory = close_memory,
    .scratch = ts_gpu_scratch_argument,
    .sync = sync,
    .warp_sync = warp_sync,
    .shuffle = shuffle,
    .equals = equals,
    .extreme = extreme,
    .matrix_frame = ts_gpu_intel_frame,
    .matrix_product = ts_gpu_intel_product,
    .matrix_join = join,
    .matrix_split = ts_gpu_cooperative_split,
    .cycles = clock,
    .steady = clock,
    .processor = processor,
};
