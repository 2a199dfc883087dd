/* Kernels of block form as SPIR-V, for each of its targets: what modules ask of a device, what
 * spirv-val says of them, and Intel's compiler offline, where there are these
 * (scripts/python.sh, scripts/setup.sh). What they compute is what tests/devices/opencl*.lua
 * compare. [target] [kernel] [llvm|asm]: prints one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices/driver/spirv.h"
#include "jit/compile/llvm.h"
#include "jit/compile/spirv.h"
#include "jit/gpu/gpu.h"
#include "tests/jit/gpu/families.h"
#include "tests/skip.h"

static const char *const more[] = {
    /* from 64 bits to 8 and back to 32 */
    "tile @shortened(%x: i64[2048]) -> (%y: i32[2048]) {\n"
    "  for %i in 0..2048 step 1024 parallel {\n"
    "    %a = load %x[%i] : i64[1024]\n"
    "    %b = cast %a : u8[1024]\n"
    "    %c = cast %b : i32[1024]\n"
    "    store %y[%i] = %c\n"
    "  }\n}\n",
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
    /* whole numbers: what has no f64 divides and converts them by others */
    "tile @whole(%x: i32[4096], %y: i64[4096]) -> (%u: i32[4096], %v: bf16[4096]) {\n"
    "  for %i in 0..4096 step 1024 parallel {\n"
    "    %a = load %x[%i] : i32[1024]\n"
    "    %b = load %y[%i] : i64[1024]\n"
    "    %c = const {value=7} : i32[1024]\n"
    "    %d = floordiv %a, %c : i32[1024]\n"
    "    %e = cast %b : bf16[1024]\n"
    "    store %u[%i] = %d\n"
    "    store %v[%i] = %e\n"
    "  }\n}\n",
    /* by the matrix unit, where there is one */
    "tile @square(%a: bf16[256,512], %b: bf16[512,256]) -> (%y: bf16[256,256]) threads 256 {\n"
    "  for %i in 0..256 step 128 parallel {\n"
    "    for %j in 0..256 step 128 parallel {\n"
    "      %k = const : i64[]\n"
    "      %n = const {value=512} : i64[]\n"
    "      %z = const : f32[128,128]\n"
    "      %p = load %a[%i, 0] : bf16[128,32]\n"
    "      %q = load %b[0, %j] : bf16[32,128]\n"
    "      %s, %t, %u = for %l in %k..%n step 32 carry %v = %z, %w = %p, %x = %q "
    ": f32[128,128], bf16[128,32], bf16[32,128] {\n"
    "        %f = load %a[%i, %l] : bf16[128,32]\n"
    "        %g = load %b[%l, %j] : bf16[32,128]\n"
    "        %h = mma %w, %x, %v {unit=\"dpas\"} : f32[128,128]\n"
    "        yield %h, %f, %g\n"
    "      }\n"
    "      %r = relu %s : f32[128,128]\n"
    "      %c = cast %r : bf16[128,128]\n"
    "      store %y[%i, %j] = %c\n"
    "    }\n  }\n}\n",
