/* Kernels of block form for another maker's GPUs: code objects of each of its targets, and what
 * LLVM's own tools read out of them. Nothing is executed; that the code computes the right bits is
 * what the emulation says of the same emitter (kernels_test.c), and scripts/emulate_amd.py of the
 * objects. [target] [kernel] [llvm|asm] [marks]: prints one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/tile/pass/stages.h"
#include "jit/compile/llvm.h"
#include "jit/gpu/gpu.h"
#include "jit/gpu/marks.h"
#include "tests/jit/gpu/families.h"

#ifndef LLVM_TOOLS
#define LLVM_TOOLS "" /* where llvm-config is */
#endif

static const char *const more[] = {
    /* a product of f32 */
    "tile @product(%a: f32[200,300], %b: f32[300,150]) -> (%y: f32[200,150]) {\n"
    "  for %i in 0..200 step 8 parallel {\n"
    "    for %j in 0..150 step 64 parallel {\n"
    "      %z = const : f32[8,64]\n"
    "      %p = load %a[%i, 0] {edge=true} : f32[8,300]\n"
    "      %q = load %b[0, %j] {edge=true} : f32[300,64]\n"
    "      %r = mma %p, %q, %z : f32[8,64]\n"
    "      store %y[%i, %j] = %r {edge=true}\n"
    "    }\n  }\n}\n",
    /* a scan: a row a lane, what comes next loaded meanwhile, turned in shared memory */
    "tile @scan<B>(%x: f32[B,40]) -> (%y: f32[B,40]) {\n"
    "  %n = dim {index=0} : i64[]\n"
    "  for %i in 0..%n step 64 parallel {\n"
    "    %s = const {value=-0.0} : f32[64]\n"
    "    %t = for %j in 0..40 carry %c = %s : f32[64] {\n"
    "      %l = load %x[%i, %j] {axes=[0] edge=true} : f32[64]\n"
    "      %d = add %c, %l : f32[64]\n"
    "      store %y[%i, %j] = %d {axes=[0] edge=true}\n"
    "      yield %d\n"
    "    }\n  }\n}\n",
    /* products and sums are rounded each; division and root are right for all numbers */
    "tile @apart(%x: f32[4096], %y: f32[4096]) -> (%z: f32[4096]) {\n"
    "  for %i in 0..4096 step 1024 parallel {\n"
    "    %a = load %x[%i] : f32[1024]\n"
    "    %b = load %y[%i] : f32[1024]\n"
    "    %c = mul %a, %b : f32[1024]\n"
    "    %d = add %c, %a : f32[1024]\n"
    "    store %z[%i] = %d\n"
    "  }\n}\n",
    "tile @exact(%x: f32[4096], %y: f32[4096]) -> (%z: f32[4096], %w: f32[4096]) {\n"
    "  for %i in 0..4096 step 1024 parallel {\n"
    "    %a = load %x[%i] : f32[1024]\n"
    "    %b = load %y[%i] : f32[1024]\n"
    "    %c = div %a, %b : f32[1024]\n"
    "    %d = sqrt %a : f32[1024]\n"
    "    store %z[%i] = %c\n"
    "    store %w[%i] = %d\n"
    "  }\n}\n",
    /* a product that is rounded to f16 keeps the sign of its zero: it is fused with no sum */
    "tile @signs(%x: f16[4096], %y: f16[4096]) -> (%z: f16[4096]) {\n"
    "  for %i in 0..4096 step 1024 parallel {\n"
    "    %a = load %x[%i] : f16[1024]\n"
    "    %b = load %y[%i] : f16[1024]\n"
    "    %c = cast %a : f32[1024]\n"
    "    %d = cast %b : f32[1024]\n"
    "    %e = mul %c, %d : f32[1024]\n"
    "    %f = cast %e : f16[1024]\n"
    "    store %z[%i] = %f\n"
    "  }\n}\n",
};

/* By the matrix unit: sums of n x n, operands of the next stage on their way. In order: type of
 * operands, steps of k of a stage, of sums, of the result. */
