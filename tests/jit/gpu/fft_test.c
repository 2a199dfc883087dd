/* Kernels of Fourier transforms for GPUs: legal, their text reads back, and PTX of each is
 * taken by ptxas where there is one. "print n kind inner batch [type part]" prints the PTX of
 * one, "tile ..." its Tile IR. PTXAS=1 prints registers. Bits are compared by
 * tests/devices/agree.lua. */
#include "ir/lower/fft/tile.h"
#include "ir/tile/text.h"
#include "jit/compile/llvm.h"
#include "jit/gpu/gpu.h"
#pragma GCC diagnostic ignored "-Wunused-function"
#include "tests/jit/gpu/ptxas.h"
#include "vm/core/kernels.h"
#include "vm/fft/plan.h"

static int failed;

static void say(const TsFftForm *f, const char *what) {
  printf("kind %d type %d n %lld inner %lld batch %lld: %s\n", f->kind, f->type,
         (long long)f->n, (long long)f->inner, (long long)f->batch, what);
}

static bool made(const TsFftForm *f, TsFftTile *t) {
  TsError err = {0};
  if (!ts_fft_tile(f, t, &err) && !ts_tile_check(t->tile, NULL, &err)) return true;
  return failed++, say(f, err.message), false;
}

static void reads_back(const TsFftForm *f, const TsTile *k) {
  TsText text = {0}, why = {0};
  TsError err = {0};
  ts_tile_text(k, &text);
  TsTile *again = ts_tile_parse(text.at, &err);
  if (!again)
    failed++, say(f, err.message);
  else if (!ts_tile_equal(k, again, &why))
    failed++, say(f, why.at);
  ts_tile_free(again);
  ts_text_free(&text);
  ts_text_free(&why);
}

static void one(const TsFftForm *f, bool ptxas) {
  TsFftTile t;
  TsGpuCode code;
  TsError err = {0};
  if (!made(f, &t)) return;
  reads_back(f, t.tile);
  if (ts_gpu_code(t.tile, ts_target("sm_90a"), TS_GPU_aligned, &code, &err)) {
    failed++, say(f, err.message);
  } else {
    TsText ptx = {.at = code.image,
                  .len = code.size - (code.size && !code.image[code.size - 1])};
    Assembled a = {.spills = 0};
    char line[160];
    if (ptxas) a = assemble(&ptx, "sm_90a");
    if (*a.complaint) failed++, say(f, a.complaint);
    snprintf(line, sizeof line, "%d threads, %u shared, %d registers, %d spilled, %.0f ms, %zu",
             code.phase[code.nphase - 1].threads, code.phase[code.nphase - 1].shared,
             a.registers, a.spills, code.usec / 1e3, code.size);
    if (getenv("PTXAS")) say(f, line);
    ts_gpu_code_free(&code);
  }
  ts_tile_free(t.tile);
  free(t.table);
}

static void all_parts(TsFftForm *f, bool ptxas) {
  int part[3];
  int64_t length;
  TsError err = {0};
  int n = ts_fft_parts(f, part, &length, &err);
  if (n < 0) failed++, say(f, err.message);
  for (int i = 0; i < n; i++) f->part = part[i], one(f, ptxas);
}

/* 64 numbers a thread: 96 registers, which a few loads are content with, spill. */
static void columns_have_registers(void) {
  TsFftForm f = {.n = 4096, .in_n = 4096, .inner = 4096, .batch = 1, .scale = 1};
  TsFftTile t;
  TsText ptx = {0};
  TsError err = {0};
  if (!made(&f, &t)) return;
  if (ts_gpu_text(t.tile, ts_target("sm_90a"), "asm", &ptx, &err))
    failed++, say(&f, err.message);
  else if (strstr(ptx.at, "maxnreg"))
    failed++, say(&f, "is limited in registers");
  ts_text_free(&ptx);
  ts_tile_free(t.tile);
  free(t.table);
}

int main(int argc, char **argv) {
  static const int64_t length[] = {1, 8, 60, 61, 67, 1000, 1024, 4096, 16384};
  static const int64_t of_parts[] = {50000, 60013, 1 << 20}; /* one of them prime */
  ts_fft_plan_serve(&ts_kernels_use(NULL)->fft);
  if (argc > 5) {
    TsFftForm f = {.kind = atoi(argv[3]),
                   .n = atoll(argv[2]),
                   .inner = atoll(argv[4]),
                   .batch = atoll(argv[5]),
                   .scale = 0.5};
    TsFftTile t;
    TsError err = {0};
    TsText text = {0};
    f.in_n = f.kind == TS_FFT_c2r ? f.n / 2 + 1 : f.n;
    f.inverse = f.kind == TS_FFT_c2r;
    f.type = argc > 6 && !strcmp(argv[6], "f64");
    f.part = argc > 7 ? atoi(argv[7]) : 0;
    if (!strcmp(argv[1], "one")) return setenv("PTXAS", "1", 1), one(&f, has_ptxas()), failed;
    if (!made(&f, &t)) return 1;
    if (!strcmp(argv[1], "tile"))
      ts_tile_text(t.tile, &text);
    else if (ts_gpu_text(t.tile, ts_target("sm_90a"), argv[1][0] == 'l' ? "llvm" : "asm", &text,
                         &err))
      puts(err.message);
    puts(text.at ? text.at : "");
    return 0;
  }
  if (!ts_llvm_present()) return skip("no LLVM");
  bool ptxas = has_ptxas();
  for (size_t i = 0; i < sizeof length / sizeof *length; i++)
    for (int kind = TS_FFT_c2c; kind <= TS_FFT_c2r; kind++)
      for (int inner = 1; inner <= 3 && length[i] < 4096; inner += 2) {
        int64_t n = length[i];
        TsFftForm f = {.kind = kind, .n = n, .inner = inner, .batch = 8, .scale = 0.5};
        f.in_n = kind == TS_FFT_c2r ? n / 2 + 1 : n;
        f.inverse = kind == TS_FFT_c2r;
        f.type = i % 3 == 2;
        one(&f, ptxas && (inner == 1 || getenv("PTXAS")));
      }
  for (int kind = TS_FFT_c2c; kind <= TS_FFT_c2r; kind++)
    for (size_t i = 0; i < sizeof of_parts / sizeof *of_parts; i++)
      for (int inner = 1; inner <= 1024; inner += 1023) {
        TsFftForm f = {
            .kind = kind, .n = of_parts[i], .inner = inner, .batch = 1, .scale = 0.5};
        f.in_n = kind == TS_FFT_c2r ? f.n / 2 + 1 : f.n;
        f.inverse = kind == TS_FFT_c2r;
        f.type = of_parts[i] == 50000;
        all_parts(&f, ptxas && of_parts[i] == 1 << 20);
      }
  columns_have_registers();
  return failed != 0;
}
