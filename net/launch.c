/* See net/launch.h. */
#include "net/launch.h"

#include <stdlib.h>
#include <string.h>

static int number(const char *name) {
  const char *s = getenv(name);
  char *end;
  long v = s ? strtol(s, &end, 10) : -1;
  return s && end != s && v >= 0 && v < 1 << 20 ? (int)v : -1;
}

/* SLURM_TASKS_PER_NODE is "4(x2),3": hosts with equal numbers in a row. That of host i, or -1. */
static int tasks_of(const char *list, int host) {
  for (const char *s = list; s && *s;) {
    char *end;
    long tasks = strtol(s, &end, 10), times = 1;
    if (end == s) return -1;
    if (!strncmp(end, "(x", 2)) {
      times = strtol(end + 2, &end, 10);
      if (*end == ')') end++;
    }
    if (host < times) return (int)tasks;
    host -= (int)times;
    s = *end == ',' ? end + 1 : end;
    if (s == end && *end) return -1;
  }
  return -1;
}

/* A launcher's variables: rank, size, and those of the host. */
typedef struct Row {
  TsLauncherKind kind;
  const char *name, *rank, *size, *local_rank, *local_size;
  bool mpi;
} Row;

/* In this order: srun and torchrun may start mpirun's variables nowhere, but mpirun within an
 * allocation of Slurm sees those of Slurm, too. */
static const Row rows[] = {
    {TS_LAUNCHER_openmpi, "mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", true},
    {TS_LAUNCHER_torchrun, "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
     false},
    {TS_LAUNCHER_mpich, "mpirun (PMI)", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS", true},
    {TS_LAUNCHER_slurm, "srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "",
     true},
};

TsLaunched ts_launched(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const Row *r = &rows[i];
    TsLaunched l = {r->kind,
                    r->name,
                    number(r->rank),
                    number(r->size),
                    number(r->local_rank),
                    number(r->local_size),
                    r->mpi};
    if (l.rank < 0 || l.size < 1 || l.rank >= l.size) continue;
    if (l.kind == TS_LAUNCHER_slurm) {
      /* A step of one task is the shell of an allocation as well. */
      l.local_size = tasks_of(getenv("SLURM_STEP_TASKS_PER_NODE"), number("SLURM_NODEID"));
      if (l.size == 1) continue;
    }
    return l;
  }
  return (TsLaunched){
      .kind = TS_LAUNCHER_none, .name = "no launcher", .size = 1, .local_size = 1};
}
