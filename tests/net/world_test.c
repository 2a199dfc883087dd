/* Processes that find each other and exchange bytes: over each MPI that is installed, started by its
 * own mpirun, and over a library that stands for NCCL (fake_nccl.c), by the launcher's variables.
 * Called with "ranks" it is one of these processes. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "net/flight.h"
#include "net/launch.h"
#include "net/world.h"
#include "tests/skip.h"

static int bad;
static TsError err;

#define CHECK(x)                                                                               \
  do {                                                                                         \
    if (!(x)) {                                                                                \
      printf("%s:%d: rank %d: %s: %s\n", __FILE__, __LINE__, ts_world_rank(), #x,              \
             err.message);                                                                     \
      fflush(stdout);                                                                          \
      bad = 1;                                                                                 \
    }                                                                                          \
  } while (0)

/* ---- as a rank */
static bool gpu;
static TsDevice *device;

static TsWorldWhat what(const char *text, const char *place) {
  TsWorldWhat w = {{0}, {0}};
  snprintf(w.what, sizeof w.what, "%s", text);
  snprintf(w.place, sizeof w.place, "%s", place);
  return w;
}

static unsigned char byte_of(int from, int to, int round, int64_t i) {
  return (unsigned char)((uint64_t)(from * 7 + to * 13 + round * 101 + i * 31) % 251);
}

static int64_t size_of(int from, int to, int round) {
  static const int64_t sizes[] = {0, 1, 17, 4096, 100003, 3000017};
  return sizes[(from * 3 + to + round) % 6];
}

static void *room(int64_t n) {
  if (gpu) return n ? device->alloc(device, n, &err) : NULL;
  return malloc((size_t)n + 1);
}

static void let_go(void *at, int64_t n) {
  if (!gpu) return free(at);
  if (n) device->free(device, at, n);
}

/* Everybody to everybody, of sizes that differ, two messages for each pair. */
static void test_all_to_all(int round, bool by_gpu) {
  int n = ts_world_size(), me = ts_world_rank(), k = 0;
  TsTransfer *list = calloc((size_t)(2 * n * n), sizeof *list);
  for (int from = 0; from < n; from++)
    for (int to = 0; to < n; to++)
      for (int twice = 0; twice < 2; twice++, k++) {
        TsTransfer *x = &list[k];
        *x = (TsTransfer){from, to, device->index, NULL, size_of(from, to, round + twice)};
        if (from == to || (from != me && to != me)) continue;
        x->at = room(x->nbytes);
        unsigned char *host = malloc((size_t)x->nbytes + 1);
        for (int64_t i = 0; i < x->nbytes; i++)
          host[i] = from == me ? byte_of(from, to, round + twice, i) : 0;
        if (gpu && x->nbytes)
          CHECK(!device->upload(device, x->at, host, x->nbytes, &err));
        else if (x->nbytes)
          memcpy(x->at, host, (size_t)x->nbytes);
        free(host);
      }
  TsWorldWhat w = what("all_to_all of a test", "here:1");
  CHECK(!ts_world_exchange(&w, 0, k, list, by_gpu, &err));
  for (int j = 0; j < k; j++) {
    TsTransfer *x = &list[j];
    int64_t wrong = 0;
    if (!x->at) continue;
    unsigned char *host = malloc((size_t)x->nbytes + 1);
    if (gpu)
      CHECK(!device->download(device, host, x->at, x->nbytes, &err));
    else
      memcpy(host, x->at, (size_t)x->nbytes);
    for (int64_t i = 0; i < x->nbytes; i++)
      wrong += host[i] != byte_of(x->from, x->to, round + j % 2, i);
    CHECK(!wrong);
    free(host);
    let_go(x->at, x->nbytes);
  }
  free(list);
}

static void test_gather(void) {
  int n = ts_world_size(), *all = calloc((size_t)n, sizeof *all), own = 100 + ts_world_rank();
  TsWorldWhat w = what("records", "here:2");
  CHECK(!ts_world_gather(&w, &own, all, sizeof own, &err));
  for (int r = 0; r < n; r++) CHECK(all[r] == 100 + r);
  free(all);
}

/* From both neighbours, to both. */
static int ring(const char *text, const char *place) {
  int n = ts_world_size(), me = ts_world_rank();
  unsigned char own[100], got[2][100];
  TsTransfer list[64];
  for (int r = 0; r < n; r++)
    for (int way = 0; way < 2; way++) {
      int to = (r + (way ? 1 : n - 1)) % n;
      list[2 * r + way] = (TsTransfer){r, to, 0,
                                       r == me    ? own
                                       : to == me ? got[way]
                                                  : NULL,
                                       sizeof own};
    }
  memset(own, me, sizeof own);
  TsWorldWhat w = what(text, place);
  if (ts_world_exchange(&w, 0, 2 * n, list, false, &err)) return -1;
  ts_world_done();
  for (size_t i = 0; i < sizeof own; i++)
    if (got[1][i] != (me + n - 1) % n || got[0][i] != (me + 1) % n) return -1;
  return 0;
}

