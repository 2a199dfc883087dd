/* Plans of Fourier transforms: how a length is cut, the roots, the cache. One that was interrupted
 * while it was made is none, as one without memory. */
#include "vm/fft/plan.h"

#include "devices/cpu_pool.h"
#include "devices/memory.h"
#include "ir/lower/fft/plans.h"
#include "vm/fft/fft.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
  PLANS = 64,             /* plans kept */
  PLAN_BYTES = 160 << 20, /* bytes of tables kept */
  CLEARED = 16 << 20      /* at once */
};

static int real_size(int type) { return type == TS_FFT_f64 ? 8 : 4; }
static int lanes_of(int type) { return 64 / real_size(type); }

/* Roots of one order N, in long double and then rounded once to the type. The angle is
 * first brought into an eighth of the circle by exact integer steps, so that symmetric
 * roots are symmetric to the bit; there it is the product of two of about 2 sqrt(N)
 * tabulated values, whose error stays near 2^-63. */
typedef struct Roots {
  int64_t n, fine;
  long double *coarse_cos, *coarse_sin, *fine_cos, *fine_sin;
} Roots;

/* Zeroed and aligned to 64 bytes; NULL when there is no memory or a test says so. By the
 * thread that makes the plan. */
static void *take(size_t nbytes) {
  size_t whole = (nbytes + 63) / 64 * 64, at = 0, n;
  void *p = ts_memory_should_fail() ? NULL : aligned_alloc(64, whole ? whole : 64);
  do { /* the first bytes in any case, as they may be a struct */
    n = whole - at < CLEARED ? whole - at : CLEARED;
    if (p) memset((char *)p + at, 0, n);
  } while ((at += n) < whole && !ts_cpu_interrupted());
  return p;
}

static int roots_open(Roots *r, int64_t n) {
  const long double unit = 3.14159265358979323846264338327950288L / 2 / (long double)n;
  int64_t reach = n / 2 + 1, fine = 1;
  while (fine * fine < reach) fine *= 2;
  int64_t coarse = reach / fine + 1;
  long double *p = take(sizeof *p * 2 * (size_t)(fine + coarse));
  if (!p) return 0;
  *r = (Roots){n, fine, p, p + coarse, p + 2 * coarse, p + 2 * coarse + fine};
  for (int64_t i = 0; i < coarse; i++) {
    r->coarse_cos[i] = cosl(unit * (long double)(i * fine));
    r->coarse_sin[i] = sinl(unit * (long double)(i * fine));
  }
  for (int64_t i = 0; i < fine; i++) {
    r->fine_cos[i] = cosl(unit * (long double)i);
    r->fine_sin[i] = sinl(unit * (long double)i);
  }
  return 1;
}

static void roots_close(Roots *r) { free(r->coarse_cos); }

/* cos and sin of 2 pi k / n for 0 <= k < n. */
static void root_at(const Roots *r, int64_t k, long double *c, long double *s) {
  int64_t quarter = 4 * k / r->n, rest = 4 * k - quarter * r->n;
  int flip = 2 * rest > r->n;
  if (flip) rest = r->n - rest;
  int64_t hi = rest / r->fine, lo = rest % r->fine;
  long double a = r->coarse_cos[hi], b = r->coarse_sin[hi];
  long double u = r->fine_cos[lo], v = r->fine_sin[lo];
  long double x = a * u - b * v, y = a * v + b * u;
  if (2 * rest == r->n) x = y = sqrtl(0.5L);
  if (flip) {
    long double t = x;
    x = y;
    y = t;
  }
  *c = quarter == 0 ? x : quarter == 1 ? -y : quarter == 2 ? -x : y;
  *s = quarter == 0 ? y : quarter == 1 ? x : quarter == 2 ? -y : -x;
}

static void set(int type, void *p, int64_t i, long double x) {
  x += 0.0L; /* no negative zero */
  if (type == TS_FFT_f64)
    ((double *)p)[i] = (double)x;
  else
    ((float *)p)[i] = (float)x;
}

