/* Attention as a kernel of Tile IR against the VM's kernels, bit for bit, over random sizes,
 * masks, windows, sinks and types: the block form in the interpreter, and compiled code of every
 * instruction set with one thread and two. Some values are NaN, so that a key which a row must
 * not take in shows. Argument: how many cases. */
#include <math.h>

#include "devices/cpu_pool.h"
#include "ir/sched/attention.h"
#include "jit/compile/llvm.h"
#include "lib/convert_bits.h"
#include "tests/jit/jit_test.h"
#include "tests/skip.h"
#include "vm/drive/attention.h"

typedef struct Case {
  int64_t batch, heads, kv_heads, s, t, d, dv, window, mask; /* 0 none, 1 .. 4 */
  bool causal, sink, transposed;
  TsDtype dtype;
} Case;

/* ---- tensors */
static void put(void *p, TsDtype d, int64_t i, float x) {
  if (d == TS_DT_f64)
    ((double *)p)[i] = x;
  else if (d == TS_DT_f32)
    ((float *)p)[i] = x;
  else
    ((uint16_t *)p)[i] = bf16_of_f32(x);
}

/* n numbers in [-2, 2); every `odd`-th about is NaN, if any. */
static void *numbers(TsDtype d, int64_t n, uint64_t odd) {
  void *p = malloc((size_t)(n * 8 + 64));
  for (int64_t i = 0; i < n; i++) {
    float x = (float)(rnd() % 4001) / 1000 - 2;
    put(p, d, i, odd && rnd() % odd == 0 ? NAN : x);
  }
  return p;
}

typedef struct Data {
  void *q, *k, *v, *mask, *sink, *wide_mask, *wide_sink; /* wide: as the VM takes them */
} Data;

static void *widened(const Case *c, const void *x, int64_t n) {
  if (c->dtype != TS_DT_bf16) return NULL;
  float *p = malloc((size_t)n * 4 + 64);
  for (int64_t i = 0; i < n; i++) p[i] = f32_of_bf16(((const uint16_t *)x)[i]);
  return p;
}

static Data make_data(const Case *c) {
  int64_t heads = c->batch * c->heads, kv = c->batch * c->kv_heads, n = c->s * c->t;
  uint64_t odd = rnd() % 3 ? 0 : 3000;
  Data x = {.q = numbers(c->dtype, heads * c->s * c->d, 0),
            .k = numbers(c->dtype, kv * c->t * c->d, 0),
            .v = numbers(c->dtype, kv * c->t * c->dv, odd)};
  if (c->sink)
    x.sink = numbers(c->dtype, c->heads, 0), x.wide_sink = widened(c, x.sink, c->heads);
  if (c->mask == 1 || c->mask == 3) {
    uint8_t *seen = x.mask = malloc((size_t)n + 64);
    for (int64_t i = 0; i < n; i++) seen[i] = rnd() % 4 != 0;
  } else if (c->mask) {
    x.mask = numbers(c->dtype, n, 0), x.wide_mask = widened(c, x.mask, n);
  }
  return x;
}

static void free_data(Data *x) {
  free(x->q), free(x->k), free(x->v), free(x->mask), free(x->sink);
  free(x->wide_mask), free(x->wide_sink);
}

