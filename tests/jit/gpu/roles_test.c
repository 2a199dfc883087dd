/* PTX of matrix products for GPUs: made for every layout, tile and type, and assembled where
 * ptxas is found, which must not spill, serialise asynchronous products, or refuse. "print i"
 * prints the PTX of case i, "llvm i" its LLVM IR. */
#include <time.h>

#include "ir/tile/gpu/product.h"
#include "jit/compile/llvm.h"
#include "tests/ir/gpu_epilogue.h"
#include "tests/jit/gpu/ptxas.h"

static int failed;

typedef enum How { USUAL, LATE, BATCH } How;

typedef struct Case {
  TsDtype in, out;
  int rows, cols, cluster;
  bool ta, tb, more;
  int activation, limit;
  int spills; /* bytes that may be spilled outside of the loop of products */
  How how;
} Case;

/* f32 on the matrix unit: tiles as of 16 bits. */
static const Case tf32[] = {
    {TS_DT_bf16, TS_DT_f32, 128, 256, 2, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_bf16, TS_DT_f32, 192, 192, 1, false, true, true, TS_OP_relu, 0, 16, USUAL},
};

static bool is_tf32(const Case *c) { return c == &tf32[0] || c == &tf32[1]; }

static TsTile *kernel(const Case *c) {
  TsError err = {0};
  TsGpuProduct p = ts_gpu_product(c->in, c->out, c->ta, c->tb, c->rows, c->cols);
  p.cluster = c->cluster;
  p.bias = p.residual = c->more;
  p.activation = c->activation;
  p.limit = c->limit;
  if (is_tf32(c)) p.in = TS_DT_f32, p.depth /= 2, p.tf32 = true;
  p.batch = c->how == BATCH;
  if (p.batch) p.a = p.b = (TsGpuOperandLayout){4096, {64, 1 << 20}};
  if (c->how == LATE) ts_gpu_product_settle(&p, 4096);
  TsTile *k = ts_tile_gpu_product(&p, &err);
  if (!k || ts_tile_check(k, NULL, &err)) failed++, printf("%s\n", err.message);
  return k;
}

static void say(const void *of, const char *what) {
  const Case *c = of;
  printf("%s %s %d%d %dx%d cluster %d more %d: %s\n", ts_dtype_name(c->in),
         ts_dtype_name(c->out), c->ta, c->tb, c->rows, c->cols, c->cluster, c->more, what);
}

static void one(const Case *c, bool ptxas) {
  TsError err = {0};
  TsGpuRoles info;
  TsText ptx = {0};
  TsTile *k = kernel(c);
  if (!k) return;
  clock_t begun = clock();
  if (ts_gpu_roles_text(k, false, &info, &ptx, &err))
    failed++, say(c, err.message);
  else if (info.shared > 232448 || info.threads != k->threads || info.nmap < 2)
    failed++, say(c, "not the kernel that was asked for");
  else if (ptxas)
    failed += judge(&ptx, k->target, c->spills, c, say);
  if (getenv("PTXAS")) printf("%.1f ms  ", (double)(clock() - begun) * 1e3 / CLOCKS_PER_SEC);
  ts_text_free(&ptx);
  ts_tile_free(k);
}

