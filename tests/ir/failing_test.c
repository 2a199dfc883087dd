/* Memory that runs out at any allocation on the way through ir/: it is said, nothing stays behind, and
 * nothing that was freed is read (failing.h). */
#include <stdio.h>
#include <stdlib.h>

#include "ir/compose/build.h"
#include "ir/graph/copy.h"
#include "ir/graph/graph.h"
#include "ir/lower/lower.h"
#include "ir/tile/product/product.h"
#include "lib/arena.h"
#include "tests/ir/failing.h"
#include "vm/core/vm.h"

static int failed;
static long step = 1; /* from one allocation that fails to the next */
static TsError err;   /* also that of the graph */

static int copied(const TsGraph *g) {
  TsGraph *own = ts_graph_clone(g, &err);
  ts_graph_free(own);
  return own ? 0 : -1;
}

/* One device's kernel, or several. */
static int lowered(const TsGraph *g) {
  TsSchedKernel k = {.tile = NULL};
  TsSched *s = ts_sched_new(g, ts_target_with(TS_UNIT_roles), 1, &err);
  if (!s) return -1;
  s->processors = 100, s->profile = TS_PROFILE_deterministic;
  int none = ts_lower_group(s, s->group[0], NULL, NULL, &k, &err);
  ts_tile_free(k.tile);
  ts_sched_free(s);
  return none;
}

/* In vectors, if there is a kernel. */
static int vectorised(const TsGraph *g) {
  TsSchedKernel k = {.tile = NULL};
  const TsTarget *target = ts_target("avx2");
  TsSched *s = ts_sched_new(g, target, 1, &err);
  if (!s) return -1;
  int none = ts_lower_group(s, s->group[0], NULL, NULL, &k, &err);
  bool refused = none && err.code == TS_ERR_value;
  if (refused) ts_error_clear(&err);
  TsTile *(*by)(const TsTile *, const TsTarget *, TsError *) =
      k.tile && ts_tile_is_product(k.tile, target) ? ts_tile_product : ts_tile_vectorise;
  TsTile *vectors = k.tile ? by(k.tile, target, &err) : NULL;
  TsTile *plain = vectors ? ts_tile_expand(vectors, &err) : NULL;
  ts_tile_free(plain), ts_tile_free(vectors), ts_tile_free(k.tile);
  ts_sched_free(s);
  return plain || refused ? 0 : -1;
}

static void each(const char *what, const char *of, int (*f)(const TsGraph *), const TsGraph *g,
                 long first) {
  long n = first;
  int good = failed;
  err = (TsError){0};
  if (f(g)) failed++, printf("%s of %s: %s\n", what, of, err.message);
  for (bool over = false; !over && failed < good + 5; n += step) {
    long before = live;
    err = (TsError){0};
    until = n;
    int none = f(g);
    over = until >= 0;
    until = -1;
    if (live != before)
      failed++, printf("%s of %s: %ld blocks stay when allocation %ld fails\n", what, of,
                       live - before, n);
    if (err.code != TS_ERR_memory && (none || err.code))
      failed++, printf("%s of %s: allocation %ld: \"%s\"\n", what, of, n, err.message);
  }
  if (n < 5) failed++, printf("%s of %s: %ld allocations\n", what, of, n);
}

static void operator_of(const char *line, long first) {
  TsText text = {0};
  ts_text_format(&text,
                 "graph @f(%%x: f32[64,48], %%y: f32[48,40], %%v: f32[48], %%w: f32[30],\n"
                 "%%i: i64[30], %%a: f32[1,2,8,8], %%b: f32[3,2,3,3],\n"
                 "%%h: f16[1,2,32,16]) -> %%0 {\n  %s\n}\n",
                 line);
  TsGraph *g = ts_graph_parse(text.at, &err);
  if (g) {
    g->apart = true;
    each("a copy", line, copied, g, 0);
    each("a kernel", line, lowered, g, first);
    each("vectors", line, vectorised, g, first);
    ts_graph_free(g);
  } else {
    failed++, printf("%s: %s\n", line, err.message);
  }
  ts_text_free(&text);
}

int main(int argc, char **argv) {
  static const char *const all[] = {
      "%0 = mul %x, %v : f32[64,48]",
      "%0 = sum %x {axis=[1]} : f32[64]",
      "%0 = mean %x {axis=[0]} : f32[48]",
      "%0 = min %x : f32[]",
      "%0 = var %x {axis=[1]} : f32[64]",
      "%0 = argmax %x {axis=1} : i64[64]",
      "%0 = softmax %x : f32[64,48]",
      "%0 = cumsum %x {axis=1} : f32[64,48]",
      "%0 = cumsum %x {axis=0} : f32[64,48]",
      "%0, %1 = sort %x {axis=0} : f32[64,48], i64[64,48]",
      "%0, %1 = topk %x {k=3} : f32[64,3], i64[64,3]",
      "%0 = quantile %x {q=0.3 axis=1} : f32[64]",
      "%0, %1 = histogram %x {bins=5 low=0 high=1} : i64[5], f32[6]",
      "%0 = matmul %x, %y : f32[64,40]",
      "%0 = conv2d %a, %b {padding=[1]} : f32[1,3,8,8]",
      "%0 = attention %h, %h, %h : f16[1,2,32,16]",
      "%0 = rope %x : f32[64,48]",
      "%0 = dropout %x {seed=1} : f32[64,48]",
      "%0 = pad %x {pads=[1,2]} : f32[64,51]",
      "%0 = gather %v, %i {axis=0} : f32[30]",
      "%0 = scatter_add %v, %i, %w {axis=0} : f32[48]",
      "%0 = index_add %v, %i, %w : f32[48]",
      "%0 = index_select %v, %i : f32[30]",
  };
  TsContext *c = ts_context_open();
  if (!c) return 1;
  ts_arena_single(true);
  if (argc > 1) step = atol(argv[1]);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) operator_of(all[i], (long)i % step);
  ts_context_close(c);
  return failed != 0;
}
