/* The worker for the machine's limits: `machine THREADS`.
 *   bench copy WAY BYTES  between two blocks, by memcpy or stream; read: reading only;
 *                        fetched: stream with fetching ahead;
 *                        widen: writing each line that is read twice; squares, rows:
 *                        the traffic of a transposed copy and of a norm, without their
 *                        arithmetic (BYTES, of what is written if anything is, are a
 *                        multiple of 256 for each thread, of 2^21 for the last two)
 *   bench flops f32|f64|bf16  independent fused multiply-adds on registers: the time
 *                        of a thousand million operations
 *   start run ARGV...    a whole process:          ok SECONDS PEAK_KIB
 *   start prompt ARGV... until its prompt stands:  ok SECONDS PEAK_KIB */
#define _GNU_SOURCE /* processors of threads */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined __SSE2__
#include <immintrin.h>
#endif

#include "worker.h"

enum { MAX_THREADS = 64, CHAINS = 14, FMAS = 1 << 18 };

static int nthreads = 1;

/* ---- threads that run the same work and wait for each other */
typedef struct Team {
  void (*work)(struct Team *t, int thread);
  char *from, *to;
  size_t nbytes;
  atomic_int round, waiting; /* rounds begun; threads still at work */
  pthread_t thread[MAX_THREADS];
  bool stop;
  double sink[MAX_THREADS];
} Team;

typedef struct Seat {
  Team *team;
  int thread;
} Seat;

/* A thread that wakes another tends to get it on its own processor, where the two then take
 * turns: each has one of its own. */
static void settle(int thread) {
  cpu_set_t all, one;
  int left = thread;
  if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < nthreads) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &all) || left-- > 0) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    return;
  }
}

/* Waking a thread that sleeps takes as long as some rows: it looks for work for a while
 * first, and sleeps where the turn is over. */
enum { LOOKS = 300000 };

static void wait_while(atomic_int *a, int value) {
  for (int i = 0; atomic_load_explicit(a, memory_order_acquire) == value; i++)
    if (i >= LOOKS) usleep(50);
}

static void *sit(void *arg) {
  Seat s = *(Seat *)arg;
  free(arg);
  settle(s.thread);
  for (int round = 0;; round++) {
    wait_while(&s.team->round, round);
    if (s.team->stop) return NULL;
    s.team->work(s.team, s.thread);
    atomic_fetch_sub_explicit(&s.team->waiting, 1, memory_order_release);
  }
}

static Team *team_new(void (*work)(Team *t, int thread)) {
  Team *t = calloc(1, sizeof *t);
  t->work = work;
  for (int i = 1; i < nthreads; i++) {
    Seat *s = malloc(sizeof *s);
    *s = (Seat){t, i};
    pthread_create(&t->thread[i], NULL, sit, s);
  }
  return t;
}

static void team_run(void *arg) {
  Team *t = arg;
  cpu_set_t all;
  sched_getaffinity(0, sizeof all, &all);
  settle(0);
  atomic_store(&t->waiting, nthreads - 1);
  atomic_fetch_add_explicit(&t->round, 1, memory_order_release);
  t->work(t, 0);
  while (atomic_load_explicit(&t->waiting, memory_order_acquire)) continue;
  sched_setaffinity(0, sizeof all, &all);
}

static void team_drop(void *arg) {
  Team *t = arg;
  t->stop = true;
  atomic_fetch_add_explicit(&t->round, 1, memory_order_release);
  for (int i = 1; i < nthreads; i++) pthread_join(t->thread[i], NULL);
  free(t->from), free(t->to), free(t);
}

/* ---- the limits */
#if defined __AVX512F__
enum { WIDTH = 64 };
#elif defined __AVX__
enum { WIDTH = 32 };
#else
enum { WIDTH = 16 };
#endif
typedef float Floats __attribute__((vector_size(WIDTH)));
typedef double Doubles __attribute__((vector_size(WIDTH)));

static void scan(Team *t, int thread) {
  size_t part = t->nbytes / (size_t)nthreads / WIDTH, at = part * (size_t)thread;
  const Floats *from = (const Floats *)t->from + at;
  Floats sum[4] = {{0}, {0}, {0}, {0}};
  for (size_t i = 0; i + 4 <= part; i += 4) {
    sum[0] += from[i], sum[1] += from[i + 1];
    sum[2] += from[i + 2], sum[3] += from[i + 3];
  }
  sum[0] += sum[1] + sum[2] + sum[3];
  t->sink[thread] = (double)sum[0][0];
}