static const char square[] =
    "tile @square(%%a: %1$s[256,512], %%b: %1$s[512,256]) -> (%%y: %4$s[256,256]) stages %8$d "
    "threads %6$d {\n"
    "  for %%i in 0..256 step %5$d parallel {\n"
    "    for %%j in 0..256 step %5$d parallel {\n"
    "      %%z = const : %3$s[%5$d,%5$d]\n"
    "      %%p = load %%a[%%i, 0] : %1$s[%5$d,%2$d]\n"
    "      %%q = load %%b[0, %%j] : %1$s[%2$d,%5$d]\n"
    "      %%s, %%t, %%u = for %%k in 0..512 step %2$d carry %%x = %%z, %%m = %%p, %%n = %%q\n"
    "          : %3$s[%5$d,%5$d], %1$s[%5$d,%2$d], %1$s[%2$d,%5$d] {\n"
    "        %%f = add %%k, %2$d : i64[]\n"
    "        %%g = minimum %%f, %9$d : i64[]\n"
    "        %%c = load %%a[%%i, %%g] : %1$s[%5$d,%2$d]\n"
    "        %%d = load %%b[%%g, %%j] : %1$s[%2$d,%5$d]\n"
    "        %%e = mma %%m, %%n, %%x {unit=\"%7$s\"} : %3$s[%5$d,%5$d]\n"
    "        yield %%e, %%c, %%d\n"
    "      }\n"
    "      %%v = cast %%s : %4$s[%5$d,%5$d]\n"
    "      store %%y[%%i, %%j] = %%v\n"
    "    }\n  }\n}\n";

/* What a unit multiplies: steps of k of an instruction, by TsTargetMatrix; 0: it does not. */
typedef struct Square {
  const char *of, *sums, *to;
  unsigned factor;
  int block, depth, steps[6];
} Square;

static const Square kind[] = {
    {"bf16", "f32", "bf16", TS_FACTOR_half, 128, 32, {0, 16, 16, 32, 16, 16}},
    {"f16", "f32", "f16", TS_FACTOR_half, 128, 32, {0, 16, 16, 32, 16, 16}},
    {"i8", "i32", "i32", TS_FACTOR_whole, 128, 64, {0, 16, 32, 64, 16, 16}},
    {"f32", "f32", "f32", TS_FACTOR_single, 128, 16, {0, 4, 4, 4}},
    {"f64", "f64", "f64", TS_FACTOR_twice, 64, 8, {0, 4, 4, 4}},
    {"fp8_e4m3", "f32", "f32", TS_FACTOR_eight, 128, 64, {0, 0, 0, 32, 0, 16}},
    {"fp8_e5m2", "f32", "f32", TS_FACTOR_eight, 128, 64, {0, 0, 0, 32, 0, 16}},
};

enum { FAMILIES = sizeof families / sizeof *families, MORE = sizeof more / sizeof *more };

static const char *kernel_at(int i) { return i < FAMILIES ? families[i] : more[i - FAMILIES]; }

static int wrong(const TsTile *k, const TsTarget *t, const char *what, const char *text) {
  printf("%s for %s: %s\n%.4000s\n", k->name, t->name, what, text ? text : "");
  return 1;
}

/* ---- tools */
/* What a command of LLVM's prints, complaints too; NULL: it failed. */
static char *told(const char *tool, const char *arguments, int *failed) {
  char line[600];
  TsText out = {0};
  snprintf(line, sizeof line, "%s%s %s 2>&1", LLVM_TOOLS, tool, arguments);
  FILE *f = popen(line, "r");
  for (size_t n; f && (n = fread(line, 1, sizeof line, f)) > 0;) ts_text_add(&out, line, n);
  *failed = !f || pclose(f);
  if (!out.at) ts_text_str(&out, "");
  return out.at;
}

static bool has_tool(const char *tool) {
  char path[400];
  snprintf(path, sizeof path, "%s%s", LLVM_TOOLS, tool);
  return !access(path, X_OK);
}

/* The number behind this word, from `text` on. */
static int64_t number_of(const char *text, const char *word) {
  const char *at = text ? strstr(text, word) : NULL;
  return at ? atoll(at + strlen(word)) : -1;
}