#define SQUARES(name, unit, d, acc, k, step, lies)                                             \
  "tile @" name "(%a: " d "[256," k "], %b: " d "[" k ",256]" lies ") -> (%y: " acc            \
  "[256,256]) threads 256 {\n"                                                                 \
  "  for %i in 0..256 step 128 parallel {\n"                                                   \
  "    for %j in 0..256 step 128 parallel {\n"                                                 \
  "      %k = const : i64[]\n"                                                                 \
  "      %n = const {value=" k "} : i64[]\n"                                                   \
  "      %z = const : " acc "[128,128]\n"                                                      \
  "      %s = for %l in %k..%n step " step " carry %v = %z : " acc "[128,128] {\n"             \
  "        %f = load %a[%i, %l] : " d "[128," step "]\n"                                       \
  "        %g = load %b[%l, %j] : " d "[" step ",128]\n"                                       \
  "        %h = mma %f, %g, %v {unit=\"" unit "\"} : " acc "[128,128]\n"                       \
  "        yield %h\n"                                                                         \
  "      }\n"                                                                                  \
  "      store %y[%i, %j] = %s\n"                                                              \
  "    }\n  }\n}\n"
    /* and of operands that come by 2D block loads: the right one across k, or along it */
    SQUARES("boxes", "dpas", "f16", "f32", "512", "32", ""),
    SQUARES("boxes_along", "dpas", "bf16", "f32", "512", "32", " strides [1,512]"),
    SQUARES("boxes_whole", "dpas", "i8", "i32", "1024", "64", ""),
    /* and by cooperative matrices */
    SQUARES("matrices_bf16", "cooperative", "bf16", "f32", "512", "32", ""),
    SQUARES("matrices_f16", "cooperative", "f16", "f32", "512", "32", " strides [1,512]"),
    SQUARES("matrices_i8", "cooperative", "i8", "i32", "1024", "64", ""),
    /* products and sums are rounded each, quotients and roots once */
    "tile @exact(%x: f32[4096], %y: f32[4096]) -> (%z: f32[4096], %w: f32[4096]) {\n"
    "  for %i in 0..4096 step 1024 parallel {\n"
    "    %a = load %x[%i] : f32[1024]\n"
    "    %b = load %y[%i] : f32[1024]\n"
    "    %p = mul %a, %b : f32[1024]\n"
    "    %q = add %p, %a : f32[1024]\n"
    "    %c = div %q, %b : f32[1024]\n"
    "    %d = sqrt %a : f32[1024]\n"
    "    store %z[%i] = %c\n"
    "    store %w[%i] = %d\n"
    "  }\n}\n",
};

enum { FAMILIES = sizeof families / sizeof *families, MORE = sizeof more / sizeof *more };

static const char *kernel_at(int i) { return i < FAMILIES ? families[i] : more[i - FAMILIES]; }

/* Intel's compiler here has the last three. */
static const char *const target[] = {"spirv", "spirv_cpu", "cooperative",
                                     "pvc",   "dg2",       "tgllp"};
enum { TARGETS = sizeof target / sizeof *target, OFFLINE = TARGETS - 3 };

static char folder[] = "/tmp/tsXXXXXX";

static int wrong(const TsTile *k, const TsTarget *t, const char *what, const char *text) {
  printf("%s for %s: %s\n%.4000s\n", k->name, t->name, what, text ? text : "");
  return 1;
}

/* What a command prints, complaints too. */
static char *told(const char *command, int *failed) {
  char line[600];
  TsText out = {0};
  FILE *f = popen(command, "r");
  for (size_t n; f && (n = fread(line, 1, sizeof line, f)) > 0;) ts_text_add(&out, line, n);
  *failed = !f || pclose(f);
  if (!out.at) ts_text_str(&out, "");
  return out.at;
}

static bool has_tool(const char *tool) {
  char line[80];
  snprintf(line, sizeof line, "command -v %s > /dev/null", tool);
  return !system(line);
}

static void path_of(const TsTile *k, const TsTarget *t, int i, char path[100]) {
  snprintf(path, 100, "%s/%s-%d-%s.spv", folder, t->name, i, k->name);
}

/* ---- what is asked */
enum { INT64 = 11, FLOAT16 = 9, FLOAT64 = 10, INT16 = 22, INT8 = 39 };
enum {
  ADDRESSES = 4,
  LINKAGE,
  KERNEL,
  VECTOR16,
  SUBGROUP_DISPATCH = 58,
  SUBGROUP_SHUFFLE = 5568,
  MATRIX = 6022,
  BF16 = 5116,
  MATRIX_BF16 = 5118
};

static bool of_boxes(const TsTile *k) { return !strncmp(k->name, "boxes", 5); }

/* Whether it multiplies by the target's unit. */
static bool by_matrices(const TsTile *k, const TsTarget *t) {
  return t->matrix == TS_MATRIX_cooperative && !strncmp(k->name, "matrices", 8);
}

static bool by_unit(const TsTile *k, const TsTarget *t) {
  bool dpas = !strcmp(k->name, "square") || of_boxes(k);
  return by_matrices(k, t) || (t->matrix == TS_MATRIX_dpas && dpas);
}