/* ---- the VM's result, heads and rows exchanged where the case says so */
static void *by_vm(const Case *c, const Data *x) {
  int64_t heads = c->batch * c->heads, kv = c->batch * c->kv_heads,
          size = ts_dtypes[c->dtype].nbytes;
  TsAttention a = {.dtype = c->dtype,
                   .batch = c->batch,
                   .heads = c->heads,
                   .kv_heads = c->kv_heads,
                   .s = c->s,
                   .t = c->t,
                   .d = c->d,
                   .dv = c->dv,
                   .q = x->q,
                   .k = x->k,
                   .v = x->v,
                   .q_step = c->d,
                   .k_step = c->d,
                   .v_step = c->dv,
                   .causal = c->causal,
                   .window = c->window,
                   .scale = 0.25};
  int64_t *q_at = steps(heads, c->s * c->d), *k_at = steps(kv, c->t * c->d),
          *v_at = steps(kv, c->t * c->dv), *mask_at = steps(heads, 0);
  a.q_at = q_at, a.k_at = k_at, a.v_at = v_at;
  a.sink = x->wide_sink ? x->wide_sink : x->sink;
  if (c->mask) a.mask_at = mask_at;
  if (c->mask == 1 || c->mask == 3)
    a.seen = x->mask;
  else
    a.bias = x->wide_mask ? x->wide_mask : x->mask;
  a.mask_step = c->mask == 4 ? 0 : c->mask == 3 ? 1 : c->t, a.mask_key_step = c->mask != 3;
  int64_t n = heads * c->s * c->dv;
  char *y = malloc((size_t)(n * size) + 64), *z = malloc((size_t)(n * size) + 64);
  a.y = y;
  CHECK(ts_attention(&a, ts_kernels_use("base")) == 0);
  for (int64_t i = 0; i < heads * c->s; i++) {
    int64_t b = i / (c->heads * c->s), h = i / c->s % c->heads, r = i % c->s;
    int64_t to = c->transposed ? (b * c->s + r) * c->heads + h : i;
    memcpy(z + to * c->dv * size, y + i * c->dv * size, (size_t)(c->dv * size));
  }
  free(q_at), free(k_at), free(v_at), free(mask_at), free(y);
  return z;
}

/* ---- kernels */
static TsGraph *graph_of(const Case *c) {
  const char *d = ts_dtype_name(c->dtype), *md = c->mask == 1 || c->mask == 3 ? "bool" : d;
  char text[1200], mask[80] = "", window[40] = "";
  long long b = c->batch, h = c->heads, g = c->kv_heads, s = c->s, t = c->t, e = c->d,
            f = c->dv;
  if (c->mask == 3)
    snprintf(mask, sizeof mask, ", %%m: %s[%lld,1]", md, s);
  else if (c->mask == 4)
    snprintf(mask, sizeof mask, ", %%m: %s[%lld]", md, t);
  else if (c->mask)
    snprintf(mask, sizeof mask, ", %%m: %s[%lld,%lld]", md, s, t);
  if (c->window) snprintf(window, sizeof window, " window=%lld", (long long)c->window);
  char sink[40] = "";
  if (c->sink) snprintf(sink, sizeof sink, ", %%z: %s[%lld]", d, h);
  snprintf(text, sizeof text,
           "graph @a(%%q: %s[%lld,%lld,%lld,%lld], %%k: %s[%lld,%lld,%lld,%lld], "
           "%%v: %s[%lld,%lld,%lld,%lld]%s%s) -> %%y {\n"
           "  %%y = attention %%q, %%k, %%v%s%s {causal=%s%s scale=0.25} : "
           "%s[%lld,%lld,%lld,%lld]\n}\n",
           d, b, h, s, e, d, b, g, t, e, d, b, g, t, f, mask, sink,
           c->mask   ? ", %m"
           : c->sink ? ", _"
                     : "",
           c->sink ? ", %z" : "", c->causal ? "true" : "false", window, d, b, h, s, f);
  TsError err = {0};
  TsGraph *graph = ts_graph_parse(text, &err);
  if (!graph) failed++, printf("%s\n%s", err.message, text);
  return graph;
}

static void say(const Case *c, const char *what) {
  printf("%s: %s b %lld h %lld/%lld s %lld t %lld d %lld %lld window %lld mask %lld%s%s%s\n",
         what, ts_dtype_name(c->dtype), (long long)c->batch, (long long)c->heads,
         (long long)c->kv_heads, (long long)c->s, (long long)c->t, (long long)c->d,
         (long long)c->dv, (long long)c->window, (long long)c->mask, c->causal ? " causal" : "",
         c->sink ? " sink" : "", c->transposed ? " turned" : "");
}

static void compare(const Case *c, const void *want, const char *got, const char *what) {
  int64_t n = c->batch * c->heads * c->s * c->dv, size = ts_dtypes[c->dtype].nbytes;
  for (int64_t i = 0; i < n; i++) {
    const char *x = got + i * size, *w = (const char *)want + i * size;
    if (c->dtype == TS_DT_bf16) {
      float f, g = f32_of_bf16(*(const uint16_t *)(const void *)w);
      f = f32_of_bf16(*(const uint16_t *)(const void *)x);
      if (f != f && g != g) continue;
    }
    if (same_number(c->dtype, x, w)) continue;
    failed++;
    printf("element %lld of ", (long long)i);
    say(c, what);
    return;
  }
}