/* w(n, k) = exp(-2 pi i k / n) as two elements. */
static void set_root(int type, void *p, int64_t i, int64_t gap, const Roots *r, int64_t k) {
  long double c, s;
  root_at(r, k, &c, &s);
  set(type, p, i, c);
  set(type, p, i + gap, -s);
}

static void *table(TsFftPlan *p, int64_t elements) {
  size_t nbytes = ((size_t)elements * (size_t)real_size(p->type) + 63) / 64 * 64;
  p->nbytes += nbytes;
  return take(nbytes);
}

static int largest_prime(int64_t n) {
  int64_t big = 1;
  for (int64_t d = 2; d * d <= n; d++)
    while (n % d == 0) n /= d, big = d;
  if (n > 1) big = n;
  return big > TS_FFT_PRIME ? TS_FFT_PRIME + 1 : (int)big;
}

/* The radices of a leaf. */
static int radices(int64_t n, int *radix) {
  int count = 0, twos = 0;
  while (n % 2 == 0) n /= 2, twos++;
  for (; twos > 4 || twos == 3; twos -= 3) radix[count++] = 8;
  for (; twos >= 2; twos -= 2) radix[count++] = 4;
  if (twos) radix[count++] = 2;
  for (int d = 3; n > 1; d += 2)
    while (n % d == 0) n /= d, radix[count++] = d;
  return count;
}

static int radix_cost(int r) {
  static const int cost[] = {[2] = 10, [3] = 12, [4] = 12, [5] = 15, [7] = 19, [8] = 15};
  return r <= 8 ? cost[r] : 10 + 2 * r;
}

/* Where a length is cut: the cheapest n1 * n2 with n1 <= n2 <= 8 n1, equal costs to the
 * more even cut; without one, the most even. Part of the definition of the bits. */
static int64_t plan_split(int64_t n, int *cost);

static int length_cost(int64_t n) {
  int cost = 0, radix[TS_FFT_CHAIN];
  if (n > TS_FFT_LEAF)
    plan_split(n, &cost);
  else
    for (int i = radices(n, radix); i-- > 0;) cost += radix_cost(radix[i]);
  return cost;
}

static int64_t plan_split(int64_t n, int *cost) {
  int64_t d = (int64_t)sqrtl((long double)n), best = 0;
  for (; d > 1; d--) {
    if (n % d) continue;
    if (n / d > 8 * d && best) break;
    int c = length_cost(d) + length_cost(n / d);
    if (!best || c < *cost) *cost = c, best = d;
    if (n / d > 8 * d) break;
  }
  return best;
}

static int make_chain(TsFftPlan *p, TsFftChain *c, int n) {
  *c = (TsFftChain){.n = n, .count = radices(n, c->radix)};
  c->count = radices(n, c->radix);
  for (int i = 0, m = n; i < c->count; i++) {
    int r = c->radix[i], order = m;
    Roots roots;
    m /= r;
    void *w = table(p, 2 * (int64_t)(m - 1) * (r - 1)), *o = table(p, 2 * r);
    c->w[i] = w;
    c->root[i] = o;
    if (!w || !o || !roots_open(&roots, order)) return 0;
    for (int k = 1, at = 0; k < m; k++)
      for (int j = 1; j < r; j++, at += 2) set_root(p->type, w, at, 1, &roots, k * j);
    for (int k = 0; k < r; k++) {
      long double x, y;
      root_at(&roots, (int64_t)k * m, &x, &y);
      set(p->type, o, k, x);
      set(p->type, o, r + k, y);
    }
    roots_close(&roots);
  }
  return 1;
}

static void free_node(TsFftNode *t) {
  if (!t) return;
  free_node(t->left);
  free_node(t->right);
  free(t->twist);
  for (int i = 0; i < TS_FFT_CHAIN; i++) {
    free((void *)(uintptr_t)t->chain.w[i]);
    free((void *)(uintptr_t)t->chain.root[i]);
  }
  free(t);
}