static const Case all[] = {
    {TS_DT_bf16, TS_DT_bf16, 128, 256, 2, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_bf16, TS_DT_bf16, 128, 256, 2, false, false, false, 0, 0, 0, USUAL},
    {TS_DT_bf16, TS_DT_bf16, 128, 256, 2, true, true, false, 0, 0, 0, USUAL},
    {TS_DT_bf16, TS_DT_bf16, 128, 256, 2, true, false, false, 0, 0, 0, USUAL},
    {TS_DT_f16, TS_DT_f16, 128, 256, 1, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_bf16, TS_DT_f32, 128, 256, 2, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_bf16, TS_DT_bf16, 128, 128, 2, false, false, false, 0, 0, 0, USUAL},
    {TS_DT_bf16, TS_DT_bf16, 128, 64, 1, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_bf16, TS_DT_bf16, 128, 256, 2, false, true, true, TS_OP_relu, 0, 0, USUAL},
    {TS_DT_bf16, TS_DT_bf16, 192, 192, 2, false, false, false, 0, 32, 0, USUAL},
    {TS_DT_bf16, TS_DT_bf16, 192, 192, 1, true, true, true, TS_OP_relu, 0, 16, USUAL},
    {TS_DT_bf16, TS_DT_f32, 192, 128, 1, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_bf16, TS_DT_bf16, 128, 192, 2, true, false, false, 0, 0, 0, USUAL},
    {TS_DT_bf16, TS_DT_bf16, 64, 64, 1, false, false, false, 0, 0, 0, USUAL},
    {TS_DT_bf16, TS_DT_bf16, 64, 256, 1, true, true, false, 0, 32, 0, USUAL},
    {TS_DT_fp8_e4m3, TS_DT_bf16, 128, 256, 2, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_fp8_e4m3, TS_DT_f32, 128, 128, 1, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_fp8_e5m2, TS_DT_bf16, 64, 64, 1, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_i8, TS_DT_i32, 128, 256, 2, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_i8, TS_DT_i32, 64, 64, 1, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_f32, TS_DT_f32, 128, 256, 1, false, false, false, 0, 0, 0, USUAL},
    {TS_DT_f32, TS_DT_f32, 128, 256, 1, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_f32, TS_DT_f32, 128, 256, 1, true, false, false, 0, 0, 0, USUAL},
    {TS_DT_f32, TS_DT_f32, 128, 256, 1, true, true, true, TS_OP_relu, 0, 0, USUAL},
    {TS_DT_f32, TS_DT_f32, 128, 256, 1, true, true, false, 0, 0, 0, USUAL},
    {TS_DT_f32, TS_DT_f32, 128, 256, 1, false, false, true, TS_OP_relu, 0, 16, USUAL},
    {TS_DT_f32, TS_DT_f32, 64, 128, 1, false, false, false, 0, 0, 0, USUAL},
    {TS_DT_f32, TS_DT_f32, 64, 128, 1, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_f32, TS_DT_f32, 64, 128, 1, true, false, false, 0, 0, 0, USUAL},
    {TS_DT_f32, TS_DT_f32, 64, 128, 1, true, true, true, 0, 0, 0, USUAL},
    {TS_DT_f32, TS_DT_f32, 32, 64, 1, false, false, false, 0, 0, 0, USUAL},
    {TS_DT_f32, TS_DT_f32, 32, 64, 1, false, true, false, 0, 0, 0, USUAL},
    {TS_DT_f32, TS_DT_f32, 32, 64, 1, true, false, false, 0, 0, 0, USUAL},
    {TS_DT_f32, TS_DT_f32, 32, 64, 1, true, true, true, 0, 0, 0, USUAL},
    {TS_DT_f64, TS_DT_f64, 64, 128, 1, true, false, false, 0, 0, 0, USUAL},
    {TS_DT_f64, TS_DT_f64, 64, 128, 1, false, true, false, 0, 0, 64, USUAL},
    {TS_DT_f64, TS_DT_f64, 32, 64, 1, true, false, false, 0, 0, 0, USUAL},
    {TS_DT_f64, TS_DT_f64, 32, 64, 1, false, true, false, 0, 0, 64, USUAL},
    {TS_DT_f64, TS_DT_f64, 128, 128, 1, false, false, false, 0, 0, 0, USUAL},
    {TS_DT_f64, TS_DT_f64, 128, 128, 1, false, true, false, 0, 0, 64, USUAL},
    {TS_DT_f64, TS_DT_f64, 128, 128, 1, true, false, false, 0, 0, 0, USUAL},
    {TS_DT_bf16, TS_DT_bf16, 128, 256, 2, false, true, false, 0, 0, 0, LATE},
    {TS_DT_bf16, TS_DT_bf16, 128, 256, 2, true, false, false, 0, 32, 0, LATE},
    {TS_DT_bf16, TS_DT_bf16, 128, 128, 1, false, false, false, 0, 0, 0, LATE},
    {TS_DT_bf16, TS_DT_bf16, 192, 128, 1, true, false, false, 0, 0, 0, LATE},
    {TS_DT_fp8_e4m3, TS_DT_bf16, 128, 256, 2, false, true, false, 0, 0, 0, LATE},
    {TS_DT_bf16, TS_DT_bf16, 128, 256, 2, false, true, false, 0, 0, 0, BATCH},
    {TS_DT_f16, TS_DT_f32, 64, 64, 1, true, false, false, 0, 0, 0, BATCH},
    {TS_DT_f32, TS_DT_f32, 128, 256, 1, false, true, false, 0, 0, 0, BATCH},
    {TS_DT_f64, TS_DT_f64, 128, 128, 1, true, false, false, 0, 0, 64, BATCH},
};

