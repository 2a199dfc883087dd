/* Which kernels go back to the operators they stand for (jit/weigh.c), by times that are written
 * here, and how instructions are timed (vm/code/frame.c). Kernels are interpreted. */
#include <stdio.h>
#include <string.h>

#include "jit/jit_state.h"
#include "tests/skip.h"
#include "vm/code/frame_state.h"
#include "vm/code/lower.h"

static int failures;
#define CHECK(x)                                                                               \
  ((x) ? (void)0 : (void)(failures++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

static const char text[] = "graph @f(%x: f32[4,4], %y: f32[3,5]) -> %1, %3 {\n"
                           "  %0 = exp %x : f32[4,4]\n"
                           "  %1 = mul %0, %x : f32[4,4]\n"
                           "  %2 = tanh %y : f32[3,5]\n"
                           "  %3 = add %2, 1 : f32[3,5]\n"
                           "}\n";

/* All instructions of a frame took so long. */
static void took(TsFrame *f, int64_t nsec) {
  for (int i = 0; i < f->code->ninstr; i++) f->shortest[i] = nsec;
}

static void run(TsFrame *f, TsTensor **args) {
  TsTensor *result[2];
  CHECK(!ts_frame_run(f, args, result));
  ts_tensor_unref(result[0]), ts_tensor_unref(result[1]);
}

static int kernels(const TsJitFunction *f) {
  int n = 0;
  for (int i = 0; i < f->build.fusion.sched->ngroup; i++)
    n += f->build.fusion.of[i].fused != NULL;
  CHECK(n == f->build.nkernel);
  return n;
}

static void test_weigh(TsJitFunction *f, TsFrame *own, TsTensor **args) {
  int first = f->build.fusion.sched->group[0]->node[0]->id;
  CHECK(kernels(f) == 2 && f->build.nnode == 4);
  CHECK(ts_frame_shortest(own, first) < 0); /* nothing was measured */
  CHECK(!ts_weigh_kernels(f, own));
  CHECK(!ts_frame_measure(own, true) && !ts_frame_measure(f->frame, true));
  CHECK(!ts_weigh_kernels(f, own));
  run(own, args), run(f->frame, args);
  CHECK(ts_frame_shortest(own, first) >= 0 && ts_frame_shortest(f->frame, first) >= 0);
  CHECK(ts_frame_shortest(own, 12345) == 0); /* it has no instructions */
  ts_frame_measure(own, false), ts_frame_measure(f->frame, false);
  /* Two operators for each kernel. */
  took(own, 50000), took(f->frame, 100000);
  run(own, args); /* is not measured */
  CHECK(ts_frame_shortest(own, first) == 50000);
  CHECK(!ts_weigh_kernels(f, own) && kernels(f) == 2);
  took(f->frame, 108000); /* less than a tenth, which is noise */
  CHECK(!ts_weigh_kernels(f, own));
  took(own, 500), took(f->frame, 2000); /* less than the clock sees */
  CHECK(!ts_weigh_kernels(f, own));
  took(own, 50000), took(f->frame, 90000);
  for (int i = 0; i < f->code->ninstr; i++)
    if (f->code->instr[i].node == first) f->frame->shortest[i] = 130000;
  CHECK(ts_weigh_kernels(f, own) == 1 && kernels(f) == 1 && f->build.nnode == 2);
  CHECK(!f->build.fusion.of[0].fused && f->build.fusion.of[1].fused);
  CHECK(f->build.fusion.of[0].usec == 130 && f->build.fusion.of[0].usec_without == 100);
}

int main(void) {
  TsContext *c = ts_context_open();
  TsJit *j = ts_jit_open(c);
  if (ts_jit_interpret(j, "block") || ts_jit_absent(j)) return skip("no code generator");
  TsGraph *g = ts_graph_parse(text, &c->err);
  CHECK(g);
  TsMeta m[2] = {{.dtype = TS_DT_f32, .ndim = 2, .dim = {4, 4}},
                 {.dtype = TS_DT_f32, .ndim = 2, .dim = {3, 5}}};
  TsTensor *args[2] = {ts_tensor_new(c, &m[0]), ts_tensor_new(c, &m[1])};
  for (int i = 0; i < 2; i++)
    memset(ts_tensor_write(args[i]), 0, (size_t)ts_meta_nbytes(&m[i]));
  TsCode *code = ts_lower(c, g);
  TsFrame *own = ts_frame_new(c, code);
  TsJitFunction *f = ts_jit_function(j, g, NULL);
  f->build = ts_jit_build_of(f, 1e9);
  CHECK(!ts_build_run(&f->build, &c->err) && !ts_jit_install(f));
  TsBuildJob other = ts_jit_build_of(f, 1e9);
  CHECK(!ts_build_run(&other, &c->err) && other.nkernel == 2);
  test_weigh(f, own, args);
  ts_weigh_alike(&other, &f->build);
  CHECK(other.nkernel == 1 && !other.fusion.of[0].fused && other.fusion.of[1].fused);
  ts_build_free(&other);
  ts_jit_function_free(f);
  ts_frame_free(own);
  ts_code_free(code);
  ts_tensor_unref(args[0]), ts_tensor_unref(args[1]);
  ts_graph_free(g);
  ts_jit_stop(j);
  ts_jit_close(j);
  ts_context_close(c);
  return failures != 0;
}