static int make_twist(TsFftPlan *p, TsFftNode *t) {
  int lanes = lanes_of(p->type);
  int64_t blocks = (t->n2 + lanes - 1) / lanes;
  Roots roots;
  t->step = blocks * TS_FFT_ROW;
  t->twist = table(p, t->n1 * blocks * 2 * lanes);
  if (!t->twist || !roots_open(&roots, t->n)) return 0;
  for (int64_t k = 0; k < t->n1 && !ts_cpu_interrupted(); k++)
    for (int64_t j = 0; j < t->n2; j++)
      set_root(p->type, t->twist + k * t->step + j / lanes * TS_FFT_ROW, j % lanes, lanes,
               &roots, k * j);
  roots_close(&roots);
  return !ts_cpu_interrupted();
}

static TsFftNode *make_node(TsFftPlan *p, int64_t n) {
  TsFftNode *t = take(sizeof *t);
  if (!t) return NULL;
  t->n = n;
  if (n <= TS_FFT_LEAF) {
    if (make_chain(p, &t->chain, (int)n)) return t;
  } else {
    int cost = 0;
    t->n1 = plan_split(n, &cost);
    t->n2 = n / t->n1;
    if (make_twist(p, t) && (t->left = make_node(p, t->n1)) && (t->right = make_node(p, t->n2)))
      return t;
  }
  free_node(t);
  return NULL;
}

/* The length behind Bluestein's convolution: section 3 of the definition. */
static int64_t round_length(int64_t least) {
  static const int odd[] = {1, 3, 5, 9, 15};
  int64_t best = 0;
  for (int i = 0; i < 5; i++) {
    int64_t m = odd[i];
    while (m < least) m *= 2;
    if (!best || m < best) best = m;
  }
  return best;
}

/* The transform of the chirp over m, always made in f64, as it multiplies in any type. */
static int make_kernel(TsFftPlan *p, const Roots *roots, const TsFftKernels *k);

static int make_bluestein(TsFftPlan *p, const TsFftKernels *k) {
  Roots roots;
  p->m = round_length(2 * p->n - 1);
  p->chirp = table(p, 2 * p->n);
  p->kernel = table(p, 2 * p->m);
  if (!p->chirp || !p->kernel || !(p->root = make_node(p, p->m))) return 0;
  if (!roots_open(&roots, 2 * p->n)) return 0;
  int64_t square = 0;
  TS_CPU_LOOKING(j, 0, p->n) {
    set_root(p->type, p->chirp, 2 * j, 1, &roots, square);
    square = (square + 2 * j + 1) % (2 * p->n);
  }
  int ok = !ts_cpu_interrupted() && make_kernel(p, &roots, k);
  roots_close(&roots);
  return ok;
}

static int make_line(TsFftPlan *p) {
  int64_t order = p->what == TS_FFT_QUARTER ? 4 * p->n : p->n, count = p->n / 2 + 1;
  Roots roots;
  p->line = table(p, 2 * count);
  if (!p->line || !roots_open(&roots, order)) return 0;
  TS_CPU_LOOKING(i, 0, count) set_root(p->type, p->line, 2 * i, 1, &roots, i % order);
  roots_close(&roots);
  return !ts_cpu_interrupted();
}

static void free_plan(TsFftPlan *p) {
  if (!p) return;
  free_node(p->root);
  free(p->chirp);
  free(p->kernel);
  free(p->line);
  free(p);
}

static TsFftPlan *make_plan(int type, int what, int64_t n, const TsFftKernels *k) {
  TsFftPlan *p = take(sizeof *p);
  if (!p) return NULL;
  p->type = type;
  p->what = what;
  p->n = n;
  p->refs = 1;
  int ok = what != TS_FFT_TREE               ? make_line(p)
           : largest_prime(n) > TS_FFT_PRIME ? make_bluestein(p, k)
                                             : (p->root = make_node(p, n)) != NULL;
  if (ok) return p;
  free_plan(p);
  return NULL;
}