/* Of a device: nothing but what the kernel needs. */
static int capabilities(const TsTile *k, const TsTarget *t, const TsGpuCode *code) {
  static const uint32_t usual[] = {INT64,     FLOAT16, FLOAT64, INT16,   INT8,
                                   ADDRESSES, LINKAGE, KERNEL,  VECTOR16};
  static const uint32_t of_warps[] = {SUBGROUP_DISPATCH, SUBGROUP_SHUFFLE};
  static const uint32_t of_matrices[] = {MATRIX, BF16, MATRIX_BF16};
  const uint32_t *word = (const uint32_t *)code->image;
  for (size_t i = 5; word[i] == (2u << 16 | 17); i += 2) {
    bool known = false;
    for (size_t j = 0; j < sizeof usual / sizeof *usual; j++) known |= word[i + 1] == usual[j];
    for (int j = 0; j < 2; j++) known |= t->lanes == 32 && word[i + 1] == of_warps[j];
    for (int j = 0; j < 3; j++) known |= by_matrices(k, t) && word[i + 1] == of_matrices[j];
    if (t->single && word[i + 1] == FLOAT64) known = false;
    if (!known) return printf("capability %u\n", word[i + 1]), wrong(k, t, "asks for", NULL);
  }
  return 0;
}

static bool all_in(const char *text, int n, const char *const *word) {
  for (int i = 0; i < n; i++)
    if (!strstr(text, word[i])) return printf("without %s\n", word[i]), false;
  return true;
}

/* The text says of each function how it is launched and that nothing is contracted. */
static int text_of(const TsTile *k, const TsTarget *t, const TsGpuCode *code) {
  TsText text = {0};
  TsError err = {0};
  bool unit = by_unit(k, t);
  char size[60];
  snprintf(size, sizeof size, " LocalSize %d 1 1", code->phase[0].threads);
  const char *const word[] = {" ContractionOff", "OpMemoryModel Physical64 OpenCL", size,
                              unit             ? " SubgroupSize 16"
                              : t->lanes == 32 ? " SubgroupSize 32"
                                               : size};
  if (ts_gpu_text(k, t, "asm", &text, &err)) return wrong(k, t, "no text", err.message);
  int bad = !all_in(text.at, 4, word) || (t->lanes < 32 && strstr(text.at, "Subgroup"));
  bad |= !ts_spirv_sound_text(text.at, text.len);
  if (!strcmp(k->name, "exact")) {
    /* spirv: by f64, which every driver rounds right */
    const char *const exact[] = {"OpFMul ", "OpFAdd ", "OpFDiv ", " sqrt "};
    bool wide = strstr(text.at, "OpTypeFloat 64") != NULL;
    bad |= !all_in(text.at, 4, exact) || strstr(text.at, " fma ") || wide != t->rough;
  }
  if (bad) wrong(k, t, "text", text.at);
  ts_text_free(&text);
  return bad;
}

static int count(const char *text, const char *word) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, word)); at++) n++;
  return n;
}

/* Of a sub-group's 32 x 32 sums 8 matrices, twice of a stage: they are matrices from the first zero on
 * until the loop has ended, and of their numbers each lane has a column then. */
static int text_of_matrices(const TsTile *k, const TsTarget *t) {
  TsText text = {0};
  TsError err = {0};
  if (ts_gpu_text(k, t, "asm", &text, &err)) return wrong(k, t, "no text", err.message);
  const char *store = strstr(text.at, "OpCooperativeMatrixStoreKHR");
  const char *last = NULL;
  for (const char *at = text.at; (at = strstr(at, "OpCooperativeMatrixMulAddKHR")); at++)
    last = at;
  bool whole = strstr(k->name, "i8"), typed = strstr(text.at, "MatrixASignedComponentsKHR");
  int bad = count(text.at, "= OpCooperativeMatrixMulAddKHR ") != 16 ||
            count(text.at, "OpCooperativeMatrixLoadKHR ") != 2 * (4 + 2) ||
            count(text.at, "OpCooperativeMatrixStoreKHR ") != 8 ||
            count(text.at, "= OpTypeCooperativeMatrixKHR ") != 3 || !store || store < last ||
            whole != typed;
  if (bad) wrong(k, t, "matrices", text.at);
  ts_text_free(&text);
  return bad;
}

static bool has_f64(const TsTile *k) {
  for (int i = 0; i < k->nparam; i++)
    if (k->param[i]->type.dtype == TS_DT_f64) return true;
  return false;
}

