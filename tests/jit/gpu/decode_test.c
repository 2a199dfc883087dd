/* PTX of attention of few queries (ir/tile/gpu/decode.c): made for every head size, number of
 * rows, mask and type, and assembled where ptxas is found, which must not spill, serialise
 * products, or refuse. "print i" prints the PTX of case i, "llvm i" its LLVM IR. */
#include "ir/tile/find.h"
#include "ir/tile/gpu/decode.h"
#include "jit/compile/llvm.h"
#include "tests/jit/gpu/ptxas.h"

static int failed;

typedef struct Case {
  TsDtype dtype;
  int d, rows, queries, window;
  bool causal, sink, mask, last; /* mask: of each key; last: which key is seen last, by batch */
  int page;                      /* keys of one, with last; 0: none */
} Case;

static const TsTarget hopper = {.name = "sm_90a", .shared_bytes = 232448};

static TsTile *kernel(const Case *c) {
  TsError err = {0};
  TsGpuDecode x = ts_gpu_decode(c->dtype, c->d, c->rows, 512);
  x.queries = c->queries, x.window = c->window, x.causal = c->causal, x.sink = c->sink;
  x.last = c->last;
  if (c->page) x.pages = (TsGpuPages){c->page, 2, 100 * c->page, 30};
  TsGpuMaskFrom from = {TS_DT_bool, {2, 1, 1, 500}, {0}};
  if (c->mask) x.mask = ts_gpu_mask(&from, 1, 500, c->rows, false);
  TsTile *k = ts_tile_gpu_decode(&x, &err);
  if (!k || ts_tile_check(k, &hopper, &err)) failed++, printf("%s\n", err.message);
  return k;
}

static void say(const void *of, const char *what) {
  const Case *c = of;
  printf("%s d %d rows %d queries %d window %d mask %d: %s\n", ts_dtype_name(c->dtype), c->d,
         c->rows, c->queries, c->window, c->mask, what);
}

static void one(const Case *c, bool ptxas) {
  TsTile *k = kernel(c);
  if (k) failed += judge_kernel(k, 3, 0, ptxas, c, say);
}

static const Case all[] = {
    {TS_DT_bf16, 128, 8, 1, 0, true, false, false, false, 0},
    {TS_DT_bf16, 64, 8, 1, 0, true, false, false, false, 0},
    {TS_DT_f16, 128, 16, 1, 100, true, true, false, false, 0},
    {TS_DT_f16, 64, 32, 4, 0, true, false, false, false, 0},
    {TS_DT_bf16, 128, 64, 8, 100, true, false, false, false, 0},
    {TS_DT_bf16, 128, 16, 1, 0, false, true, true, false, 0},
    {TS_DT_f16, 64, 64, 8, 100, true, false, true, false, 0},
    {TS_DT_bf16, 128, 8, 1, 0, false, false, false, true, 0},
    {TS_DT_bf16, 64, 8, 1, 100, false, true, false, true, 0},
    {TS_DT_bf16, 64, 8, 1, 0, true, false, false, true, 32},
    {TS_DT_bf16, 128, 8, 1, 0, true, false, false, true, 32},
    {TS_DT_f16, 128, 16, 1, 100, true, true, false, true, 16},
    {TS_DT_bf16, 64, 64, 1, 100, true, false, false, true, 256},
};

/* Launches take the grid from the last size, so rounds by another one have no code. */
static void refuses_other_grids(void) {
  TsError err = {0};
  TsText text = {0};
  TsGpuRoles info;
  TsTile *k = kernel(&all[0]);
  TsTileStmt *grid = k ? k->body->first : NULL, *other = grid;
  while (grid && grid->op != TS_TILE_for) grid = grid->next;
  while (other && other->op != TS_TILE_dim) other = other->next;
  if (!grid || !other) {
    failed++;
  } else {
    grid->in[1] = other->out[0];
    bool made = !ts_gpu_roles_text(k, false, &info, &text, &err);
    if (made || !strstr(err.message, "last size")) failed++, printf("grid: %s\n", err.message);
  }
  ts_text_free(&text);
  ts_tile_free(k);
}

static TsTileStmt *registers_of(const TsTileStmt *role) {
  return (TsTileStmt *)(uintptr_t)ts_tile_find(role->region[0], TS_TILE_registers);
}

/* On a card a role would wait for registers that nobody gives back. */
static void refuses_too_many_registers(void) {
  TsError err = {0};
  TsText text = {0};
  TsGpuRoles info;
  TsTile *k = kernel(&all[10]);
  TsTileStmt *s = k ? (TsTileStmt *)(uintptr_t)ts_tile_find(k->body, TS_TILE_role) : NULL;
  TsTileStmt *own = s ? registers_of(s) : NULL;
  if (!own) {
    failed++;
  } else {
    TsAttr more = own->attr[0];
    more.i += 8, own->attr = &more;
    bool made = !ts_gpu_roles_text(k, false, &info, &text, &err);
    if (made || !strstr(err.message, "roles want"))
      failed++, printf("registers: %s\n", err.message);
  }
  ts_text_free(&text);
  ts_tile_free(k);
}

/* A window that 32 bits would make one of no keys. */
static void refuses_wide_positions(void) {
  TsError err = {0};
  TsText text = {0};
  TsGpuRoles info;
  TsGpuDecode x = ts_gpu_decode(TS_DT_bf16, 64, 8, 512);
  x.queries = 1, x.causal = true, x.window = (int64_t)1 << 32;
  TsTile *k = ts_tile_gpu_decode(&x, &err);
  bool made = !k || !ts_gpu_roles_text(k, false, &info, &text, &err);
  if (made || !strstr(err.message, "32 bits")) failed++, printf("window: %s\n", err.message);
  ts_text_free(&text);
  ts_tile_free(k);
}

int main(int argc, char **argv) {
  int n = sizeof all / sizeof *all;
  if (argc > 2) {
    TsTile *k = kernel(&all[atoi(argv[2]) % n]);
    print_code(k, argv[1][0] == 'l');
    ts_tile_free(k);
    return 0;
  }
  if (!ts_llvm_present()) return skip("no LLVM");
  bool ptxas = has_ptxas();
  for (int i = 0; i < n; i++) one(&all[i], ptxas);
  refuses_other_grids();
  refuses_too_many_registers();
  refuses_wide_positions();
  if (failed) printf("%d failed\n", failed);
  return failed != 0;
}
