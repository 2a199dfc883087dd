/* The worker for oneDNN: its matrix products in f32, alone and with separate operators behind
 * them, and in bf16, on the threads that OMP_NUM_THREADS names. */
#include <math.h>
#include <oneapi/dnnl/dnnl.h>

#include "worker.h"

typedef struct Product {
  dnnl_dim_t m, k, n;
  bool transposed; /* b is stored as [n, k] */
  float *a, *b, *c;
} Product;

/* Normal numbers (Box-Muller over a linear congruential generator). */
static double uniform(void) {
  static uint64_t state = 88172645463325252u;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)((state >> 11) + 1) / 9007199254740993.0;
}

static float *normal(dnnl_dim_t n) {
  float *x = aligned_alloc(64, ((size_t)n * sizeof *x + 63) / 64 * 64);
  for (dnnl_dim_t i = 0; i < n; i++)
    x[i] = (float)(sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()));
  return x;
}

static void product(void *arg) {
  Product *p = arg;
  dnnl_sgemm('N', p->transposed ? 'T' : 'N', p->m, p->n, p->k, 1, p->a, p->k, p->b,
             p->transposed ? p->k : p->n, 0, p->c, p->n);
}

static double product_check(void *arg) {
  Product *p = arg;
  double sum = 0;
  for (dnnl_dim_t i = 0; i < p->m * p->n; i++) sum += fabs((double)p->c[i]);
  return sum / (double)(p->m * p->n);
}

static void product_drop(void *arg) {
  Product *p = arg;
  free(p->a), free(p->b), free(p->c), free(p);
}

#if DNNL_VERSION_MAJOR == 2
enum { STEPS = 3, ARGS = 3 };

static void must(dnnl_status_t status) {
  if (status == dnnl_success) return;
  printf("fail oneDNN says %d\n", status);
  exit(1);
}

/* ---- bf16: rows and columns as they are, sums in f32, the result in bf16 */
typedef struct Narrow {
  dnnl_dim_t size;
  uint16_t *m[ARGS];
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_t product;
  dnnl_exec_arg_t arg[ARGS];
} Narrow;