static int refused(const TsTile *k, const TsTarget *t, const TsError *err) {
  char text[60];
  snprintf(text, sizeof text, "jit: %s has no f64", t->name);
  if (t->single && has_f64(k) && !strcmp(err->message, text)) return 0;
  return wrong(k, t, "no code", err->message);
}

static int check(const TsTile *k, const TsTarget *t, int i) {
  TsGpuCode code = {0};
  TsError err = {0};
  char path[100];
  if (ts_gpu_code(k, t, i % 3 || of_boxes(k) ? TS_GPU_aligned : TS_GPU_loose, &code, &err))
    return refused(k, t, &err);
  int bad = t->single && has_f64(k) ? wrong(k, t, "code with f64", NULL) : 0;
  if (!ts_spirv_sound(code.image, code.size)) bad = wrong(k, t, "ids are not unique", NULL);
  bad |= capabilities(k, t, &code);
  if (i % 4 == (int)(t->name[0] % 4) || !strcmp(k->name, "exact"))
    bad |= i % 3 ? text_of(k, t, &code) : 0;
  if (by_matrices(k, t)) bad |= text_of_matrices(k, t);
  path_of(k, t, i, path);
  FILE *f = fopen(path, "w");
  if (!f || fwrite(code.image, 1, code.size, f) != code.size) bad = wrong(k, t, path, NULL);
  if (f) fclose(f);
  ts_gpu_code_free(&code);
  return bad;
}

/* ---- others' tools */
/* What drivers are asked before they are given cooperative matrices. */
static void write_probe(void) {
  uint32_t word[TS_SPIRV_PROBE_WORDS];
  char path[100];
  snprintf(path, sizeof path, "%s/probe.spv", folder);
  FILE *f = fopen(path, "wb");
  if (f) fwrite(word, 1, ts_spirv_probe(word), f);
  if (f) fclose(f);
}

static int validate(void) {
  write_probe();
  char line[200];
  int bad;
  snprintf(line, sizeof line,
           "for f in %s/*.spv; do spirv-val --target-env opencl2.2 $f || exit 1; done 2>&1",
           folder);
  char *text = told(line, &bad);
  if (bad) printf("spirv-val: %.2000s\n", text);
  free(text);
  return bad;
}

/* Its warnings, as of registers that are spilled, are no failure. */
static int compile_offline(const char *name) {
  char line[400];
  int bad;
  snprintf(line, sizeof line,
           "cd %s && for f in %s-*.spv; do ocloc compile -spirv_input -file $f -device %s -q "
           "-options -cl-fp32-correctly-rounded-divide-sqrt -output x || { echo $f; exit 1; }; "
           "done 2>&1",
           folder, name, name);
  char *text = told(line, &bad);
  if (bad) printf("ocloc for %s: %.2000s\n", name, text);
  free(text);
  return bad;
}

/* What the matrix unit multiplies: stages of 64 bytes of k of 32 x 32 sums, or some of them, and nothing
 * spilled; what 2D block loads read for it, 8 for 16 products. ocloc wants IGA by a name that the
 * package of its library has not. */
static int uses_unit(const char *kernel, const char *dpas, const char *load) {
  char line[700];
  int bad;
  snprintf(line, sizeof line,
           "cd %s && rm -rf iga text unit* && mkdir iga && ln -s $(ldconfig -p | sed -n "
           "'s/.*libiga64.so.1 .*=> //p' | head -n 1) iga/libiga64.so && ocloc compile "
           "-spirv_input -file pvc-*-%s.spv -device pvc -q -output unit && "
           "LD_LIBRARY_PATH=iga ocloc disasm -file unit_*.bin -device pvc -dump text "
           "> /dev/null && cat text/*.asm 2>&1",
           folder, kernel);
  char *text = told(line, &bad);
  int n = count(text, "dpas.8x8 (16|M0)"), loads = count(text, "load_block2d.ugm.");
  if (n % 16 || !n || loads != (load ? n / 2 : 0) || count(text, dpas) != n ||
      strstr(text, "scratch"))
    bad = 1;
  if (load && count(text, load) != n / 4) bad = 1;
  if (bad) printf("%s: %d dpas, %d loads: %.3000s\n", kernel, n, loads, text);
  free(text);
  return bad;
}

