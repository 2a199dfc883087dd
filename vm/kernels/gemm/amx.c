/* Blocks of 32 x 32 sums in four of the unit's eight registers; the others hold rows and
 * columns. Each operand that is loaded serves two products: 64 cycles of multiplying meet four
 * loads of 1 KiB. */
#include "vm/kernels/gemm/amx.h"

#include <stddef.h>

#include "vm/kernels/simd/isa.h"

#if defined TS_ISA_avx512
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm/kernels/gemm/simd_f32.h"

#define AMX __attribute__((target("amx-tile,amx-bf16")))

enum { HALF_ROWS = 16, ROW_BYTES = 64, PAIRS = 16 };

/* ---- whether there is one */

/* The system gives out the unit's registers only to who asks: each takes 8 KiB of every thread
 * that uses them. */
static bool system_allows(void) {
#if defined __linux__
  enum { ASK = 0x1023, TILE_DATA = 18 }; /* arch_prctl, ARCH_REQ_XCOMP_PERM */
  return syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
#else
  return false;
#endif
}

static bool has_amx(void) {
  enum { BF16 = 1 << 22, TILE = 1 << 24 };
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  return (d & BF16) && (d & TILE) && system_allows();
}

/* ---- registers: 0 to 3 sums, 4 and 5 rows, 6 and 7 columns */
typedef struct Config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} Config;

AMX static void open_amx(int rows) {
  int upper = rows < HALF_ROWS ? rows : HALF_ROWS, lower = rows - upper;
  Config c = {.palette = 1};
  for (int t = 0; t < 8; t++) {
    bool is_lower = t == 2 || t == 3 || t == 5;
    c.rows[t] = (uint8_t)(t >= 6 ? PAIRS : is_lower ? lower : upper);
    c.row_bytes[t] = c.rows[t] ? ROW_BYTES : 0;
  }
  /* gcc's intrinsic says that it reads 8 bytes: what was written behind these would go. */
  __asm__ volatile("" : : "m"(c));
  _tile_loadconfig(&c);
}

AMX static void close_amx(void) { _tile_release(); }

AMX static void block(int rows, int64_t steps, const void *a, int64_t ars, int64_t ats,
                      const uint32_t *b, float *c, int64_t crs, bool resume) {
  const char *upper = a, *lower = upper + HALF_ROWS * ars;
  float *below = c + HALF_ROWS * crs;
  bool both = rows > HALF_ROWS;
  size_t c_bytes = (size_t)crs * sizeof *c, b_bytes = TS_AMX_COLS * sizeof *b;
  if (resume) {
    _tile_loadd(0, c, c_bytes);
    _tile_loadd(1, c + 16, c_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  if (both && resume) {
    _tile_loadd(2, below, c_bytes);
    _tile_loadd(3, below + 16, c_bytes);
  } else if (both) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t s = 0; s < steps; s++, b += PAIRS * TS_AMX_COLS) {
    _tile_loadd(4, upper + s * ats, (size_t)ars);
    _tile_loadd(6, b, b_bytes);
    _tile_loadd(7, b + 16, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (!both) continue;
    _tile_loadd(5, lower + s * ats, (size_t)ars);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_bytes);
  _tile_stored(1, c + 16, c_bytes);
  if (!both) return;
  _tile_stored(2, below, c_bytes);
  _tile_stored(3, below + 16, c_bytes);
}

/* ---- packing of rows */

/* One step of n rows whose steps lie side by side. */
static void pack_along(uint16_t *dst, const uint16_t *src, int64_t is, int64_t n, int64_t nk) {
  __mmask32 some = nk >= TS_AMX_STEPS ? ~(__mmask32)0 : ((__mmask32)1 << nk) - 1;
  for (int64_t i = 0; i < n; i++)
    _mm512_storeu_si512(dst + i * TS_AMX_STEPS, _mm512_maskz_loadu_epi16(some, src + i * is));
}

/* One step of 16 rows that lie side by side: pairs of steps, turned. */
static void pack_across(uint16_t *dst, const uint16_t *src, int64_t ks, int64_t n, int64_t nk) {
  __mmask16 some = n >= 16 ? (__mmask16)~0u : (__mmask16)((1u << n) - 1);
  V r[16];
  for (int p = 0; p < PAIRS; p++) {
    __m256i x[2];
    for (int i = 0; i < 2; i++) {
      bool is = 2 * p + i < nk;
      x[i] =
          is ? _mm256_maskz_loadu_epi16(some, src + (2 * p + i) * ks) : _mm256_setzero_si256();
    }
    __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(x[1]), 16);
    r[p] = (V)_mm512_or_si512(_mm512_cvtepu16_epi32(x[0]), high);
  }
  v_transpose(r);
  for (int i = 0; i < 16 && i < n; i++) _mm512_storeu_ps(dst + i * TS_AMX_STEPS, r[i]);
}

static void pack_any(uint16_t *dst, const uint16_t *src, int64_t is, int64_t ks, int64_t n,
                     int64_t nk) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < TS_AMX_STEPS; k++)
      dst[i * TS_AMX_STEPS + k] = k < nk ? src[i * is + k * ks] : 0;
}

static void pack_rows(void *dst, const uint16_t *src, int64_t is, int64_t ks, int64_t n,
                      int64_t nk) {
  uint16_t *d = dst;
  for (int64_t k = 0; k < nk; k += TS_AMX_STEPS, d += TS_AMX_ROWS * TS_AMX_STEPS) {
    const uint16_t *x = src + k * ks;
    if (ks == 1) {
      pack_along(d, x, is, n, nk - k);
    } else if (is == 1) {
      pack_across(d, x, ks, n, nk - k);
      if (n > 16) pack_across(d + 16 * TS_AMX_STEPS, x + 16, ks, n - 16, nk - k);
    } else {
      pack_any(d, x, is, ks, n, nk - k);
    }
  }
}
#endif

void TS_ISA(ts_kernels_gemm_amx)(TsGemmAmxKernels *k) {
  *k = (TsGemmAmxKernels){.open = NULL};
#if defined TS_ISA_avx512
  if (!__builtin_cpu_supports("avx512bf16") || !has_amx()) return;
  k->open = open_amx;
  k->close = close_amx;
  k->block = block;
  k->pack_rows = pack_rows;
#endif
}