/* ---- what is asked */
/* A kernel and its descriptor, by name; no other program may put its own in their places. */
static int symbols(const TsTile *k, const TsTarget *t, const TsGpuCode *code,
                   const char *text) {
  char kernel[80], descriptor[80];
  int bad = 0;
  for (int i = 0; i < code->nphase && !bad; i++) {
    snprintf(kernel, sizeof kernel, " %s\n", code->phase[i].name);
    snprintf(descriptor, sizeof descriptor, " %s.kd\n", code->phase[i].name);
    bad = !strstr(text, kernel) || !strstr(text, descriptor);
  }
  if (!bad) bad = !strstr(text, "FUNC    GLOBAL PROTECTED");
  if (bad) wrong(k, t, "symbols", text);
  return bad;
}

/* The note tells the driver what a launch needs. */
static int notes(const TsTile *k, const TsTarget *t, const TsGpuCode *code, bool batch,
                 const char *path) {
  char word[100];
  int bad = 0;
  snprintf(word, sizeof word, "--notes --dyn-symbols --wide %s", path);
  char *text = told("llvm-readelf", word, &bad);
  snprintf(word, sizeof word, "amdgcn-amd-amdhsa--%s\n", t->cpu);
  if (!bad) bad = !strstr(text, word);
  const char *at = text;
  int64_t words = code->nparam + code->nscratch + code->ndim;
  if (k->marks) words += 1 + TS_GPU_MARKS_WORDS;
  if (batch) words = TS_GPU_BATCH_WORDS + code->ndim - 1;
  for (int i = 0; i < code->nphase && !bad; i++) {
    snprintf(word, sizeof word, ".name:           %s\n", code->phase[i].name);
    const char *name = strstr(text, word);
    for (at = name; at > text && strncmp(at, "\n  - ", 5);) at--;
    bad = !name || number_of(at, ".wavefront_size:") != t->lanes ||
          number_of(at, ".group_segment_fixed_size:") != 0 ||
          (!k->marks && (number_of(at, ".private_segment_fixed_size:") != 0 ||
                         number_of(at, ".vgpr_spill_count:") != 0)) ||
          number_of(at, ".kernarg_segment_size:") != 8 * words ||
          number_of(at, ".max_flat_workgroup_size:") != code->phase[i].threads;
  }
  if (bad) wrong(k, t, "notes", text);
  if (!bad) bad = symbols(k, t, code, text);
  free(text);
  return bad;
}

/* Sums stay where they are through all rounds: a stage of a wave is so many instructions of the
 * unit, and no copies from one half of the registers to the other stand between them. Threads meet once
 * in a stage of two, and behind the last one. */
static int unit(const TsTarget *t, const Square *q, int stages, const char *text) {
  int waves = t->lanes == 64 ? 4 : 8, n = 0, meetings = 0;
  int squares = q->block / 16 * q->block / 16 / waves;
  char word[40];
  snprintf(word, sizeof word, "\tv_%s_%s_16x16x", t->lanes == 64 ? "mfma" : "wmma", q->sums);
  for (const char *at = text; (at = strstr(at, word)); at++) n++;
  const char *meets = strstr(text, "s_barrier_wait") ? "\ts_barrier_wait" : "\ts_barrier";
  for (const char *at = text; (at = strstr(at, meets)); at++) meetings++;
  bool eight = !strncmp(q->of, "fp8", 3) && !strstr(text, q->of[5] == '4' ? "fp8_fp8" : "bf8_bf8");
  return n != squares * (q->depth / q->steps[t->matrix]) || eight || meetings != 2 ||
         strstr(text, "accvgpr") != NULL || (stages == 2 && !strstr(text, "offset:"));
}

static const Square *now; /* what is checked, and in how many stages */
static int now_stages;

