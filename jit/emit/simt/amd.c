/* AMD's GPUs: intrinsics. Waves have 64 lanes or 32; shuffles and votes stay within 32 of them, so
 * sums have one order on every GPU. Lanes of a wave run in step, whatever they do. */
#include <stdio.h>
#include <string.h>

#include "jit/emit/simt/emit.h"

typedef LLVMValueRef V;

static LLVMTypeRef i32(TsGpuEmit *g) { return ts_emit_int_type(g->e, 32, 0); }
static LLVMTypeRef i64(TsGpuEmit *g) { return ts_emit_int_type(g->e, 64, 0); }

/* ---- kernels */
/* The form of objects that drivers of the last years load; of families of GPUs it is newer. */
static void say_version(TsGpuEmit *g) {
  static const char name[] = "amdhsa_code_object_version";
  enum { VERSION = 500, OF_FAMILIES = 600 };
  int version = g->e->target->generic ? OF_FAMILIES : VERSION;
  if (LLVMGetModuleFlag(g->e->module, name, sizeof name - 1)) return;
  LLVMAddModuleFlag(g->e->module, LLVMModuleFlagBehaviorError, name, sizeof name - 1,
                    LLVMValueAsMetadata(ts_emit_int(g->e, i32(g), version)));
}

/* Nothing but the arguments is wanted of a launch, so none of what else it could give takes
 * registers or memory. All f32 and f64 are rounded as they are, denormal ones too. */
static void kernel(TsGpuEmit *g) {
  static const char *const without[] = {
      "dispatch-ptr",   "queue-ptr",         "implicitarg-ptr",    "dispatch-id",
      "heap-ptr",       "hostcall-ptr",      "multigrid-sync-arg", "default-queue",
      "lds-kernel-id",  "completion-action", "flat-scratch-init",  "workgroup-id-y",
      "workgroup-id-z", "workitem-id-y",     "workitem-id-z",      "cluster-id-x",
      "cluster-id-y",   "cluster-id-z"};
  char text[48];
  int threads = g->threads * g->phase->rounds;
  say_version(g);
  LLVMSetVisibility(g->e->fn, LLVMProtectedVisibility);
  for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
    snprintf(text, sizeof text, "amdgpu-no-%s", without[i]);
    ts_emit_attribute(g->e, text, "");
  }
  snprintf(text, sizeof text, "%d,%d", threads, threads);
  ts_emit_attribute(g->e, "amdgpu-flat-work-group-size", text);
  ts_emit_attribute(g->e, "uniform-work-group-size", "true");
  ts_emit_attribute(g->e, "denormal-fp-math", "ieee,ieee");
  /* Sums in the accumulators' half of the file are copied out and in again in each round. */
  if (ts_gpu_matrix_used(g)) ts_emit_attribute(g->e, "amdgpu-agpr-alloc", "0");
}

/* The table lies where all arguments do, in constant memory. */
static V word(TsGpuEmit *g, V i) {
  V at = LLVMBuildInBoundsGEP2(g->e->b, i64(g), LLVMGetParam(g->e->fn, 0), &i, 1, "");
  return LLVMBuildLoad2(g->e->b, i64(g), at, "");
}

/* ---- meeting */
static void fence(TsGpuEmit *g, LLVMAtomicOrdering order, const char *scope) {
#if LLVM_VERSION_MAJOR >= 20
  LLVMBuildFenceSyncScope(g->e->b, order, LLVMGetSyncScopeID(g->e->ctx, scope, strlen(scope)),
                          "");
#else
  (void)scope; /* of all that sees memory: longer, and right */
  LLVMBuildFence(g->e->b, order, 0, "");
#endif
}

static void meet(TsGpuEmit *g, const char *scope, const char *barrier) {
  fence(g, LLVMAtomicOrderingRelease, scope);
  ts_emit_call(g->e, barrier, 0, NULL, 0, NULL);
  fence(g, LLVMAtomicOrderingAcquire, scope);
}

static void warp_sync(TsGpuEmit *g) { meet(g, "wavefront", "llvm.amdgcn.wave.barrier"); }

static void sync(TsGpuEmit *g) {
  if (g->threads == TS_GPU_WARP && g->phase->rounds > 1)
    warp_sync(g);
  else if (g->phase->rounds == 1)
    meet(g, "workgroup", "llvm.amdgcn.s.barrier");
  else
    ts_emit_fail(g->e, "parts of a block cannot meet on %s", g->e->target->name);
}

