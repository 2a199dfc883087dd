/* Philox 4x32-10 against the known answers that Random123 publishes (kat_vectors), its
 * layout over elements, and equal bits of everything made from it on every instruction
 * set. The distributions are checked in random.lua. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/skip.h"
#include "vm/core/kernels.h"

enum { N = 1024 };

static int failures;

static void expect(int ok, const char *isa, const char *what) {
  if (ok) return;
  printf("random_test: %s: %s\n", isa, what);
  failures++;
}

/* counter, key, answer */
static const uint32_t known[][10] = {
    {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
    {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
     0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
    {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
     0x94fdcceb, 0x5001e420, 0x24126ea1},
};

static uint64_t join(uint32_t low, uint32_t high) { return low | (uint64_t)high << 32; }

static void test_known(const TsRandomKernels *k, const char *isa) {
  for (int t = 0; t < 3; t++) {
    const uint32_t *v = known[t];
    uint32_t b32[64];
    uint64_t b64[32], block = join(v[0], v[1]), lane = block % 16;
    k->bits32(join(v[4], v[5]), join(v[2], v[3]), block / 16, 1, b32);
    k->bits64(join(v[4], v[5]), join(v[2], v[3]), block / 16, 1, b64);
    for (int w = 0; w < 4; w++) expect(b32[16 * w + (int)lane] == v[6 + w], isa, "known word");
    for (int h = 0; h < 2; h++)
      expect(b64[16 * h + (int)lane] == join(v[6 + 2 * h], v[7 + 2 * h]), isa, "known pair");
  }
}

/* Groups do not depend on how many are made at once. */
static void test_groups(const TsRandomKernels *k, const char *isa) {
  uint32_t all[5 * 64], one[64];
  k->bits32(7, 9, 0xfffffffe, 5, all);
  for (int g = 0; g < 5; g++) {
    k->bits32(7, 9, 0xfffffffeu + (uint64_t)g, 1, one);
    expect(!memcmp(one, all + 64 * g, sizeof one), isa, "groups differ");
  }
}

typedef struct Results {
  uint32_t b32[N];
  uint64_t b64[N];
  float f[4][N];
  double d[5][N];
  uint8_t bits[N];
  double phi[9];
} Results;

static void run(const TsRandomKernels *k, Results *r) {
  static float x[N];
  static double xd[N];
  for (int i = 0; i < N; i++) xd[i] = x[i] = (float)(i % 37) - 18;
  memset(r, 0, sizeof *r);
  k->bits32(123, 4, 10, N / 64, r->b32);
  k->bits64(123, 4, 20, N / 32, r->b64);
  k->uniform[0](N, r->f[0], r->b32, -1, 3, 1.9);
  k->uniform[1](N, r->d[0], r->b64, -1, 3, 1.9);
  k->normal[0](N, r->f[1], r->b32, 0.5, 2);
  k->normal[1](N, r->d[1], r->b64, 0.5, 2);
  k->dropout[0](N - 5, r->f[3], r->b32, x, 0.3, 1 / 0.7);
  k->dropout[1](N - 5, r->d[3], r->b64, xd, 0.3, 1 / 0.7);
  k->quantile[0](N, r->d[4], r->b32, 0, 1, -1e9, 1e9);
  k->below(N - 5, r->bits, r->b32, 0.3);
  for (int i = 0; i < 9; i++) r->phi[i] = k->phi(2.5 * i - 10);
}

/* Extreme bits stay in range: no infinity, no NaN. */
static void test_limits(const TsRandomKernels *k, const char *isa) {
  uint32_t b32[64];
  uint64_t b64[32];
  float f[64];
  double d[64], q[64];
  for (int pattern = 0; pattern < 4; pattern++) {
    static const uint32_t word[] = {0, 0xffffffff, 0x7fffffff, 0x80000000};
    for (int i = 0; i < 64; i++) b32[i] = word[pattern];
    for (int i = 0; i < 32; i++) b64[i] = join(pattern & 1 ? 0xffffffff : 0, word[pattern]);
    k->uniform[0](64, f, b32, 0, 1, 2);
    k->uniform[1](32, d, b64, 0, 1, 2);
    expect(f[0] >= 0 && f[0] < 1 && d[0] >= 0 && d[0] < 1, isa, "uniform is out of range");
    k->normal[0](64, f, b32, 0, 1);
    k->normal[1](32, d, b64, 0, 1);
    expect(isfinite(f[0]) && isfinite(d[0]) && isfinite(f[16]) && isfinite(d[16]), isa,
           "normal is not finite");
    k->quantile[0](64, q, b32, 0, 1, -1e9, 1e9);
    k->quantile[1](32, d, b64, 0, 1, -1e9, 1e9);
    expect(isfinite(q[0]) && isfinite(d[0]), isa, "quantile is not finite");
  }
}

/* Inverse normal distribution at p = 2^-33 + k 2^-32; 17 digits from mpmath. */
static void test_quantile(const TsRandomKernels *k, const char *isa) {
  static const struct {
    uint32_t bits;
    double z;
  } exact[] = {
      {0, -6.33795775455378925},
      {1, -6.16642951781975025},
      {1000, -5.03985112596871155},
      {12345678, -2.76176951985948576},
      {0x10000000, -1.53412054340595673},
      {0x13333333, -1.43953147044501531},
      {0x20000000, -1.15034937981048316},
      {0x60000000, -0.31863936365736888},
      {0x80000000, 2.91809937291662267e-10},
      {0xd0000001, 0.887146560316421306},
      {0xfffffff0, 5.78577796547104301},
  };
  for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
    uint32_t b[64] = {exact[i].bits};
    double y[64];
    k->quantile[0](64, y, b, 0, 1, -1e9, 1e9);
    expect(fabs(y[0] - exact[i].z) <= 8e-16 * fabs(exact[i].z), isa, "quantile");
  }
}

int main(void) {
  static const char *const name[] = {"base", "avx2", "avx512"};
  static Results first, r;
  bool have = false;
  skip_isas();
  for (int i = 0; i < 3; i++) {
    const TsKernels *k = ts_kernels_use(name[i]);
    if (!k) continue;
    test_known(&k->random, name[i]);
    test_groups(&k->random, name[i]);
    test_limits(&k->random, name[i]);
    test_quantile(&k->random, name[i]);
    run(&k->random, &r);
    if (have) expect(!memcmp(&r, &first, sizeof r), name[i], "bits differ from base");
    if (!have) first = r;
    have = true;
  }
  printf("random_test: %s\n", failures ? "failed" : "ok");
  return failures != 0;
}