/* ---- ids that are not unique */
static int unsound(void) {
  uint32_t module[] = {0x07230203, 0x00010200, 0, 4, 0, 2u << 16 | 19, 1, 2u << 16 | 248, 2};
  const char *text = "\t%1 = OpTypeVoid\n\t%2 = OpLabel\n\t%2 = OpLabel\n";
  int bad = !ts_spirv_sound(module, sizeof module);
  module[8] = 1;
  bad |= ts_spirv_sound(module, sizeof module);
  module[8] = 4;
  bad |= ts_spirv_sound(module, sizeof module) || ts_spirv_sound(module, 12);
  module[7] = 9u << 16 | 248;
  bad |= ts_spirv_sound(module, sizeof module);
  bad |=
      ts_spirv_sound_text(text, strlen(text)) || !ts_spirv_sound_text(text, strlen(text) - 14);
  return bad ? printf("what is unsound is not found\n"), 1 : 0;
}

/* ---- a name that asks for registers, in front of functions, whole and within the module */
static int names(void) {
  uint32_t module[] = {0x07230203, 0x00010200, 0, 9, 0, 6u << 16 | 5,
                       1,          0,          0, 0, 0, 5u << 16 | 54};
  memcpy(module + 7, "large_registers", 16);
  bool all = ts_spirv_wants_large(module, sizeof module);
  bool cut = ts_spirv_wants_large(module, 10 * sizeof *module);
  module[5] = 0;
  bool none = ts_spirv_wants_large(module, sizeof module);
  module[5] = 6u << 16 | 54;
  bool late = ts_spirv_wants_large(module, sizeof module);
  module[5] = 6u << 16 | 5, module[10] |= 'x' << 24;
  bool longer = ts_spirv_wants_large(module, sizeof module);
  if (all && !cut && !none && !late && !longer) return 0;
  return printf("names: %d %d %d %d %d\n", all, cut, none, late, longer), 1;
}

static int print(const char *name, int i, const char *level) {
  TsError err = {0};
  TsText text = {0};
  TsTile *k = ts_tile_parse(kernel_at(i), &err);
  if (!k || ts_gpu_text(k, ts_target(name), level, &text, &err))
    return printf("%s\n", err.message), 1;
  puts(text.at);
  return 0;
}

static bool has_spirv(void) {
  TsError err = {0};
  TsGpuCode code = {0};
  TsTile *k = ts_tile_parse(kernel_at(0), &err);
  bool has = !k || !ts_gpu_code(k, ts_target("spirv"), TS_GPU_aligned, &code, &err) ||
             !strstr(err.message, "has no SPIR-V");
  ts_gpu_code_free(&code);
  ts_tile_free(k);
  return has;
}

int main(int argc, char **argv) {
  TsError err = {0};
  int bad = unsound() | names();
  if (!ts_llvm_present()) return skip("no LLVM");
  if (!has_spirv()) return skip("this LLVM has no SPIR-V");
  if (argc > 2) return print(argv[1], atoi(argv[2]), argc > 3 ? argv[3] : "asm");
  if (!mkdtemp(folder)) return printf("no folder\n"), 1;
  for (int i = 0; i < FAMILIES + MORE && !bad; i++) {
    TsTile *k = ts_tile_parse(kernel_at(i), &err);
    if (!k) return printf("%s\n%s\n", err.message, kernel_at(i)), 1;
    for (int j = 0; j < TARGETS && !bad; j++) bad = check(k, ts_target(target[j]), i);
    ts_tile_free(k);
  }
  if (!has_tool("spirv-val"))
    skip("there is no spirv-val");
  else if (!bad)
    bad = validate();
  if (!has_tool("ocloc"))
    skip("there is no ocloc");
  else
    for (int j = OFFLINE; j < TARGETS && !bad; j++) bad = compile_offline(target[j]);
  if (!bad && has_tool("ocloc"))
    bad = uses_unit("square", ".0:bf ", NULL) ||
          uses_unit("boxes", ".0:hf ", "load_block2d.ugm.d16v.a64") ||
          uses_unit("boxes_along", ".0:bf ", "load_block2d.ugm.d32t.a64") ||
          uses_unit("boxes_whole", ".0:b ", "load_block2d.ugm.d8v.a64");
  char line[40];
  snprintf(line, sizeof line, "rm -rf %s", folder);
  return system(line) || bad;
}
