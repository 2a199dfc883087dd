/* The gradients of attention as a kernel of Tile IR against the VM's kernels, bit for bit: the
 * block form and the explicit form in the interpreter, and compiled code of every instruction
 * set with one thread and two. Argument: how many cases. */
#include "devices/cpu_pool.h"
#include "ir/sched/attention.h"
#include "jit/compile/llvm.h"
#include "tests/jit/jit_test.h"
#include "tests/skip.h"
#include "vm/drive/attention_grad.h"

typedef struct Case {
  int64_t batch, heads, kv_heads, s, t, d, dv;
  bool causal;
} Case;

typedef struct Data {
  float *in[5], *want[3], *got[3]; /* q k v out g; dq dk dv */
  int64_t n[3];
} Data;

static float *numbers(int64_t n) {
  float *p = malloc((size_t)n * sizeof *p + 64);
  for (int64_t i = 0; i < n; i++) p[i] = (float)(rnd() % 4001) / 1000 - 2;
  return p;
}

static Data make_data(const Case *c) {
  int64_t heads = c->batch * c->heads, kv = c->batch * c->kv_heads;
  Data x = {.n = {heads * c->s * c->d, kv * c->t * c->d, kv * c->t * c->dv}};
  for (int i = 0; i < 3; i++) {
    x.in[i] = numbers(x.n[i]);
    x.want[i] = malloc((size_t)x.n[i] * 4 + 64), x.got[i] = malloc((size_t)x.n[i] * 4 + 64);
  }
  for (int i = 3; i < 5; i++) x.in[i] = numbers(heads * c->s * c->dv);
  return x;
}

static void free_data(Data *x) {
  for (int i = 0; i < 5; i++) free(x->in[i]);
  for (int i = 0; i < 3; i++) free(x->want[i]), free(x->got[i]);
}

static void by_vm(const Case *c, const Data *x) {
  int64_t heads = c->batch * c->heads, kv = c->batch * c->kv_heads;
  int64_t *q_at = steps(heads, c->s * c->d), *k_at = steps(kv, c->t * c->d),
          *v_at = steps(kv, c->t * c->dv), *g_at = steps(heads, c->s * c->dv);
  TsAttentionGrad a = {.a = {.dtype = TS_DT_f32,
                             .batch = c->batch,
                             .heads = c->heads,
                             .kv_heads = c->kv_heads,
                             .s = c->s,
                             .t = c->t,
                             .d = c->d,
                             .dv = c->dv,
                             .q = x->in[0],
                             .k = x->in[1],
                             .v = x->in[2],
                             .q_at = q_at,
                             .k_at = k_at,
                             .v_at = v_at,
                             .q_step = c->d,
                             .k_step = c->d,
                             .v_step = c->dv,
                             .causal = c->causal,
                             .scale = 0.3},
                       .out = x->in[3],
                       .g = x->in[4],
                       .out_at = g_at,
                       .g_at = g_at,
                       .out_step = c->dv,
                       .g_step = c->dv,
                       .dq = x->want[0],
                       .dk = x->want[1],
                       .dv = x->want[2]};
  CHECK(ts_attention_grad(&a, ts_kernels_use("base")) == 0);
  free(q_at), free(k_at), free(v_at), free(g_at);
}

static TsGraph *graph_of(const Case *c) {
  char text[1200];
  long long b = c->batch, h = c->heads, g = c->kv_heads, s = c->s, t = c->t, e = c->d,
            f = c->dv;
  snprintf(text, sizeof text,
           "graph @a(%%q: f32[%lld,%lld,%lld,%lld], %%k: f32[%lld,%lld,%lld,%lld], "
           "%%v: f32[%lld,%lld,%lld,%lld], %%o: f32[%lld,%lld,%lld,%lld], "
           "%%g: f32[%lld,%lld,%lld,%lld]) -> %%x, %%y, %%z {\n"
           "  %%x, %%y, %%z = attention_grad %%q, %%k, %%v, _, _, %%o, %%g {causal=%s "
           "scale=0.3}\n}\n",
           b, h, s, e, b, g, t, e, b, g, t, f, b, h, s, f, b, h, s, f,
           c->causal ? "true" : "false");
  TsError err = {0};
  TsGraph *graph = ts_graph_parse(text, &err);
  if (!graph) failed++, printf("%s\n%s", err.message, text);
  return graph;
}

