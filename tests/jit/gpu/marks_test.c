/* PTX of kernels with roles and profile marks: made, and assembled where ptxas is found, which must not
 * serialise products, or refuse; those with softmax between products have code without turns as well.
 * "print i" prints the PTX of case i, "tile i" its Tile IR. */
#include "ir/tile/gpu/attention.h"
#include "ir/tile/gpu/attention_grad.h"
#include "ir/tile/gpu/decode.h"
#include "ir/tile/gpu/warp_product.h"
#include "ir/tile/pass/stages.h"
#include "jit/compile/llvm.h"
#include "jit/gpu/marks.h"
#include "tests/jit/gpu/ptxas.h"

enum { SPILLS = 200 }; /* in code with turns, which few blocks run */

static int failed;

typedef struct Case {
  const char *name;
  bool twice; /* its code, with turns and without */
  int told;   /* marks at copies that warps tell which do not multiply meanwhile */
  TsTile *(*make)(TsError *err);
} Case;

static TsTile *attention(TsError *err) {
  TsGpuAttention x = ts_gpu_attention(TS_DT_bf16, 64, true, 0, false);
  return ts_tile_gpu_attention(&x, err);
}

static TsTile *by_warps(TsError *err) {
  TsGpuAttention x = ts_gpu_attention_by_warps(TS_DT_bf16, 64, true, 0, false, "sm_80", 166912);
  return ts_tile_gpu_attention(&x, err);
}

static TsTile *gradients(TsError *err) {
  TsGpuAttentionGrad x = ts_gpu_attention_grad(TS_DT_bf16, 64, false, 0);
  return ts_tile_gpu_attention_grad(&x, err);
}

static TsTile *decode(TsError *err) {
  TsGpuDecode x = ts_gpu_decode(TS_DT_bf16, 128, 8, 512);
  return ts_tile_gpu_decode(&x, err);
}

static TsTile *product(TsError *err) {
  static const TsTarget ampere = {.name = "sm_80", .shared_bytes = 166912};
  TsGpuMachine gpu = {&ampere, 108};
  TsGpuWarpProduct p = ts_gpu_warp_product(TS_DT_bf16, TS_DT_bf16, TS_GPU_UNIT_mma, false,
                                           false, 128, 128, &gpu);
  return ts_tile_gpu_warp_product(&p, &ampere, err);
}

static const Case all[] = {{"attention", true, 20, attention},
                           {"attention by warps", true, 2, by_warps},
                           {"gradients", true, 6, gradients},
                           {"decode", false, 12, decode},
                           {"a product by warps", false, 2, product}};

static TsTile *marked(const Case *c) {
  TsError err = {0};
  TsTile *k = c->make(&err), *m = k ? ts_tile_stages(k, false, &err) : NULL;
  if (!m || ts_tile_check(m, NULL, &err)) failed++, printf("%s: %s\n", c->name, err.message);
  ts_tile_free(k);
  return m;
}

static void say(const void *of, const char *what) {
  printf("%s with marks: %s\n", ((const Case *)of)->name, what);
}

static int count(const char *text, const char *word) {
  int n = 0;
  for (; (text = strstr(text, word)); text++) n++;
  return n;
}

static void one(const Case *c, bool ptxas) {
  TsError err = {0};
  TsGpuRoles info;
  TsText plain = {0}, ptx = {0}, text = {0};
  TsTile *k = c->make(&err), *m = marked(c);
  if (!k || !m || ts_gpu_roles_text(k, false, &info, &plain, &err) ||
      ts_gpu_roles_text(m, false, &info, &ptx, &err)) {
    failed++, say(c, err.message);
  } else {
    int times = count(ptx.at, "mma") / count(plain.at, "mma"); /* in names of instructions */
    if (times != 1 + c->twice || !strstr(ptx.at, "%clock;"))
      failed++, say(c, "not the code that was asked for");
    ts_tile_text(m, &text);
    char *role = strstr(text.at, "  role ");
    if (count(text.at, "what=\"issue\"") != c->told) failed++, say(c, "other marks at copies");
    if (role) *role = 0;
    if (strstr(text.at, "mark {")) failed++, say(c, "a mark above roles");
    if (strstr(plain.at, "clock") || strstr(plain.at, TS_GPU_MARKS_NAME))
      failed++, say(c, "marks without any being asked for");
    if (ptxas) failed += judge(&ptx, m->target, SPILLS, c, say);
  }
  ts_text_free(&plain), ts_text_free(&ptx), ts_text_free(&text);
  ts_tile_free(k), ts_tile_free(m);
}

int main(int argc, char **argv) {
  int n = sizeof all / sizeof *all;
  if (argc > 2) {
    TsTile *k = marked(&all[atoi(argv[2]) % n]);
    TsText text = {0};
    if (argv[1][0] == 't')
      ts_tile_text(k, &text), puts(text.at);
    else
      print_code(k, false);
    ts_text_free(&text);
    ts_tile_free(k);
    return 0;
  }
  if (!ts_llvm_present()) return skip("no LLVM");
  bool ptxas = has_ptxas();
  for (int i = 0; i < n; i++) one(&all[i], ptxas);
  printf("%d kernels, %d failed\n", n, failed);
  return failed != 0;
}