/* Rows of a block form behind the product: late, or not. */
typedef struct Behind {
  int number;
  TsDtype d;
  int rows, cols, cluster;
  bool late;
  int spills;
} Behind;

static TsTile *kernel_behind(const Behind *c) {
  static const int64_t size[3] = {512, 512, 512};
  TsError err = {0};
  TsGpuEpilogue f;
  TsTile *block = epilogue_block(c->number, c->d, size, &err), *k = NULL;
  if (block && ts_gpu_epilogue_find(block, &f)) {
    TsGpuProduct p = ts_gpu_product(c->d, c->d, false, true, c->rows, c->cols);
    p.cluster = c->cluster;
    epilogue_rows(&p, &f, c->late);
    k = ts_tile_gpu_product(&p, &err);
  }
  if (!k || ts_tile_check(k, NULL, &err)) failed++, printf("%s\n", err.message);
  ts_tile_free(block);
  return k;
}

static void one_behind(const Behind *c, bool ptxas) {
  TsError err = {0};
  TsGpuRoles info;
  TsText ptx = {0};
  TsTile *k = kernel_behind(c);
  char line[700];
  if (!k) return;
  clock_t begun = clock();
  bool made = !ts_gpu_roles_text(k, false, &info, &ptx, &err);
  double msec = (double)(clock() - begun) * 1e3 / CLOCKS_PER_SEC;
  if (!made || info.shared > 232448)
    failed++, printf("rows %d: %s\n", c->number, made ? "too much memory" : err.message);
  Assembled a = made && ptxas ? assemble(&ptx, k->target) : (Assembled){.spills = 0};
  snprintf(line, sizeof line,
           "rows %d %dx%d cluster %d late %d: %d spilled, %d registers, %.0f ms %s", c->number,
           c->rows, c->cols, c->cluster, c->late, a.spills, a.registers, msec, a.complaint);
  if (*a.complaint || a.spills > c->spills)
    failed++, puts(line);
  else if (getenv("PTXAS"))
    puts(line);
  ts_text_free(&ptx);
  ts_tile_free(k);
}

static const Behind behind[] = {
    {0, TS_DT_bf16, 128, 256, 2, false, 0}, {1, TS_DT_bf16, 128, 256, 2, false, 32},
    {2, TS_DT_bf16, 128, 256, 2, false, 0}, {0, TS_DT_bf16, 128, 128, 1, false, 0},
    {0, TS_DT_bf16, 64, 64, 1, false, 0},   {3, TS_DT_bf16, 128, 256, 2, false, 0},
    {2, TS_DT_bf16, 128, 64, 1, false, 0},  {0, TS_DT_f16, 128, 256, 2, false, 6500},
    {4, TS_DT_bf16, 128, 256, 2, false, 0}, {0, TS_DT_bf16, 128, 256, 2, true, 0},
    {1, TS_DT_bf16, 128, 256, 2, true, 0},  {3, TS_DT_bf16, 128, 256, 2, true, 0},
    {4, TS_DT_bf16, 128, 256, 2, true, 0},  {0, TS_DT_f16, 128, 256, 2, true, 2200},
    {5, TS_DT_bf16, 128, 256, 2, true, 0},  {5, TS_DT_bf16, 128, 256, 2, false, 0},
};

static void print(const Case *c, bool llvm) {
  TsTile *k = kernel(c);
  print_code(k, llvm);
  ts_tile_free(k);
}

int main(int argc, char **argv) {
  int n = sizeof all / sizeof *all;
  int more = sizeof behind / sizeof *behind;
  if (argc > 2 && argv[2][0] == 'b') {
    TsTile *k = kernel_behind(&behind[atoi(argv[2] + 1) % more]);
    print_code(k, argv[1][0] == 'l');
    return ts_tile_free(k), 0;
  }
  if (argc > 2) return print(&all[atoi(argv[2]) % n], argv[1][0] == 'l'), 0;
  if (!ts_llvm_present()) return skip("no LLVM");
  bool ptxas = has_ptxas();
  for (int i = 0; i < n; i++) one(&all[i], ptxas);
  for (int i = 0; i < 2; i++) one(&tf32[i], ptxas);
  for (int i = 0; i < more; i++) one_behind(&behind[i], ptxas);
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