/* Of the wave. */
static V lane(TsGpuEmit *g) {
  V thread = ts_emit_call(g->e, ts_gpu_amd.thread, 0, NULL, 0, NULL);
  return LLVMBuildAnd(g->e->b, thread, ts_emit_int(g->e, i32(g), g->e->target->lanes - 1), "");
}

/* From the lane of this address, a lane having four bytes. */
static V shuffle(TsGpuEmit *g, V x, int mask) {
  LLVMBuilderRef b = g->e->b;
  V other = LLVMBuildXor(b, lane(g), ts_emit_int(g->e, i32(g), mask), "");
  V in[2] = {LLVMBuildShl(b, other, ts_emit_int(g->e, i32(g), 2), ""), x};
  return ts_emit_call(g->e, "llvm.amdgcn.ds.bpermute", 0, NULL, 2, in);
}

static V vote(TsGpuEmit *g, V is) {
  LLVMBuilderRef b = g->e->b;
  LLVMTypeRef all = ts_emit_int_type(g->e, g->e->target->lanes, 0);
  V y = ts_emit_call(g->e, "llvm.amdgcn.ballot", 1, &all, 1, &is);
  if (g->e->target->lanes == TS_GPU_WARP) return y;
  V half = LLVMBuildAnd(b, lane(g), ts_emit_int(g->e, i32(g), TS_GPU_WARP), "");
  return LLVMBuildTrunc(b, LLVMBuildLShr(b, y, LLVMBuildZExt(b, half, all, ""), ""), i32(g),
                        "");
}

/* ---- numbers */
static V function(TsGpuEmit *g, int op, V x) {
  return ts_emit_call1(g->e,
                       op == TS_TILE_ex2   ? "llvm.amdgcn.exp2"
                       : op == TS_TILE_lg2 ? "llvm.amdgcn.log"
                                           : "llvm.amdgcn.rcp",
                       x);
}

/* ---- profile marks */
static V cycles(TsGpuEmit *g) {
  return ts_emit_call(g->e, "llvm.readcyclecounter", 0, NULL, 0, NULL);
}

static V steady(TsGpuEmit *g) {
  return ts_emit_call(g->e, "llvm.readsteadycounter", 0, NULL, 0, NULL);
}

/* So many bits of a register of the wave's, from `first` on. */
static V hardware(TsGpuEmit *g, int which, int first, int bits) {
  V in = ts_emit_int(g->e, i32(g), (bits - 1) << 11 | first << 6 | which);
  return ts_emit_call(g->e, "llvm.amdgcn.s.getreg", 0, NULL, 1, &in);
}

/* Registers and fields are those of AMD's documents of the instruction sets. Numbers have gaps: a
 * die, an engine or an array of it has fewer processors than its field has room for. */
static V processor(TsGpuEmit *g) {
  enum {
    HW_ID = 4,
    XCC_ID = 20,
    HW_ID1 = 23,
    CU = 8,
    CU_SH_SE = 7,
    WGP = 10,
    SA = 16,
    SE = 18
  };
  LLVMBuilderRef b = g->e->b;
  TsTargetPlace place = g->e->target->place;
  if (place == TS_PLACE_pair) {
    V unit = hardware(g, HW_ID1, CU, 1), pair = hardware(g, HW_ID1, WGP, 4);
    V array = hardware(g, HW_ID1, SA, 1), engine = hardware(g, HW_ID1, SE, 3);
    V y = LLVMBuildOr(b, unit, LLVMBuildShl(b, pair, ts_emit_int(g->e, i32(g), 1), ""), "");
    y = LLVMBuildOr(b, y, LLVMBuildShl(b, array, ts_emit_int(g->e, i32(g), 5), ""), "");
    return LLVMBuildOr(b, y, LLVMBuildShl(b, engine, ts_emit_int(g->e, i32(g), 6), ""), "");
  }
  V y = hardware(g, HW_ID, CU, CU_SH_SE + (place == TS_PLACE_engine3));
  if (place != TS_PLACE_die) return y;
  V die = LLVMBuildShl(b, hardware(g, XCC_ID, 0, 4), ts_emit_int(g->e, i32(g), CU_SH_SE), "");
  return LLVMBuildOr(b, die, y, "");
}

/* Behind what has a size, which is nothing. */
static V memory_at(TsGpuEmit *g) {
  return ts_emit_call(g->e, "llvm.amdgcn.groupstaticsize", 0, NULL, 0, NULL);
}

