/* Fourier transforms: against a long double transform written here, and the same bits
 * from every instruction set, place in a batch and memory layout. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/skip.h"
#include "vm/fft/fft.h"

typedef struct Num {
  long double re, im;
} Num;

static int failures, checks;
static TsFftKernels sets[3];
static const char *set_name[3];
static int nsets;

static void check(int ok, const char *what, int type, int kind, int64_t n, double value) {
  checks++;
  if (ok) return;
  failures++;
  printf("fft: %s: type %d kind %d n %lld (%g)\n", what, type, kind, (long long)n, value);
}

static uint64_t seed = 88172645463325252u;
static double uniform(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return (double)(int64_t)seed / 9223372036854775808.0;
}

static Num times(Num a, Num b) {
  return (Num){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static Num adjacent(int64_t k, int64_t n) {
  long double a = 2 * acosl(-1) * (long double)(k % n) / (long double)n;
  return (Num){cosl(a), -sinl(a)};
}

/* The reference: decimation in time by the smallest prime, sums by definition. */
static void reference(const Num *x, int64_t step, Num *y, int64_t n, const Num *w,
                      int64_t all) {
  int64_t p = 2;
  while (p < n && n % p) p++;
  if (n == 1) {
    *y = *x;
    return;
  }
  int64_t m = n / p;
  Num *part = malloc(sizeof *part * (size_t)n);
  for (int64_t i = 0; i < p; i++) reference(x + i * step, step * p, part + i * m, m, w, all);
  for (int64_t k = 0; k < n; k++) {
    Num sum = {0, 0};
    for (int64_t i = 0; i < p; i++) {
      Num t = times(part[i * m + k % m], w[i * k % n * (all / n)]);
      sum = (Num){sum.re + t.re, sum.im + t.im};
    }
    y[k] = sum;
  }
  free(part);
}

static void dft(const Num *x, Num *y, int64_t n) {
  Num *w = malloc(sizeof *w * (size_t)n);
  for (int64_t k = 0; k < n; k++) w[k] = adjacent(k, n);
  reference(x, 1, y, n, w, n);
  free(w);
}

static int in_parts(int kind) { return kind == TS_FFT_c2c || kind == TS_FFT_c2r ? 2 : 1; }
static int out_parts(int kind) { return kind == TS_FFT_c2c || kind == TS_FFT_r2c ? 2 : 1; }
static int64_t in_count(int kind, int64_t n) { return kind == TS_FFT_c2r ? n / 2 + 1 : n; }
static int64_t out_count(int kind, int64_t n) { return kind == TS_FFT_r2c ? n / 2 + 1 : n; }

