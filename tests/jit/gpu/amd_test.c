/* Kernels of block form for another maker's GPUs: code objects of each of its targets, and what
 * LLVM's own tools read out of them. Nothing is executed; that the code computes the right bits is
 * what the emulation says of the same emitter (kernels_test.c), and scripts/emulate_amd.py of the
 * objects. [target] [kernel] [llvm|asm]: prints one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jit/compile/llvm.h"
#include "jit/gpu/gpu.h"
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

/* By the matrix unit: sums of 128 x 128, operands of the next stage on their way. */
static const char square[] =
    "tile @square(%%a: %s[256,512], %%b: %s[512,256]) -> (%%y: %s[256,256]) threads %d {\n"
    "  for %%i in 0..256 step 128 parallel {\n"
    "    for %%j in 0..256 step 128 parallel {\n"
    "      %%z = const : f32[128,128]\n"
    "      %%p = load %%a[%%i, 0] : %s[128,32]\n"
    "      %%q = load %%b[0, %%j] : %s[32,128]\n"
    "      %%s, %%t, %%u = for %%k in 0..512 step 32 carry %%x = %%z, %%m = %%p, %%n = %%q\n"
    "          : f32[128,128], %s[128,32], %s[32,128] {\n"
    "        %%f = add %%k, 32 : i64[]\n"
    "        %%g = minimum %%f, 480 : i64[]\n"
    "        %%c = load %%a[%%i, %%g] : %s[128,32]\n"
    "        %%d = load %%b[%%g, %%j] : %s[32,128]\n"
    "        %%e = mma %%m, %%n, %%x {unit=\"%s\"} : f32[128,128]\n"
    "        yield %%e, %%c, %%d\n"
    "      }\n"
    "      %%v = cast %%s : %s[128,128]\n"
    "      store %%y[%%i, %%j] = %%v\n"
    "    }\n  }\n}\n";

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

/* Half as many registers as others have for blocks of 512 threads. */
static bool spills(const TsTile *k, const TsTarget *t) {
  return t->registers < 96 && !strcmp(k->name, "columns");
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
  if (batch) words = TS_GPU_BATCH_WORDS + code->ndim - 1;
  for (int i = 0; i < code->nphase && !bad; i++) {
    snprintf(word, sizeof word, ".name:           %s\n", code->phase[i].name);
    const char *name = strstr(text, word);
    for (at = name; at > text && strncmp(at, "\n  - ", 5);) at--;
    bad = !name || number_of(at, ".wavefront_size:") != t->lanes ||
          number_of(at, ".group_segment_fixed_size:") != 0 ||
          (number_of(at, ".private_segment_fixed_size:") != 0 && !spills(k, t)) ||
          number_of(at, ".kernarg_segment_size:") != 8 * words ||
          number_of(at, ".max_flat_workgroup_size:") != code->phase[i].threads;
  }
  if (bad) wrong(k, t, "notes", text);
  if (!bad) bad = symbols(k, t, code, text);
  free(text);
  return bad;
}

/* Sums stay where they are through all rounds: a stage of a wave is so many instructions of the
 * unit, and no copies from one half of the registers to the other stand between them. */
static int unit(const TsTarget *t, const char *text) {
  int n = 0, wanted = t->lanes == 64 ? 16 : 8, steps = t->matrix == TS_MATRIX_mfma4 ? 1 : 2;
  const char *word = t->lanes == 64 ? "\tv_mfma_f32_16x16x" : "\tv_wmma_f32_16x16x16_";
  for (const char *at = text; (at = strstr(at, word)); at++) n++;
  return n != wanted * steps || strstr(text, "accvgpr") != NULL;
}

/* One function each, without a stack; f32 as it is. */
static int instructions(const TsTile *k, const TsTarget *t, const char *path) {
  static const char *const unwanted[] = {"s_swappc", "s_setpc", "s_call", "scratch_",
                                         "buffer_"};
  static const char *const fused[] = {"v_fma", "v_mac", "v_fmac", "v_mad_f", "v_pk_fma"};
  char arguments[200];
  int bad = 0;
  snprintf(arguments, sizeof arguments, "-d %s", path);
  char *text = told("llvm-objdump", arguments, &bad);
  for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted && !bad && !spills(k, t); i++)
    bad = strstr(text, unwanted[i]) != NULL;
  if (!bad) bad = !strstr(text, "s_endpgm");
  for (size_t i = 0; i < sizeof fused / sizeof *fused && !strcmp(k->name, "apart") && !bad; i++)
    bad = strstr(text, fused[i]) != NULL;
  if (!bad && !strcmp(k->name, "signs")) bad = strstr(text, "_mix") != NULL;
  if (!bad && !strcmp(k->name, "square")) bad = unit(t, text);
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

static int squares(const TsTarget *t) {
  static const char *const dtype[] = {"bf16", "f16"};
  TsError err = {0};
  char text[1600];
  int bad = 0;
  for (int i = 0; i < 2 && !bad && t->matrix; i++) {
    const char *d = dtype[i];
    snprintf(text, sizeof text, square, d, d, d, 256, d, d, d, d, d, d,
             t->lanes == 64 ? "mfma" : "wmma", d);
    TsTile *k = ts_tile_parse(text, &err);
    if (!k) return printf("%s\n%s\n", err.message, text), 1;
    bad = check(k, t, TS_GPU_aligned);
    ts_tile_free(k);
  }
  return bad;
}

static int print(const char *target, int i, const char *level) {
  TsText text = {0};
  TsError err = {0};
  TsTile *k = i < FAMILIES + MORE ? ts_tile_parse(kernel_at(i), &err) : NULL;
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
  if (argc > 2) return print(argv[1], atoi(argv[2]), argc > 3 ? argv[3] : "asm");
  for (int i = 0; i < 2; i++)
    if (!has_tool(tool[i]))
      return printf("skipped: there is no %s%s\n", LLVM_TOOLS, tool[i]), 0;
  for (int i = 0; i < FAMILIES + MORE && !bad; i++) {
    TsTile *k = ts_tile_parse(kernel_at(i), &err);
    if (!k) return printf("%s\n%s\n", err.message, kernel_at(i)), 1;
    for (int j = 0, of = 0; (t = ts_target_at(j)) && !bad; j++) {
      if (!ts_target_gpu(t) || t->maker != TS_MAKER_amd) continue;
      if (t->generic && i % 3 != j % 3) continue; /* the same code but for a few instructions */
      bad = check(k, t, i % 3 ? TS_GPU_aligned : TS_GPU_loose);
      if (!bad && k->ndim && k->nparam < 6) bad = check(k, t, TS_GPU_batch);
      if (!bad && i % 4 == of++ % 4) bad = words(k, t);
    }
    ts_tile_free(k);
  }
  for (int j = 0; (t = ts_target_at(j)) && !bad; j++)
    if (ts_target_gpu(t) && t->maker == TS_MAKER_amd) bad = squares(t);
  return bad;
}