/* One rank comes to something else: it and its neighbours are told, by both lines. */
static void test_mismatch(void) {
  int n = ts_world_size(), me = ts_world_rank();
  int failed = ring(me == 1 ? "all_gather of left" : "all_reduce of right",
                    me == 1 ? "a.lua:7" : "b.lua:9");
  bool beside = me == 0 || me == 1 || me == 2 % n;
  if (beside) {
    CHECK(failed);
    CHECK(strstr(err.message, "rank 1 (") &&
          strstr(err.message, "all_gather of left (a.lua:7)"));
    CHECK(strstr(err.message, "all_reduce of right (b.lua:9)"));
  }
  ts_error_clear(&err);
}

static void test_death(void) {
  int me = ts_world_rank(), n = ts_world_size();
  for (int i = 0; i < 20; i++) CHECK(!ring("permute of x", "c.lua:1"));
  usleep(300000); /* launchers have answered what MPI asks them at its start */
  if (me == n - 1) {
    fflush(stdout);
    kill(getpid(), SIGKILL);
  }
  int failed = ring("permute of y", "c.lua:2");
  char name[40];
  snprintf(name, sizeof name, "rank %d (", n - 1);
  if (me == 0 || me == n - 2) {
    CHECK(failed && strstr(err.message, name) && strstr(err.message, "is dead"));
    CHECK(strstr(err.message, "permute of x (c.lua:1)"));
  }
  TsText t = {0};
  ts_error_clear(&err);
  CHECK(!ts_flight_text(ts_world_flight(), &t, &err));
  CHECK(t.at && strstr(t.at, "permute of x"));
  if (me == 0) CHECK(strstr(t.at, "dead") && strstr(t.at, "c.lua:2"));
  ts_text_free(&t);
}

/* Whether a rank has been told, which a file in the folder of flights says: it says it, or is
 * waited for. */
static void told(int rank, bool wait) {
  char path[300];
  snprintf(path, sizeof path, "%s/told-%d", getenv("TESSERA_FLIGHT"), rank);
  if (!wait) close(open(path, O_CREAT | O_WRONLY, 0600));
  for (int i = 0; wait && i < 12000 && access(path, R_OK); i++) usleep(10000);
}

/* A rank that stands still is given up, one that only takes long is waited for. */
static void test_stop(void) {
  int me = ts_world_rank(), n = ts_world_size();
  pid_t pid = getpid();
  if (me == 1 && fork() == 0) { /* wakes it again */
    told(0, true), told(2 % n, true);
    kill(pid, SIGCONT);
    _exit(0);
  }
  if (me == 1) kill(pid, SIGSTOP);
  int failed = ring("permute of z", "d.lua:1");
  if (me == 0 || me == 2 % n) {
    CHECK(failed && strstr(err.message, "rank 1 (") &&
          strstr(err.message, "stopped by a signal"));
    told(me, false);
  }
  if (me == 1) CHECK(failed && strstr(err.message, "gave it up"));
  ts_error_clear(&err);
}

static int ranks(const char *part, const char *transport) {
  if (!strcmp(transport, "nccl")) setenv("TESSERA_LIBCUDA", "self", 1);
  device = ts_device_find("cpu:0", &err);
  if (ts_world_open(&err)) return printf("rank: %s\n  hint: %s\n", err.message, err.hint), 1;
  if (strcmp(transport, "mpi")) { /* "nccl", or "gpu": a real one */
    char name[20];
    const TsWorldRank *own = ts_world_at(ts_world_rank());
    snprintf(name, sizeof name, "%s:%d", own->kind, own->gpu);
    device = ts_device_find(name, &err);
    gpu = device != NULL;
    CHECK(gpu && !ts_device_use(device, &err));
  }
  TsText t = {0};
  ts_world_text(&t);
  if (ts_world_rank() == 0) printf("%s\n", t.at), fflush(stdout);
  ts_text_free(&t);
  for (int r = 0; r < ts_world_size(); r++)
    CHECK(ts_world_at(r)->pid && ts_world_at(r)->host[0]);
  if (!strcmp(part, "bytes")) {
    test_gather();
    for (int round = 0; round < 6; round++) test_all_to_all(round, gpu);
    if (gpu) test_all_to_all(7, false);
    for (int i = 0; i < 200; i++) CHECK(!ring("many", "here:3"));
    test_gather();
  } else if (!strcmp(part, "mismatch")) {
    test_mismatch();
    for (int i = 0; i < 10; i++) CHECK(!ring("behind it", "here:4"));
  } else if (!strcmp(part, "death")) {
    test_death();
  } else if (!strcmp(part, "stop")) {
    test_stop();
  }
  printf("rank %d of %d %s\n", ts_world_rank(), ts_world_size(), bad ? "failed" : "is well");
  fflush(stdout);
  ts_world_close(!bad && strcmp(part, "death"), "");
  return bad;
}