static double read_real(int type, const void *p, int64_t i) {
  return type == TS_FFT_f64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static void write_real(int type, void *p, int64_t i, double x) {
  if (type == TS_FFT_f64)
    ((double *)p)[i] = x;
  else
    ((float *)p)[i] = (float)x;
}

static int64_t size_of(int type) { return type == TS_FFT_f64 ? 8 : 4; }

static void *noise(int type, int64_t n) {
  void *p = malloc((size_t)(n * size_of(type)));
  for (int64_t i = 0; i < n; i++) write_real(type, p, i, uniform());
  return p;
}

/* The expected numbers of one kind, from its defining sum over 4n or n points. */
static void expect(int type, int kind, int inverse, const void *in, int64_t n, Num *y) {
  int64_t big = kind >= TS_FFT_dct2 ? 4 * n : n;
  Num *x = calloc((size_t)big, sizeof *x), *z = calloc((size_t)big, sizeof *z);
  for (int64_t i = 0; i < in_count(kind, n); i++) {
    Num a = {read_real(type, in, in_parts(kind) * i), 0};
    if (in_parts(kind) == 2) a.im = read_real(type, in, 2 * i + 1);
    if (kind == TS_FFT_dct2) {
      x[2 * i + 1].re = x[4 * n - 2 * i - 1].re = a.re;
    } else if (kind == TS_FFT_dct3) {
      x[i].re = a.re;
      if (i) x[4 * n - i].re = a.re;
    } else if (kind == TS_FFT_c2r) {
      if (i == 0 || 2 * i == n) a.im = 0;
      x[i] = a;
      if (i) x[n - i] = (Num){a.re, -a.im};
    } else {
      x[i] = a;
    }
  }
  int plus = inverse || kind == TS_FFT_c2r;
  for (int64_t i = 0; plus && i < big; i++) x[i].im = -x[i].im;
  dft(x, z, big);
  for (int64_t i = 0; i < out_count(kind, n); i++) {
    y[i] = z[kind == TS_FFT_dct3 ? 2 * i + 1 : i];
    if (plus) y[i].im = -y[i].im;
  }
  free(x);
  free(z);
}

static TsFft plain(int type, int kind, int64_t n, const void *in, void *out) {
  return (TsFft){.type = type,
                 .kind = kind,
                 .scale = 1,
                 .dc = 1,
                 .n = n,
                 .in_n = in_count(kind, n),
                 .in = in,
                 .out = out,
                 .in_stride = 1,
                 .out_stride = 1};
}

/* rms error of one transform, relative to the rms of the result. */
static double error_of(int type, int kind, int inverse, int64_t n) {
  void *in = noise(type, in_parts(kind) * in_count(kind, n));
  int64_t bins = out_count(kind, n);
  void *out = malloc((size_t)(out_parts(kind) * bins * size_of(type)));
  Num *want = malloc(sizeof *want * (size_t)bins);
  TsFft f = plain(type, kind, n, in, out);
  f.inverse = inverse;
  if (ts_fft(&f, &sets[0])) failures++;
  expect(type, kind, inverse, in, n, want);
  long double err = 0, all = 0;
  for (int64_t i = 0; i < bins; i++) {
    long double re = read_real(type, out, out_parts(kind) * i) - want[i].re, im = 0;
    if (out_parts(kind) == 2) im = read_real(type, out, 2 * i + 1) - want[i].im;
    err += re * re + im * im;
    all += want[i].re * want[i].re + (out_parts(kind) == 2 ? want[i].im * want[i].im : 0);
  }
  free(in);
  free(out);
  free(want);
  return all > 0 ? (double)sqrtl(err / all) : (double)sqrtl(err);
}

/* The largest lengths for one kind and type, unless it is asked for all. */
static void accuracy(int share) {
  static const int64_t big[] = {1000,  1024,  1009,    1155,    2047,    2048,
                                3721,  4096,  6561,    8192,    15625,   16384,
                                30030, 65536, 1 << 17, 3 << 16, 1000000, 1 << 20};
  static const int nbig = sizeof big / sizeof big[0];
  for (int type = 0; type < 2; type++)
    for (int kind = 0; kind <= TS_FFT_dct3; kind++) {
      double worst = 0, eps = type == TS_FFT_f64 ? 1.1e-16 : 6e-8;
      int64_t at = 0;
      for (int i = 1; i < 300 + nbig; i++) {
        int64_t n = i < 300 ? i : big[i - 300];
        if (n > 20000 && kind >= TS_FFT_dct2) continue;
        if (n > 100000 && share > 1 && (kind || type)) continue;
        for (int inverse = 0; inverse < (kind == 0 && n < 70000 ? 2 : 1); inverse++) {
          double e = error_of(type, kind, inverse, n);
          check(e < 6 * eps, "rms error", type, kind, n, e / eps);
          if (e > worst) worst = e, at = n;
          if (getenv("TS_TEST_VERBOSE") && kind == 0 && i >= 300)
            printf("type %d n %lld: rms %.3g\n", type, (long long)n, e);
        }
      }
      if (getenv("TS_TEST_VERBOSE"))
        printf("type %d kind %d: worst rms %.3g at n = %lld\n", type, kind, worst,
               (long long)at);
    }
}

/* Long primes: some bins against the defining sum. The error is relative to the rms of the
 * whole spectrum, which is n times the mean square of the input. The bound: three rounded
 * transforms of M points with 3 eps each, and sqrt(M/n) <= 1.5 for the noise in the part
 * of M that carries nothing: 7.8 eps. */
static void long_primes(int share) {
  static const int64_t prime[] = {4099, 9973, 65537, 99991, 1000003};
  for (int type = 0; type < 2; type++)
    for (int i = 0; i < (share > 1 && type ? 4 : 5); i++) {
      int64_t n = prime[i];
      void *in = noise(type, 2 * n), *out = noise(type, 2 * n);
      TsFft f = plain(type, TS_FFT_c2c, n, in, out);
      check(ts_fft(&f, &sets[0]) == 0, "runs", type, 0, n, 0);
      Num *w = malloc(sizeof *w * (size_t)n);
      long double err = 0, all = 0;
      for (int64_t k = 0; k < n; k++) w[k] = adjacent(k, n);
      for (int64_t k = 0; k < 2 * n; k++) {
        long double v = read_real(type, in, k);
        all += v * v;
      }
      int bins = 0;
      for (int64_t k = 1; k < n; k += n / 16, bins++) {
        Num sum = {0, 0};
        for (int64_t j = 0, at = 0; j < n; j++, at = at + k < n ? at + k : at + k - n) {
          Num t =
              times((Num){read_real(type, in, 2 * j), read_real(type, in, 2 * j + 1)}, w[at]);
          sum = (Num){sum.re + t.re, sum.im + t.im};
        }
        long double re = read_real(type, out, 2 * k) - sum.re;
        long double im = read_real(type, out, 2 * k + 1) - sum.im;
        err += re * re + im * im;
      }
      double e = (double)sqrtl(err / bins / all), eps = type == TS_FFT_f64 ? 1.1e-16 : 6e-8;
      check(e < 7.8 * eps, "rms error of a long prime", type, 0, n, e / eps);
      if (getenv("TS_TEST_VERBOSE"))
        printf("type %d prime %lld: rms %.3g\n", type, (long long)n, e);
      free(in);
      free(out);
      free(w);
    }
}

/* The same input through many layouts and all instruction sets gives the bits of each
 * transform run alone. batch runs at a time; form chooses the layout. */
typedef struct Shape {
  int64_t dims[3], in_outer[3], out_outer[3], in_stride, out_stride;
  int nouter;
} Shape;

static Shape layout(int form, int64_t batch, int64_t nin, int64_t nout) {
  switch (form) {
  case 0: return (Shape){{batch}, {nin}, {nout}, 1, 1, 1};
  case 1: return (Shape){{batch}, {1}, {1}, batch, batch, 1};
  case 2: return (Shape){{batch}, {1}, {nout + 3}, batch + 5, 1, 1};
  case 3: return (Shape){{batch}, {nin + 1}, {2}, 1, 2 * batch + 1, 1};
  case 4:
    return (Shape){{batch / 2, 2}, {2, 2 * batch}, {nout, nout * (batch / 2)}, 4 * batch, 1, 2};
  default:
    return (Shape){{2, batch / 2}, {batch / 2 * nin * 3, 3 * nin}, {batch / 2, 1}, 3, batch, 2};
  }
}

static int64_t extent(const Shape *s, int64_t n, int out) {
  int64_t last = (n - 1) * (out ? s->out_stride : s->in_stride) + 1;
  for (int d = 0; d < s->nouter; d++)
    last += (s->dims[d] - 1) * (out ? s->out_outer[d] : s->in_outer[d]);
  return last;
}

static int64_t place(const Shape *s, int64_t b, int out) {
  int64_t at = 0;
  for (int d = s->nouter - 1; d >= 0; d--) {
    at += b % s->dims[d] * (out ? s->out_outer[d] : s->in_outer[d]);
    b /= s->dims[d];
  }
  return at;
}

static void move(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                 int64_t size) {
  for (int64_t i = 0; i < n; i++)
    memcpy(to + i * to_step * size, from + i * from_step * size, (size_t)size);
}

static void same_bits(int type, int kind, int inverse, int64_t n, int64_t batch, int form) {
  int64_t nin = in_count(kind, n), nout = out_count(kind, n);
  int64_t in_size = in_parts(kind) * size_of(type), out_size = out_parts(kind) * size_of(type);
  char *in = noise(type, nin * batch * in_parts(kind)),
       *want = malloc((size_t)(nout * out_size));
  char *got = malloc((size_t)(nout * out_size));
  Shape s = layout(form, batch, nin, nout);
  char *x = malloc((size_t)(extent(&s, nin, 0) * in_size));
  char *y = malloc((size_t)(extent(&s, nout, 1) * out_size));
  for (int64_t b = 0; b < batch; b++)
    move(x + place(&s, b, 0) * in_size, s.in_stride, in + b * nin * in_size, 1, nin, in_size);
  for (int set = 0; set < nsets; set++) {
    TsFft f = plain(type, kind, n, x, y);
    f.inverse = inverse;
    f.scale = 0.3;
    f.in_stride = s.in_stride;
    f.out_stride = s.out_stride;
    f.nouter = s.nouter;
    f.outer_dim = s.dims;
    f.in_outer_stride = s.in_outer;
    f.out_outer_stride = s.out_outer;
    memset(y, 0xff, (size_t)(extent(&s, nout, 1) * out_size));
    check(ts_fft(&f, &sets[set]) == 0, "runs", type, kind, n, form);
    for (int64_t b = 0; b < batch; b++) {
      TsFft alone = plain(type, kind, n, in + b * nin * in_size, want);
      alone.inverse = inverse;
      alone.scale = 0.3;
      if (b > 2 && b < batch - 2 && (n > 100 || set > 0) && b % 7) continue;
      ts_fft(&alone, &sets[0]);
      move(got, 1, y + place(&s, b, 1) * out_size, s.out_stride, nout, out_size);
      if (memcmp(got, want, (size_t)(nout * out_size))) {
        printf("set %s batch %lld of %lld\n", set_name[set], (long long)b, (long long)batch);
        check(0, "same bits", type, kind, n, form);
        break;
      }
      check(1, "same bits", type, kind, n, form);
    }
  }
  free(in);
  free(want);
  free(got);
  free(x);
  free(y);
}

/* Of lengths, kinds and forms each `share`-th. */
static void bits(int share) {
  static const int64_t some[] = {1,   2,   3,   4,    5,    7,    8,    13,   15,  16,
                                 31,  32,  48,  61,   63,   64,   65,   66,   67,  96,
                                 97,  100, 120, 121,  122,  127,  128,  243,  256, 257,
                                 360, 512, 720, 1000, 1024, 1031, 2048, 2187, 4096};
  for (int i = 0; i < (int)(sizeof some / sizeof some[0]); i++)
    for (int type = 0; type < 2; type++)
      for (int kind = 0; kind <= TS_FFT_dct3; kind++)
        for (int form = (i + kind) % share; form < 6; form += share)
          same_bits(type, kind, (form ^ i) & 1, some[i], form & 1 ? 38 : 22, form);
  for (int kind = 0; kind < 3; kind++) {
    same_bits(TS_FFT_f32, kind, 0, 65536, 10, kind);
    same_bits(TS_FFT_f64, kind, 1, 10007, 12, kind);
    same_bits(TS_FFT_f32, kind, 0, 3, 1000, kind);
  }
}

/* Cut and padded input equals the transform of the cut and padded array; in place. */
static void edges(void) {
  for (int type = 0; type < 2; type++)
    for (int kind = 0; kind <= TS_FFT_dct3; kind++)
      for (int64_t n = 1; n < 400; n += 7)
        for (int64_t batch = 1; batch < 40; batch += 19) {
          int64_t nin = in_count(kind, n), nout = out_count(kind, n), given = 1 + nin * 2 / 3;
          int64_t in_size = in_parts(kind) * size_of(type);
          int64_t bytes = nout * batch * out_parts(kind) * size_of(type);
          char *in = noise(type, given * batch * in_parts(kind));
          char *full = calloc((size_t)(nin * batch), (size_t)in_size);
          char *a = malloc((size_t)bytes), *b = malloc((size_t)bytes);
          for (int64_t i = 0; i < batch; i++)
            memcpy(full + i * nin * in_size, in + i * given * in_size,
                   (size_t)((given < nin ? given : nin) * in_size));
          TsFft f = plain(type, kind, n, in, a), g = plain(type, kind, n, full, b);
          f.in_n = given;
          f.nouter = g.nouter = 1;
          f.outer_dim = g.outer_dim = &batch;
          f.in_outer_stride = &given;
          g.in_outer_stride = &nin;
          f.out_outer_stride = g.out_outer_stride = &nout;
          ts_fft(&f, &sets[0]);
          ts_fft(&g, &sets[0]);
          check(!memcmp(a, b, (size_t)bytes), "cut and padded", type, kind, n, (double)batch);
          if (kind == TS_FFT_c2c) {
            g.out = full;
            ts_fft(&g, &sets[0]);
            check(!memcmp(full, b, (size_t)bytes), "in place", type, kind, n, (double)batch);
          }
          free(in);
          free(full);
          free(a);
          free(b);
        }
}

/* There and back, in every convention, gives the input. */
static void conventions(void) {
  static const int back[] = {TS_FFT_c2c, TS_FFT_c2r, 0, TS_FFT_dct3};
  for (int norm = TS_FFT_ortho; norm <= TS_FFT_backward; norm++)
    for (int kind = 0; kind < 4; kind++)
      for (int64_t n = 1; n < 100; n++) {
        if (kind == TS_FFT_c2r) continue;
        double *x = noise(TS_FFT_f64, 2 * n), y[256], z[256], worst = 0, in = 0, out = 0;
        TsFft f = plain(TS_FFT_f64, kind, n, x, y);
        ts_fft_normalise(&f, norm);
        ts_fft(&f, &sets[0]);
        TsFft g = plain(TS_FFT_f64, back[kind], n, y, z);
        g.inverse = 1;
        ts_fft_normalise(&g, norm);
        ts_fft(&g, &sets[0]);
        for (int64_t i = 0; i < n * in_parts(kind); i++) {
          worst = fmax(worst, fabs(x[i] - z[i]));
          in += x[i] * x[i];
          out += y[i] * y[i];
        }
        check(worst < 1e-14, "there and back", norm, kind, n, worst);
        if (norm == TS_FFT_ortho && kind != TS_FFT_r2c)
          check(fabs(in - out) < 1e-13 * in + 1e-300, "ortho", norm, kind, n, in - out);
        free(x);
      }
  TsFft bad = plain(0, 0, 0, NULL, NULL);
  check(ts_fft(&bad, &sets[0]) == TS_FFT_bad_argument, "length 0 refused", 0, 0, 0, 0);
}

static void add_set(int has, void (*fill)(TsFftKernels *), const char *name) {
  if (!has) return;
  set_name[nsets] = name;
  fill(&sets[nsets++]);
}

int main(int argc, char **argv) {
  int share = argc > 1 ? atoi(argv[1]) : 1;
  skip_isas();
  setvbuf(stdout, NULL, _IOLBF, 0);
  add_set(__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"),
          ts_kernels_fft_avx512, "avx512");
  add_set(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"), ts_kernels_fft_avx2,
          "avx2");
  add_set(1, ts_kernels_fft_base, "base");
  conventions();
  edges();
  bits(share);
  accuracy(share);
  long_primes(share);
  ts_fft_clear();
  printf("fft: %d checks, %d failures\n", checks, failures);
  return failures != 0;
}