static V bytes(TsGpuEmit *g, V high, V low, unsigned which) {
  V in[3] = {high, low, ts_emit_int(g->e, i32(g), which)};
  return ts_emit_call(g->e, "llvm.amdgcn.perm", 0, NULL, 3, in);
}

/* ---- copies past registers. The unit of memory takes a table of four words: where it begins, bytes,
 * form; and puts what lanes read one behind the other, from the address that all have on. */
static void direct(TsGpuEmit *g, V to, V from, V own, V by, int bytes) {
  enum { BYTES = INT32_MAX, PLAIN = 0x20000, HIGH = 0xFFFF };
  LLVMBuilderRef b = g->e->b;
  V at = LLVMBuildPtrToInt(b, from, i64(g), ""), zero = ts_emit_int(g->e, i32(g), 0);
  V high = LLVMBuildTrunc(b, LLVMBuildLShr(b, at, ts_gpu_i64(g, 32), ""), i32(g), "");
  V word[4] = {LLVMBuildTrunc(b, at, i32(g), ""),
               LLVMBuildAnd(b, high, ts_emit_int(g->e, i32(g), HIGH), ""),
               ts_emit_int(g->e, i32(g), BYTES), ts_emit_int(g->e, i32(g), PLAIN)};
  V table = LLVMGetPoison(LLVMVectorType(i32(g), 4));
  for (int i = 0; i < 4; i++)
    table = LLVMBuildInsertElement(b, table, word[i], ts_emit_int(g->e, i32(g), i), "");
  V in[7] = {table, to, ts_emit_int(g->e, i32(g), bytes), own, by, zero, zero};
  V y = ts_emit_call(g->e, "llvm.amdgcn.raw.buffer.load.lds", 0, NULL, 7, in);
  ts_gpu_apart(g, y, true);
}

/* Until counters are no more than these: of loads, which counts to 63, and of shared memory, to 15. */
static void wait_for(TsGpuEmit *g, int loads, int shared) {
  enum { MOST = 63, LOW = 15, STORES = 7 << 4 };
  int n = loads < MOST ? loads : MOST;
  V in = ts_emit_int(g->e, i32(g), (n & LOW) | (n >> 4) << 14 | STORES | shared << 8);
  ts_emit_call(g->e, "llvm.amdgcn.s.waitcnt", 0, NULL, 1, &in);
}

static void wait_direct(TsGpuEmit *g, int pending) { wait_for(g, pending, 15); }

/* A fence that releases to the block would wait for copies too. */
static void sync_direct(TsGpuEmit *g) {
  fence(g, LLVMAtomicOrderingRelease, "wavefront");
  wait_for(g, 63, 0);
  ts_emit_call(g->e, "llvm.amdgcn.s.barrier", 0, NULL, 0, NULL);
  fence(g, LLVMAtomicOrderingAcquire, "workgroup");
}

static V uniform(TsGpuEmit *g, V x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return ts_emit_call(g->e, "llvm.amdgcn.readfirstlane", LLVM_VERSION_MAJOR >= 20, &t, 1, &x);
}

static V read_turned(TsGpuEmit *g, V p) {
  LLVMTypeRef t = LLVMVectorType(ts_emit_int_type(g->e, 16, 0), 4);
  return ts_emit_call(g->e, "llvm.amdgcn.ds.read.tr16.b64", 1, &t, 1, &p);
}

static void first(TsGpuEmit *g, bool is) {
  V in = ts_emit_int(g->e, ts_emit_int_type(g->e, 16, 0), is);
  ts_emit_call(g->e, "llvm.amdgcn.s.setprio", 0, NULL, 1, &in);
}

const TsGpuMaker ts_gpu_amd = {
    .global = 1,
    .shared = 3,
    .table = 4,
    .constants = 1,
    .call = 91,
    .by = "byref",
    .thread = "llvm.amdgcn.workitem.id.x",
    .block = "llvm.amdgcn.workgroup.id.x",
    .begin = ts_gpu_begin,
    .kernel = kernel,
    .memory_at = memory_at,
    .scratch = ts_gpu_scratch_argument,
    .word = word,
    .sync = sync,
    .warp_sync = warp_sync,
    .shuffle = shuffle,
    .vote = vote,
    .function = function,
    .cycles = cycles,
    .steady = steady,
    .processor = processor,
    .bytes = bytes,
    .direct = direct,
    .wait_direct = wait_direct,
    .sync_direct = sync_direct,
    .uniform = uniform,
    .read_turned = read_turned,
    .first = first,
    .matrix = ts_gpu_amd_matrix,
};