/* ---- who starts them */
static char self[500], scratch[100];

static bool is_there(const char *program) {
  char line[600];
  snprintf(line, sizeof line, "command -v %s >/dev/null 2>&1", program);
  return system(line) == 0;
}

/* Runs a command line; says what it printed where `want` is not there so many times. */
static void run(const char *line, const char *want, int times) {
  static char said[1 << 16];
  char all[1500];
  snprintf(all, sizeof all, "TESSERA_FLIGHT=%s timeout 120 %s 2>&1", scratch, line);
  FILE *f = popen(all, "r");
  size_t n = f ? fread(said, 1, sizeof said - 1, f) : 0;
  said[n] = 0;
  if (f) pclose(f);
  int found = 0;
  for (char *s = said; (s = strstr(s, want)); s++) found++;
  if (found == times && !strstr(said, "failed")) return;
  printf("%s\n%s\n", all, said);
  bad = 1;
}

/* Of another launcher's ranks: who was told there would wake a rank that does not stand still yet. */
static void forget_told(void) {
  char path[300];
  for (int rank = 0; rank < 8; rank++) {
    snprintf(path, sizeof path, "%s/told-%d", scratch, rank);
    unlink(path);
  }
}

/* survive: how the launcher lets others live when one is killed; NULL: it cannot. */
static void test_mpi(const char *mpirun, const char *survive, int n, const char *environment) {
  char line[1200];
  static const char *const parts[] = {"bytes", "mismatch", "death", "stop"};
  for (int i = 0; i < (survive ? 4 : 2); i++) {
    snprintf(line, sizeof line, "env %s %s %s -n %d %s ranks %s mpi", environment, mpirun,
             survive ? survive : "", n, self, parts[i]);
    forget_told();
    run(line, "is well", i == 2 ? n - 1 : n);
  }
}

static bool build_fake(void) {
  char line[900];
  snprintf(line, sizeof line, "cc -shared -fPIC -w -o %s/libnccl.so.2 tests/net/fake_nccl.c",
           scratch);
  return system(line) == 0;
}

/* AMD's: the same functions in a library of another name, beside AMD's driver. */
static void test_rccl(void) {
  char line[2000];
  if (!is_there("cc")) return;
  snprintf(
      line, sizeof line,
      "cp %s/libnccl.so.2 %s/librccl.so.1 && cc -std=gnu11 -D_GNU_SOURCE -I. -shared -fPIC -w "
      "-o %s/hip.so tests/devices/driver/fake_hip.c",
      scratch, scratch, scratch);
  if (system(line)) return (void)(bad = 1);
  snprintf(line, sizeof line,
           "sh -c 'for r in 0 1; do RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 "
           "MASTER_ADDR=127.0.0.1 MASTER_PORT=29800 FAKE_NCCL=%s TESSERA_LIBHIP=%s/hip.so "
           "LD_LIBRARY_PATH=%s %s ranks bytes rccl & done; wait'",
           scratch, scratch, scratch, self);
  run(line, "is well", 2);
  run(line, ", RCCL 2.28.0", 1);
}