/* One function each, without a stack; f32 as it is. */
static int instructions(const TsTile *k, const TsTarget *t, const char *path) {
  static const char *const unwanted[] = {"s_swappc", "s_setpc", "s_call", "scratch_",
                                         "buffer_"};
  static const char *const fused[] = {"v_fma", "v_mac", "v_fmac", "v_mad_f", "v_pk_fma"};
  char arguments[200];
  int bad = 0;
  snprintf(arguments, sizeof arguments, "-d %s", path);
  char *text = told("llvm-objdump", arguments, &bad);
  for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted && !bad; i++)
    bad = strstr(text, unwanted[i]) != NULL;
  if (!bad) bad = !strstr(text, "s_endpgm");
  for (size_t i = 0; i < sizeof fused / sizeof *fused && !strcmp(k->name, "apart") && !bad; i++)
    bad = strstr(text, fused[i]) != NULL;
  if (!bad && !strcmp(k->name, "signs")) bad = strstr(text, "_mix") != NULL;
  if (!bad && !strcmp(k->name, "square")) bad = unit(t, now, now_stages, text);
  if (!bad && !strcmp(k->name, "exact"))
    bad = !strstr(text, "v_div_fixup_f32") || !strstr(text, "v_sqrt_f32");
  if (bad) wrong(k, t, "instructions", text);
  free(text);
  snprintf(arguments, sizeof arguments, "-D --disassemble-symbols=phase0.kd %s", path);
  bool looks = !bad && (!t->generic || !strcmp(k->name, "square"));
  text = looks ? told("llvm-objdump", arguments, &bad) : NULL;
  if (looks && !bad)
    bad = number_of(text, ".amdhsa_float_denorm_mode_32 ") != 3 ||
          number_of(text, ".amdhsa_float_round_mode_32 ") != 0;
  if (bad && text) wrong(k, t, "rounding", text);
  free(text);
  return bad;
}

static int keep(const TsTile *k, const TsTarget *t, const TsGpuCode *code, char *path) {
  int fd = mkstemp(path);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  if (!f) return wrong(k, t, "no temporary file", NULL);
  fwrite(code->image, 1, code->size, f), fclose(f);
  return 0;
}

/* Each maker's text has no word of the other's. */
static int words(const TsTile *k, const TsTarget *t) {
  TsError err = {0};
  TsText own = {0}, other = {0};
  int bad = ts_gpu_text(k, t, "llvm", &own, &err) ||
            ts_gpu_text(k, ts_target("sm_90a"), "llvm", &other, &err);
  if (bad) return wrong(k, t, "LLVM IR", err.message);
  if (!strstr(own.at, "amdgpu_kernel") || strstr(own.at, "nvvm") || strstr(own.at, " asm "))
    bad = wrong(k, t, "LLVM IR", own.at);
  if (!strstr(other.at, "ptx_kernel") || strstr(other.at, "amdg"))
    bad = wrong(k, t, "LLVM IR of the other", other.at);
  ts_text_free(&own), ts_text_free(&other);
  return bad;
}

static int check(const TsTile *k, const TsTarget *t, TsGpuForm form) {
  TsGpuCode code;
  TsError err = {0};
  char path[64] = "/tmp/tsXXXXXX";
  if (ts_gpu_code(k, t, form, &code, &err)) return wrong(k, t, "no code", err.message);
  int bad = keep(k, t, &code, path);
  if (!bad) bad = notes(k, t, &code, form == TS_GPU_batch, path);
  if (!bad) bad = instructions(k, t, path);
  remove(path);
  ts_gpu_code_free(&code);
  return bad;
}

/* With profile marks: clocks and the processor are read, turns are stored, and what says where is
 * among the arguments. Registers may run out in code that few blocks run. */
static int clocks(const TsTile *k, const TsTarget *t, const char *path) {
  bool old = t->lanes == 64 || !strncmp(t->cpu, "gfx10", 5);
  const char *const word[] = {old             ? "s_memtime"
                              : t->clock_bits ? "HW_REG_SHADER_CYCLES, 0, 20"
                                              : "SHADER_CYCLES_LO",
                              old ? "s_memrealtime" : "MSG_RTN_GET_REALTIME", "HW_ID",
                              t->place == TS_PLACE_die ? "HW_REG_XCC_ID" : "s_getreg_b32"};
  char arguments[200];
  int bad = 0;
  snprintf(arguments, sizeof arguments, "-d %s", path);
  char *text = told("llvm-objdump", arguments, &bad);
  for (size_t i = 0; i < sizeof word / sizeof *word && !bad; i++)
    if (!strstr(text, word[i])) bad = wrong(k, t, word[i], text);
  free(text);
  return bad;
}