static float widened(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static void narrow(void *arg) {
  Narrow *n = arg;
  must(dnnl_primitive_execute(n->product, n->stream, ARGS, n->arg));
  must(dnnl_stream_wait(n->stream));
}

static double narrow_sum(const Narrow *n) {
  double sum = 0;
  for (dnnl_dim_t i = 0; i < n->size; i++) sum += fabs((double)widened(n->m[2][i]));
  return sum / (double)n->size;
}

static double narrow_check(void *arg) {
  narrow(arg);
  return narrow_sum(arg);
}

static void narrow_drop(void *arg) {
  Narrow *n = arg;
  for (int i = 0; i < ARGS; i++) dnnl_memory_destroy(n->arg[i].memory), free(n->m[i]);
  if (n->product) dnnl_primitive_destroy(n->product);
  dnnl_stream_destroy(n->stream);
  dnnl_engine_destroy(n->engine);
  free(n);
}

static uint16_t *narrow_normal(dnnl_dim_t count, float scale) {
  float *x = normal(count);
  uint16_t *y = aligned_alloc(64, ((size_t)count * sizeof *y + 63) / 64 * 64);
  for (dnnl_dim_t i = 0; i < count; i++) {
    uint32_t bits;
    x[i] *= scale;
    memcpy(&bits, x + i, sizeof bits);
    y[i] = (uint16_t)(bits >> 16);
  }
  free(x);
  return y;
}

/* NULL: the processor has no instructions for bf16. */
static Narrow *narrow_new(dnnl_dim_t m, dnnl_dim_t k, dnnl_dim_t c, float scale) {
  static const int what[ARGS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
  dnnl_dims_t size[ARGS] = {{m, k}, {k, c}, {m, c}};
  Narrow *n = calloc(1, sizeof *n);
  n->size = m * c;
  must(dnnl_engine_create(&n->engine, dnnl_cpu, 0));
  must(dnnl_stream_create(&n->stream, n->engine, dnnl_stream_default_flags));
  dnnl_memory_desc_t d[ARGS];
  for (int i = 0; i < ARGS; i++) {
    must(dnnl_memory_desc_init_by_tag(&d[i], 2, size[i], dnnl_bf16, dnnl_ab));
    n->m[i] = narrow_normal(size[i][0] * size[i][1], i == 1 ? scale : 1);
    n->arg[i].arg = what[i];
    must(dnnl_memory_create(&n->arg[i].memory, &d[i], n->engine, n->m[i]));
  }
  dnnl_matmul_desc_t desc;
  dnnl_primitive_desc_t made;
  must(dnnl_matmul_desc_init(&desc, &d[0], &d[1], NULL, &d[2]));
  dnnl_status_t status = dnnl_primitive_desc_create(&made, &desc, NULL, n->engine, NULL);
  if (status == dnnl_unimplemented) return narrow_drop(n), NULL;
  must(status);
  must(dnnl_primitive_create(&n->product, made));
  must(dnnl_primitive_desc_destroy(made));
  return n;
}

/* fast_matmul bf16 M K N nn */
static Row narrow_setup(int nwords, char **word) {
  if (nwords != 6 || strcmp(word[1], "bf16") || strcmp(word[5], "nn")) return (Row){0};
  Narrow *n = narrow_new(atol(word[2]), atol(word[3]), atol(word[4]), 1);
  return n ? (Row){narrow, narrow_check, narrow_drop, n, 1} : (Row){0};
}

/* ---- gelu(a b + bias) + residual: the product, then an operator each, in place; in f32 or bf16 */
typedef struct Chain {
  Product product; /* of f32, or */
  Narrow *narrow;
  dnnl_data_type_t type;
  dnnl_dim_t m, n;
  void *y, *bias, *residual;
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_t step[STEPS];
  dnnl_exec_arg_t arg[STEPS][ARGS];
} Chain;

static dnnl_memory_desc_t matrix(const Chain *c, dnnl_dim_t rows) {
  dnnl_memory_desc_t d;
  must(dnnl_memory_desc_init_by_tag(&d, 2, (dnnl_dims_t){rows, c->n}, c->type, dnnl_ab));
  return d;
}

static dnnl_exec_arg_t argument(Chain *c, int what, const dnnl_memory_desc_t *d, void *at) {
  dnnl_exec_arg_t a = {.arg = what};
  must(dnnl_memory_create(&a.memory, d, c->engine, at));
  return a;
}

static void add_step(Chain *c, int i, const void *desc) {
  dnnl_primitive_desc_t d;
  must(dnnl_primitive_desc_create(&d, desc, NULL, c->engine, NULL));
  must(dnnl_primitive_create(&c->step[i], d));
  must(dnnl_primitive_desc_destroy(d));
}

/* Adds x, a row or a matrix, to the result. */
static void add_sum(Chain *c, int i, void *x, dnnl_dim_t rows) {
  dnnl_memory_desc_t y = matrix(c, c->m), d = matrix(c, rows);
  dnnl_binary_desc_t desc;
  must(dnnl_binary_desc_init(&desc, dnnl_binary_add, &y, &d, &y));
  add_step(c, i, &desc);
  c->arg[i][0] = argument(c, DNNL_ARG_SRC_0, &y, c->y);
  c->arg[i][1] = argument(c, DNNL_ARG_SRC_1, &d, x);
  c->arg[i][2] = argument(c, DNNL_ARG_DST, &y, c->y);
}

static void add_gelu(Chain *c, int i) {
  dnnl_memory_desc_t y = matrix(c, c->m);
  dnnl_eltwise_desc_t desc;
  must(dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_inference, dnnl_eltwise_gelu_erf, &y,
                                      0, 0));
  add_step(c, i, &desc);
  c->arg[i][0] = argument(c, DNNL_ARG_SRC, &y, c->y);
  c->arg[i][1] = argument(c, DNNL_ARG_DST, &y, c->y);
}

static void chain(void *arg) {
  Chain *c = arg;
  if (c->narrow)
    must(dnnl_primitive_execute(c->narrow->product, c->stream, ARGS, c->narrow->arg));
  else
    product(&c->product);
  for (int i = 0; i < STEPS; i++)
    must(dnnl_primitive_execute(c->step[i], c->stream, i == 1 ? 2 : ARGS, c->arg[i]));
  must(dnnl_stream_wait(c->stream));
}

static double chain_check(void *arg) {
  Chain *c = arg;
  chain(arg);
  return c->narrow ? narrow_sum(c->narrow) : product_check(&c->product);
}

static void chain_drop(void *arg) {
  Chain *c = arg;
  for (int i = 0; i < STEPS; i++) {
    for (int j = 0; j < ARGS; j++)
      if (c->arg[i][j].memory) dnnl_memory_destroy(c->arg[i][j].memory);
    dnnl_primitive_destroy(c->step[i]);
  }
  if (c->narrow)
    narrow_drop(c->narrow); /* with the engine */
  else
    dnnl_stream_destroy(c->stream), dnnl_engine_destroy(c->engine);
  free(c->product.a), free(c->product.b), free(c->product.c), free(c->bias), free(c->residual);
  free(c);
}

/* Weights as layers begin with, of variance 1/k. */
static void chain_f32(Chain *c, dnnl_dim_t k) {
  Product *p = &c->product;
  p->m = c->m, p->k = k, p->n = c->n;
  p->a = normal(p->m * k), p->b = normal(k * p->n), p->c = normal(p->m * p->n);
  for (dnnl_dim_t i = 0; i < k * p->n; i++) p->b[i] /= sqrtf((float)k);
  must(dnnl_engine_create(&c->engine, dnnl_cpu, 0));
  must(dnnl_stream_create(&c->stream, c->engine, dnnl_stream_default_flags));
  c->type = dnnl_f32;
  c->y = p->c, c->bias = normal(p->n), c->residual = normal(p->m * p->n);
}

static bool chain_bf16(Chain *c, dnnl_dim_t k) {
  if (!(c->narrow = narrow_new(c->m, k, c->n, 1 / sqrtf((float)k)))) return false;
  c->engine = c->narrow->engine, c->stream = c->narrow->stream, c->type = dnnl_bf16;
  c->y = c->narrow->m[2];
  c->bias = narrow_normal(c->n, 1), c->residual = narrow_normal(c->m * c->n, 1);
  return true;
}

/* fused_product M K N, fast_product M K N */
static Row chain_setup(int nwords, char **word) {
  if (nwords != 4) return (Row){0};
  Chain *c = calloc(1, sizeof *c);
  dnnl_dim_t k = atol(word[2]);
  c->m = atol(word[1]), c->n = atol(word[3]);
  if (!strcmp(word[0], "fused_product")) {
    chain_f32(c, k);
  } else if (!chain_bf16(c, k)) {
    free(c);
    return (Row){0};
  }
  add_sum(c, 0, c->bias, 1);
  add_gelu(c, 1);
  add_sum(c, 2, c->residual, c->m);
  return (Row){chain, chain_check, chain_drop, c, 1};
}
#else
static Row narrow_setup(int nwords, char **word) { return (void)nwords, (void)word, (Row){0}; }
static Row chain_setup(int nwords, char **word) { return (void)nwords, (void)word, (Row){0}; }
#endif

/* matmul f32 M K N nn|nt */
static Row setup(int nwords, char **word) {
  if (nwords && !strcmp(word[0], "fast_matmul")) return narrow_setup(nwords, word);
  if (nwords && (!strcmp(word[0], "fused_product") || !strcmp(word[0], "fast_product")))
    return chain_setup(nwords, word);
  if (nwords != 6 || strcmp(word[0], "matmul") || strcmp(word[1], "f32")) return (Row){0};
  Product *p = malloc(sizeof *p);
  p->m = atol(word[2]), p->k = atol(word[3]), p->n = atol(word[4]);
  p->transposed = !strcmp(word[5], "nt");
  p->a = normal(p->m * p->k);
  p->b = normal(p->k * p->n);
  p->c = normal(p->m * p->n);
  return (Row){product, product_check, product_drop, p, 1};
}

static bool about(int nwords, char **word) {
  if (nwords != 1 || strcmp(word[0], "about")) return false;
  const dnnl_version_t *v = dnnl_version();
  printf("ok %d.%d.%d\n", v->major, v->minor, v->patch);
  return true;
}

int main(void) {
  worker_serve(setup, about);
  return 0;
}