static void test_nccl(void) {
  char line[2000];
  const char *form =
      "sh -c 'for r in 0 1; do RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 "
      "MASTER_ADDR=127.0.0.1 MASTER_PORT=29%s FAKE_NCCL=%s TESSERA_NCCL=%s/libnccl.so.2 "
      "%s ranks %s nccl & done; wait'";
  if (!build_fake()) {
    skip("there is no C compiler for a library that stands for NCCL");
    return;
  }
  snprintf(line, sizeof line, form, "500", scratch, scratch, self, "bytes");
  run(line, "is well", 2);
  char log[300];
  snprintf(log, sizeof log, "cat %s/nccl-at-127.0.0.1:29501/log-1", scratch);
  run(log, "init 1 of 2\nsend 136 0", 0);
  run(log, "init 1 of 2", 1);
  run(log, "finalize\ndestroy", 1);
  snprintf(line, sizeof line, form, "600", scratch, scratch, self, "mismatch");
  run(line, "is well", 2);
  snprintf(line, sizeof line, form, "700", scratch, scratch, self, "death");
  run(line, "is well", 1);
  if (!is_there("mpirun.openmpi")) return;
  /* Started by mpirun, MPI tells the id, and carries what is not between GPUs. */
  snprintf(line, sizeof line,
           "env FAKE_NCCL=%s TESSERA_NCCL=%s/libnccl.so.2 mpirun.openmpi --allow-run-as-root "
           "--oversubscribe -n 2 %s ranks bytes nccl",
           scratch, scratch, self);
  run(line, "is well", 2);
  run(line, ", NCCL 2.28.0", 1);
  /* Where one has no NCCL, all do without. */
  snprintf(
      line, sizeof line,
      "env FAKE_NCCL=%s mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 sh -c "
      "'TESSERA_NCCL=%s/libnccl.so.$((2 + OMPI_COMM_WORLD_RANK)) exec %s ranks bytes nccl'",
      scratch, scratch, self);
  run(line, "NCCL", 0);
  run(line, "is well", 2);
}

static void test_launchers(void) {
  static const struct {
    const char *set;
    TsLauncherKind kind;
    int rank, size, local, of;
  } cases[] = {
      {"", TS_LAUNCHER_none, 0, 1, 0, 1},
      {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "
       "OMPI_COMM_WORLD_LOCAL_SIZE=2",
       TS_LAUNCHER_openmpi, 3, 4, 1, 2},
      {"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", TS_LAUNCHER_mpich, 1, 2, 1,
       2},
      {"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4", TS_LAUNCHER_torchrun, 5, 8, 1, 4},
      {"RANK=5 WORLD_SIZE=8", TS_LAUNCHER_torchrun, 5, 8, -1, -1},
      {"RANK=8 WORLD_SIZE=8", TS_LAUNCHER_none, 0, 1, 0, 1},
      {"RANK=x WORLD_SIZE=8", TS_LAUNCHER_none, 0, 1, 0, 1},
      {"SLURM_PROCID=9 SLURM_STEP_NUM_TASKS=11 SLURM_LOCALID=1 SLURM_NODEID=2 "
       "SLURM_STEP_TASKS_PER_NODE=4(x2),3",
       TS_LAUNCHER_slurm, 9, 11, 1, 3},
      {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0", TS_LAUNCHER_none, 0, 1, 0, 1},
      {"SLURM_PROCID=0 SLURM_NTASKS=4", TS_LAUNCHER_none, 0, 1, 0, 1},
      /* mpirun within an allocation */
      {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4",
       TS_LAUNCHER_openmpi, 1, 4, -1, -1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char set[300];
    snprintf(set, sizeof set, "%s", cases[i].set);
    clearenv();
    for (char *s = strtok(set, " "); s; s = strtok(NULL, " ")) putenv(s);
    TsLaunched l = ts_launched();
    if (l.kind != cases[i].kind || l.rank != cases[i].rank || l.size != cases[i].size ||
        l.local_rank != cases[i].local || l.local_size != cases[i].of)
      printf("%s: %s %d %d %d %d\n", cases[i].set, l.name, l.rank, l.size, l.local_rank,
             l.local_size),
          bad = 1;
  }
}

int main(int argc, char **argv) {
  if (argc > 3 && !strcmp(argv[1], "ranks")) return ranks(argv[2], argv[3]);
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = 0;
  snprintf(scratch, sizeof scratch, "/tmp/tessera-net-XXXXXX");
  if (!mkdtemp(scratch)) return perror(scratch), 1;
  const char *as_root = "--allow-run-as-root --oversubscribe";
  char line[300];
  snprintf(line, sizeof line, "mpirun.openmpi %s", as_root);
  if (is_there("mpirun.openmpi"))
    test_mpi(line, "--enable-recovery", 4, "");
  else
    skip("there is no mpirun of Open MPI");
  if (is_there("mpirun.mpich"))
    test_mpi("mpirun.mpich", NULL, 4, "");
  else
    skip("there is no mpirun of MPICH");
  if (access("build/python/lib/libmpi_abi.so.1", R_OK) == 0)
    test_mpi("build/python/bin/mpiexec", NULL, 3,
             "TESSERA_MPI=build/python/lib/libmpi_abi.so.1");
  else
    skip("there is no MPI of the standard interface in build/python");
  test_nccl();
  test_rccl();
  snprintf(line, sizeof line, "rm -rf %s", scratch);
  if (system(line)) bad = 1;
  test_launchers();
  return bad;
}