static int marked(const TsTile *plain, const TsTarget *t) {
  TsGpuCode code;
  TsError err = {0};
  char path[64] = "/tmp/tsXXXXXX";
  TsTile *k = ts_tile_stages(plain, false, &err);
  if (!k || ts_gpu_code(k, t, TS_GPU_aligned, &code, &err)) {
    ts_tile_free(k);
    return wrong(plain, t, "no code with marks", err.message);
  }
  int bad = keep(k, t, &code, path);
  if (!bad) bad = notes(k, t, &code, false, path);
  if (!bad) bad = clocks(k, t, path);
  remove(path);
  ts_gpu_code_free(&code);
  ts_tile_free(k);
  return bad;
}

static int squares(const TsTarget *t) {
  TsError err = {0};
  char text[1600];
  int bad = 0;
  for (size_t i = 0; i < 2 * sizeof kind / sizeof *kind && !bad && t->matrix; i++) {
    const Square *q = now = &kind[i / 2];
    int stages = now_stages = 1 + i % 2;
    if (!(t->factors & q->factor) || (t->generic && stages == 2)) continue;
    snprintf(text, sizeof text, square, q->of, q->depth, q->sums, q->to, q->block, 256,
             t->lanes == 64 ? "mfma" : "wmma", stages, 512 - q->depth);
    TsTile *k = ts_tile_parse(text, &err);
    if (!k) return printf("%s\n%s\n", err.message, text), 1;
    bad = check(k, t, TS_GPU_aligned);
    if (!bad && !i) bad = marked(k, t);
    ts_tile_free(k);
  }
  return bad;
}

static int print(const char *target, int i, const char *level, bool marks) {
  TsText text = {0};
  TsError err = {0};
  TsTile *k = i < FAMILIES + MORE ? ts_tile_parse(kernel_at(i), &err) : NULL;
  TsTile *plain = k;
  if (k && marks) k = ts_tile_stages(plain, false, &err), ts_tile_free(plain);
  int bad = !k || !ts_target(target) || ts_gpu_text(k, ts_target(target), level, &text, &err);
  puts(bad ? err.message : text.at);
  ts_text_free(&text), ts_tile_free(k);
  return bad;
}

int main(int argc, char **argv) {
  static const char *const tool[] = {"llvm-readelf", "llvm-objdump"};
  const TsTarget *t;
  TsError err = {0};
  int bad = 0;
  if (!ts_llvm_present()) return printf("skipped: no LLVM\n"), 0;
  if (argc > 2) return print(argv[1], atoi(argv[2]), argc > 3 ? argv[3] : "asm", argc > 4);
  for (int i = 0; i < 2; i++)
    if (!has_tool(tool[i]))
      return printf("skipped: there is no %s%s\n", LLVM_TOOLS, tool[i]), 0;
  for (int i = 0; i < FAMILIES + MORE && !bad; i++) {
    TsTile *k = ts_tile_parse(kernel_at(i), &err);
    if (!k) return printf("%s\n%s\n", err.message, kernel_at(i)), 1;
    for (int j = 0, of = 0; (t = ts_target_at(j)) && !bad; j++) {
      if (!ts_target_gpu(t) || t->maker != TS_MAKER_amd) continue;
      if (t->generic && t->registers >= 96 && i % 3 != j % 3)
        continue; /* the same code but for a few instructions */
      bad = check(k, t, i % 3 ? TS_GPU_aligned : TS_GPU_loose);
      if (!bad && k->ndim && k->nparam < 6) bad = check(k, t, TS_GPU_batch);
      if (!bad && i % 4 == of % 4) bad = words(k, t);
      if (!bad && i % 4 == (of++ + 2) % 4) bad = marked(k, t);
    }
    ts_tile_free(k);
  }
  for (int j = 0; (t = ts_target_at(j)) && !bad; j++)
    if (ts_target_gpu(t) && t->maker == TS_MAKER_amd) bad = squares(t);
  return bad;
}