/* The cache: least recently used plans go when there are too many or too large. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TsFftPlan *plans[PLANS];
static size_t plan_bytes;
static uint64_t tick;

static TsFftPlan *find(int type, int what, int64_t n) {
  for (int i = 0; i < PLANS; i++) {
    TsFftPlan *p = plans[i];
    if (!p || p->type != type || p->what != what || p->n != n) continue;
    p->refs++;
    p->used = ++tick;
    return p;
  }
  return NULL;
}

static void drop(int i) {
  TsFftPlan *p = plans[i];
  plans[i] = NULL;
  plan_bytes -= p->nbytes;
  p->cached = 0;
  if (p->refs == 0) free_plan(p);
}

/* A free slot with room for nbytes, or -1 when they are too many for the cache. */
static int make_room(size_t nbytes) {
  if (nbytes > PLAN_BYTES) return -1;
  for (;;) {
    int empty = -1, oldest = -1;
    for (int i = 0; i < PLANS; i++) {
      if (!plans[i])
        empty = i;
      else if (oldest < 0 || plans[i]->used < plans[oldest]->used)
        oldest = i;
    }
    if (empty >= 0 && plan_bytes + nbytes <= PLAN_BYTES) return empty;
    drop(oldest);
  }
}

TsFftPlan *ts_fft_plan_take(int type, int what, int64_t n, const TsFftKernels *k) {
  pthread_mutex_lock(&lock);
  TsFftPlan *p = find(type, what, n);
  pthread_mutex_unlock(&lock);
  if (p) return p;
  TsFftPlan *made = make_plan(type, what, n, k);
  if (!made) return NULL;
  pthread_mutex_lock(&lock);
  p = find(type, what, n); /* another thread may have been faster */
  if (!p) {
    int i = make_room(made->nbytes);
    if (i >= 0) {
      plans[i] = made;
      made->cached = 1;
      made->used = ++tick;
      plan_bytes += made->nbytes;
    }
  }
  pthread_mutex_unlock(&lock);
  if (!p) return made;
  free_plan(made);
  return p;
}

void ts_fft_plan_give(TsFftPlan *p) {
  if (!p) return;
  pthread_mutex_lock(&lock);
  int last = --p->refs == 0 && !p->cached;
  pthread_mutex_unlock(&lock);
  if (last) free_plan(p);
}

/* ---- for who makes kernels of devices */
static _Atomic(const TsFftKernels *) served;

static TsFftPlan *take_served(int type, int what, int64_t n) {
  return ts_fft_plan_take(type, what, n, atomic_load(&served));
}

void ts_fft_plan_serve(const TsFftKernels *k) {
  static const TsFftPlans plans_of = {take_served, ts_fft_plan_give};
  atomic_store(&served, k);
  ts_fft_plans_use(&plans_of);
}

void ts_fft_clear(void) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < PLANS; i++)
    if (plans[i]) drop(i);
  pthread_mutex_unlock(&lock);
}

static int make_kernel(TsFftPlan *p, const Roots *roots, const TsFftKernels *k) {
  int64_t m = p->m, n = p->n;
  double *b = take((size_t)(16 * m));
  if (!b) return 0;
  int64_t square = 0;
  TS_CPU_LOOKING(j, 0, n) {
    long double c, s;
    root_at(roots, square, &c, &s);
    set(TS_FFT_f64, b, 2 * j, c);
    set(TS_FFT_f64, b, 2 * j + 1, s);
    if (j) memcpy(b + 2 * (m - j), b + 2 * j, 16);
    square = (square + 2 * j + 1) % (2 * n);
  }
  TsFft f = {.type = TS_FFT_f64,
             .kind = TS_FFT_c2c,
             .scale = 1.0 / (double)m,
             .n = m,
             .in_n = m,
             .in = b,
             .out = b,
             .in_stride = 1,
             .out_stride = 1};
  int ok = ts_fft(&f, k) == TS_FFT_ok && !ts_cpu_interrupted();
  for (int64_t i = 0; ok && i < 2 * m; i++) set(p->type, p->kernel, i, b[i]);
  free(b);
  return ok;
}