/* CHAINS independent chains, each in a register of its own, hide the latency of the units: a Zen 5
 * takes 6 cycles for pairs of bf16 and begins two each, so 12 would be just too few. */
#define EACH(X)  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#define CHAIN(i) v##i = a + i,
#define STEP(i)                                                                                \
  v##i = v##i * a + b;                                                                         \
  __asm__("" : "+x"(v##i));
#define ADD(i) sum += v##i;
#define FMA_LOOP(Vector)                                                                       \
  Vector a = (Vector){0} + 1, b = a / 1024, sum = a;                                           \
  a -= b;                                                                                      \
  Vector EACH(CHAIN) unused;                                                                   \
  for (int i = 0; i < FMAS; i++) {                                                             \
    EACH(STEP)                                                                                 \
  }                                                                                            \
  (void)unused;                                                                                \
  EACH(ADD)                                                                                    \
  t->sink[thread] = (double)sum[0];

static void copy(Team *t, int thread) {
  size_t part = t->nbytes / (size_t)nthreads, at = part * (size_t)thread;
  memcpy(t->to + at, t->from + at, part);
}

/* By stores that go past the caches: the destination is not read first, which
 * memcpy does where the C library takes the caches for larger than they are. */
static void stream(Team *t, int thread) {
  size_t part = t->nbytes / (size_t)nthreads, at = part * (size_t)thread;
#if defined __AVX512F__
  for (size_t i = at; i < at + part; i += 256)
    for (size_t k = i; k < i + 256; k += 64)
      _mm512_stream_ps((float *)(t->to + k), _mm512_load_ps((const float *)(t->from + k)));
  _mm_sfence();
#elif defined __SSE2__
  for (size_t i = at; i < at + part; i += 16)
    _mm_stream_ps((float *)(t->to + i), _mm_load_ps((const float *)(t->from + i)));
  _mm_sfence();
#else
  memcpy(t->to + at, t->from + at, part);
#endif
}

static void stream_line(char *to, const char *from) {
#if defined __AVX512F__
  _mm512_stream_ps((float *)to, _mm512_load_ps((const float *)from));
#elif defined __SSE2__
  for (int i = 0; i < 64; i += 16)
    _mm_stream_ps((float *)(to + i), _mm_load_ps((const float *)(from + i)));
#else
  memcpy(to, from, 64);
#endif
}

/* stream() with the lines 2 KiB ahead on their way to the first cache. */
static void fetched(Team *t, int thread) {
  size_t part = t->nbytes / (size_t)nthreads, at = part * (size_t)thread;
  for (size_t i = at; i < at + part; i += 64) {
    __builtin_prefetch(t->from + i + 2048, 0, 3);
    stream_line(t->to + i, t->from + i);
  }
}

/* Stores are past the caches as in stream(), twice as many as loads. */
static void widen(Team *t, int thread) {
  size_t part = t->nbytes / (size_t)nthreads, at = part * (size_t)thread;
#if defined __AVX512F__
  for (size_t i = at; i < at + part; i += 128) {
    __m512 line = _mm512_load_ps((const float *)(t->from + i / 2));
    _mm512_stream_ps((float *)(t->to + i), line);
    _mm512_stream_ps((float *)(t->to + i + 64), line);
  }
  _mm_sfence();
#elif defined __SSE2__
  for (size_t i = at; i < at + part; i += 32) {
    __m128 x = _mm_load_ps((const float *)(t->from + i / 2));
    _mm_stream_ps((float *)(t->to + i), x);
    _mm_stream_ps((float *)(t->to + i + 16), x);
  }
  _mm_sfence();
#else
  memcpy(t->to + at, t->from + at / 2, part / 2);
  memcpy(t->to + at + part / 2, t->from + at / 2, part / 2);
#endif
}

/* Rows of both blocks are 16 KiB. */
enum { ROW = 1 << 14, LINE = 64, SIDE = 4 * LINE };

/* What a transpose of 4-byte elements moves: squares of 64 by 64 from their place to the place
 * across the diagonal, each row of a square 4 lines, the square below on its way meanwhile. No
 * element changes its place in a line. */
static void squares(Team *t, int thread) {
  size_t rows = t->nbytes / ROW, part = ROW / (size_t)nthreads / SIDE * SIDE;
  for (size_t c = part * (size_t)thread; c < part * (size_t)(thread + 1); c += SIDE)
    for (size_t r = 0; r + 64 <= rows; r += 64) {
      const char *from = t->from + r * ROW + c;
      char *to = t->to + c / 4 % rows * ROW + r * 4 % ROW;
      const char *next = r + 128 <= rows ? from + 64 * ROW : t->from + (c + SIDE) % ROW;
      for (size_t i = 0; i < 64; i++)
        for (size_t k = 0; k < SIDE; k += LINE) __builtin_prefetch(next + i * ROW + k, 0, 2);
      for (size_t i = 0; i < 64; i++)
        for (size_t k = 0; k < SIDE; k += LINE)
          stream_line(to + i * ROW + k, from + i * ROW + k);
    }
}

/* What a norm over rows moves: a row is read whole, then read again and written, with the next
 * row on its way. The sum keeps the first reading. */
static void rows(Team *t, int thread) {
  size_t part = t->nbytes / (size_t)nthreads / ROW * ROW, at = part * (size_t)thread;
  Floats sum[4] = {{0}, {0}, {0}, {0}};
  for (size_t r = at; r < at + part; r += ROW) {
    const Floats *x = (const Floats *)(t->from + r);
    const char *next = t->from + (r + 2 * ROW <= t->nbytes ? r + ROW : 0);
    for (size_t i = 0; i < ROW / WIDTH; i += 4)
      for (size_t k = 0; k < 4; k++) sum[k] += x[i + k];
    for (size_t k = 0; k < ROW; k += LINE) {
      __builtin_prefetch(next + k, 0, 2);
      stream_line(t->to + r + k, t->from + r + k);
    }
  }
  sum[0] += sum[1] + sum[2] + sum[3];
  t->sink[thread] = (double)sum[0][0];
}

static void fmas_f32(Team *t, int thread) { FMA_LOOP(Floats) }
static void fmas_f64(Team *t, int thread) { FMA_LOOP(Doubles) }
#if defined __AMX_BF16__
/* Two by two registers of sums, rows and columns from the first cache. What the bits are
 * decides the power and so the clock: zeros are multiplied twice as fast as random numbers. */
enum { PRODUCTS = 4, PRODUCT = 16 * 16 * 32, TURNS = 1 << 13, TILE = 512, TILES = 16 };

static uint16_t *random_tiles(void) {
  uint16_t *x = aligned_alloc(64, 2 * TILES * TILE * sizeof *x);
  uint64_t state = 88172645463325252u;
  for (int i = 0; i < 2 * TILES * TILE; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x[i] = (uint16_t)((state >> 32 & 0x80ff) | 0x3f00); /* 0.5 to 2, either sign */
  }
  return x;
}

/* The system gives the unit's registers to who asks (arch_prctl, ARCH_REQ_XCOMP_PERM). */
static bool may_use_unit(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

static void unit_bf16(Team *t, int thread) {
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config = {.palette = 1};
  uint16_t *x = random_tiles(), *y = x + TILES * TILE;
  for (int i = 0; i < 8; i++) config.row_bytes[i] = 64, config.rows[i] = 16;
  __asm__ volatile("" : : "m"(config)); /* the intrinsic says that it reads 8 bytes */
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int i = 0; i < TURNS; i++) {
    int at = i * 2 % TILES * TILE;
    _tile_loadd(4, x + at, 64);
    _tile_loadd(6, y + at, 64);
    _tile_loadd(7, y + at + TILE, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, x + at + TILE, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  free(x);
  t->sink[thread] = 0;
}
#endif
#if defined __AVX512BF16__
#undef STEP
#define STEP(i)                                                                                \
  v##i = (Floats)_mm512_dpbf16_ps((__m512)v##i, pair, pair);                                   \
  __asm__("" : "+x"(v##i));
static void fmas_bf16(Team *t, int thread) {
  __m512bh pair = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1), _mm512_set1_ps(1));
  FMA_LOOP(Floats)
}
#endif

static char *new_block(size_t nbytes) {
  enum { HUGE_PAGE = 1 << 21 };
  char *at = aligned_alloc(HUGE_PAGE, (nbytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
  madvise(at, nbytes, MADV_HUGEPAGE);
  memset(at, 1, nbytes);
  return at;
}

static Row setup(int nwords, char **word) {
  Row r = {team_run, NULL, team_drop, NULL, 1};
  if (nwords == 3 && !strcmp(word[0], "copy")) {
    static const struct {
      const char *word;
      void (*work)(Team *, int);
    } way[] = {{"memcpy", copy}, {"stream", stream},   {"read", scan}, {"fetched", fetched},
               {"widen", widen}, {"squares", squares}, {"rows", rows}};
    enum { WAYS = sizeof way / sizeof *way };
    int i = 0;
    while (i < WAYS && strcmp(word[1], way[i].word)) i++;
    if (i == WAYS) return (Row){0};
    Team *t = r.arg = team_new(way[i].work);
    t->nbytes = (size_t)atol(word[2]);
    t->from = new_block(t->nbytes);
    t->to = new_block(t->nbytes);
    return r;
  }
  if (nwords == 2 && !strcmp(word[0], "flops")) {
    bool wide = !strcmp(word[1], "f64"), pairs = !strcmp(word[1], "bf16");
    void (*work)(Team *, int) = wide ? fmas_f64 : fmas_f32;
#if defined __AVX512BF16__
    if (pairs) work = fmas_bf16;
#else
    if (pairs) return (Row){0};
#endif
    r.arg = team_new(work);
    int lanes = WIDTH / (wide ? 8 : pairs ? 2 : 4) * nthreads;
    r.scale = 1e9 / (2.0 * CHAINS * FMAS * lanes);
#if defined __AMX_BF16__
    if (pairs && may_use_unit()) {
      ((Team *)r.arg)->work = unit_bf16;
      r.scale = 1e9 / (2.0 * PRODUCTS * PRODUCT * TURNS * nthreads);
    }
#endif
    return r;
  }
  return (Row){0};
}

/* ---- whole processes. The parent is small, so the child's peak is its own. */
static void run_program(char **argv) {
  double start = wall_now();
  pid_t pid = fork();
  if (pid == 0) {
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0), dup2(null, 1), dup2(null, 2);
    execvp(argv[0], argv);
    _exit(127);
  }
  int status;
  struct rusage use;
  wait4(pid, &status, 0, &use);
  double time = wall_now() - start;
  if (status)
    printf("fail %s ended with status %d\n", argv[0], status);
  else
    printf("ok %.9g %ld\n", time, use.ru_maxrss);
}

static long peak_kib(pid_t pid) {
  char path[64], line[256];
  long kib = 0;
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, "VmHWM:", 6)) kib = atol(line + 6);
  if (f) fclose(f);
  return kib;
}

/* Reads until "> " stands at the end of what the program wrote, controls aside; false
 * when it ends or is silent for a second. */
static bool see_prompt(int terminal) {
  char seen[2] = {0, 0}, buffer[512];
  bool escape = false;
  struct pollfd p = {terminal, POLLIN, 0};
  while (poll(&p, 1, 1000) > 0) {
    ssize_t n = read(terminal, buffer, sizeof buffer);
    if (n <= 0) return false;
    for (ssize_t i = 0; i < n; i++) {
      char c = buffer[i];
      if (c == 27) {
        escape = true;
      } else if (!escape && c >= 32) {
        seen[0] = seen[1], seen[1] = c;
      } else if (escape && c >= '@' && c != '[') {
        escape = false;
      }
    }
    if (seen[0] == '>' && seen[1] == ' ') return true;
  }
  return false;
}

static void run_prompt(char **argv) {
  int terminal;
  struct winsize size = {.ws_row = 24, .ws_col = 80};
  double start = wall_now();
  pid_t pid = forkpty(&terminal, NULL, NULL, &size);
  if (pid == 0) {
    setenv("TERM", "xterm", 1);
    execvp(argv[0], argv);
    _exit(127);
  }
  bool seen = see_prompt(terminal);
  double time = wall_now() - start;
  long kib = peak_kib(pid);
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  close(terminal);
  if (seen)
    printf("ok %.9g %ld\n", time, kib);
  else
    printf("fail %s shows no prompt\n", argv[0]);
}

/* An "@" within a word stands for a space. */
static bool start(int nwords, char **word) {
  if (nwords < 3 || strcmp(word[0], "start")) return false;
  for (int i = 3; i < nwords; i++)
    for (char *p = word[i]; *p; p++)
      if (*p == '@') *p = ' ';
  if (!strcmp(word[1], "prompt"))
    run_prompt(word + 2);
  else
    run_program(word + 2);
  return true;
}

int main(int argc, char **argv) {
  if (argc > 1) nthreads = atoi(argv[1]);
  if (nthreads < 1 || nthreads > MAX_THREADS) nthreads = 1;
  worker_serve(setup, start);
  return 0;
}
