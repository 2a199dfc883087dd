/* The worker for oneDNN: its single precision matrix product, on the threads
 * that OMP_NUM_THREADS names. */
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

/* matmul f32 M K N nn|nt */
static Row setup(int nwords, char **word) {
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