static void compare(const Case *c, const Data *x, const char *what) {
  static const char *const name[] = {"dq", "dk", "dv"};
  for (int r = 0; r < 3; r++)
    for (int64_t i = 0; i < x->n[r]; i++) {
      if (!memcmp(&x->want[r][i], &x->got[r][i], 4)) continue;
      failed++;
      printf("%s: %s[%lld] is %.9g, not %.9g: b %lld h %lld/%lld s %lld t %lld d %lld %lld%s\n",
             what, name[r], (long long)i, (double)x->got[r][i], (double)x->want[r][i],
             (long long)c->batch, (long long)c->heads, (long long)c->kv_heads, (long long)c->s,
             (long long)c->t, (long long)c->d, (long long)c->dv, c->causal ? " causal" : "");
      return;
    }
}

static void clear(const Data *x) {
  for (int i = 0; i < 3; i++) memset(x->got[i], 0x5a, (size_t)x->n[i] * 4);
}

static void interpret(const Case *c, const Data *x, const TsTile *k, void **arg,
                      const int64_t *dim, const char *what) {
  TsError err = {0};
  clear(x);
  if (ts_tile_run(k, arg, dim, &err)) failed++, printf("%s: %s\n", what, err.message);
  compare(c, x, what);
}

static void all_ways(const Case *c, const Data *x, const TsTarget *t, const TsSchedKernel *k,
                     bool slow) {
  TsError err = {0};
  void *arg[8];
  for (int i = 0; i < 8; i++) arg[i] = i < 5 ? x->in[i] : x->got[i - 5];
  if (slow) interpret(c, x, k->tile, arg, k->dim, "block form");
  TsTile *v = ts_tile_check(k->tile, t, &err) ? NULL : ts_tile_vectorise(k->tile, t, &err);
  if (v && slow) interpret(c, x, v, arg, k->dim, "explicit form");
  TsTile *plain = v ? ts_tile_expand(v, &err) : NULL;
  TsKernel *kernel =
      plain && !ts_tile_check(plain, t, &err) ? ts_kernel_compile(plain, t, &err) : NULL;
  if (!kernel) failed++, printf("%s: %s\n", t->name, err.message);
  for (int threads = 1; kernel && threads <= 2; threads++) {
    ts_cpu_set_threads(threads);
    clear(x);
    CHECK(ts_kernel_run(kernel, arg, k->dim, &err) == 0);
    compare(c, x, t->name);
  }
  ts_tile_free(v);
  ts_tile_free(plain);
  ts_kernel_free(kernel);
}

static void one(const Case *c, const TsTarget *t, bool slow) {
  TsError err = {0};
  TsGraph *g = graph_of(c);
  TsSched *s = g ? ts_sched_new(g, t, 1, &err) : NULL;
  TsSchedKernel k;
  if (!s || s->ngroup != 1 || s->group[0]->kind != TS_GROUP_attention) {
    failed++, printf("no group of attention\n");
  } else if (ts_sched_lower(s, s->group[0], NULL, NULL, &k, &err)) {
    failed++, printf("%s\n", err.message);
  } else {
    Data x = make_data(c);
    by_vm(c, &x);
    all_ways(c, &x, t, &k, slow);
    free_data(&x);
    ts_tile_free(k.tile);
  }
  ts_sched_free(s);
  ts_graph_free(g);
}

static Case random_case(bool small) {
  Case c = {.batch = upto(2),
            .kv_heads = upto(2),
            .s = 32 * upto(small ? 3 : 12),
            .t = 128 * upto(small ? 1 : 3),
            .d = small ? 8 : 8 * upto(10),
            .dv = small ? 8 : 8 * upto(10)};
  c.heads = c.kv_heads * upto(3);
  c.causal = rnd() % 3 != 0;
  if (rnd() % 3 == 0) c.t = c.s = 128 * upto(small ? 1 : 3);
  return c;
}

int main(int argc, char **argv) {
  static const char *const name[] = {"avx512", "avx2", "base"};
  int cases = argc > 1 ? atoi(argv[1]) : 12;
  setenv("TESSERA_CACHE", "off", 1);
  if (!ts_llvm_present()) return skip("no LLVM");
  skip_isas();
  for (int i = 0; i < cases; i++) {
    bool small = i % 3 == 0;
    const TsTarget *t = ts_jit_target(small ? name[i / 3 % 3] : name[i % 2]);
    Case c = random_case(small);
    if (t && t->triple) one(&c, t, small);
  }
  printf("failed %d\n", failed);
  return failed != 0;
}