static TsKernel *compiled(const TsTile *block, const TsTarget *t, TsError *err) {
  TsTile *v = ts_tile_check(block, t, err) ? NULL : ts_tile_vectorise(block, t, err);
  TsTile *k = v ? ts_tile_expand(v, err) : NULL;
  TsKernel *kernel = k && !ts_tile_check(k, t, err) ? ts_kernel_compile(k, t, err) : NULL;
  ts_tile_free(v);
  ts_tile_free(k);
  return kernel;
}

static void all_ways(const Case *c, const TsTarget *t, const TsSchedKernel *k, void **arg,
                     const void *want, bool interpret) {
  TsError err = {0};
  char *y = arg[k->tile->nparam - 1];
  int64_t nbytes = c->batch * c->heads * c->s * c->dv * ts_dtypes[c->dtype].nbytes;
  if (interpret) {
    memset(y, 0x5a, (size_t)nbytes);
    if (ts_tile_run(k->tile, arg, k->dim, &err)) failed++, printf("%s\n", err.message);
    compare(c, want, y, "interpreter");
  }
  TsKernel *kernel = compiled(k->tile, t, &err);
  if (!kernel) failed++, printf("%s\n", err.message), say(c, t->name);
  for (int threads = 1; kernel && threads <= 2; threads++) {
    ts_cpu_set_threads(threads);
    memset(y, 0x5a, (size_t)nbytes);
    CHECK(ts_kernel_run(kernel, arg, k->dim, &err) == 0);
    compare(c, want, y, t->name);
  }
  ts_kernel_free(kernel);
}

static void one(const Case *c, const TsTarget *t, bool interpret) {
  TsError err = {0};
  TsGraph *g = graph_of(c);
  TsSched *s = g ? ts_sched_new(g, t, 1, &err) : NULL;
  TsSchedKernel k;
  if (!s || s->ngroup != 1 || s->group[0]->kind != TS_GROUP_attention) {
    failed++, say(c, "no group of attention");
  } else {
    s->group[0]->transposed = c->transposed;
    Data x = make_data(c);
    void *want = by_vm(c, &x), *arg[6] = {x.q, x.k, x.v};
    int n = 3;
    if (x.mask) arg[n++] = x.mask;
    if (x.sink) arg[n++] = x.sink;
    char *y = arg[n] = malloc((size_t)(c->batch * c->heads * c->s * c->dv * 8 + 64));
    if (ts_sched_lower(s, s->group[0], NULL, NULL, &k, &err))
      failed++, say(c, err.message);
    else
      all_ways(c, t, &k, arg, want, interpret), ts_tile_free(k.tile);
    free(y), free(want);
    free_data(&x);
  }
  ts_sched_free(s);
  ts_graph_free(g);
}

static Case random_case(bool small) {
  static const TsDtype type[] = {TS_DT_f32, TS_DT_f32, TS_DT_bf16, TS_DT_f64};
  Case c = {.batch = upto(2),
            .kv_heads = upto(2),
            .dtype = type[rnd() % 4],
            .s = 8 + upto(small ? 60 : 292),
            .t = upto(small ? 150 : 300),
            .d = small ? 8 : 8 * upto(16),
            .dv = small ? 8 : 8 * upto(16)};
  c.heads = c.kv_heads * upto(3);
  c.causal = rnd() % 2;
  if (rnd() % 3 == 0) c.t = c.s;
  if (rnd() % 3 == 0) c.window = upto(150);
  if (rnd() % 3 == 0) c.mask = upto(4);
  c.sink = rnd() % 4 == 0, c.transposed = rnd() % 2;
  return c;
}

int main(int argc, char **argv) {
  static const char *const name[] = {"avx512", "avx2", "base"};
  int cases = argc > 1 ? atoi(argv[1]) : 24;
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
