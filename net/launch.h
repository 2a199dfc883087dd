/* Who has started this process, and as which of how many: what launchers write into the
 * environment. Nothing is started here. */
#ifndef TS_NET_LAUNCH_H
#define TS_NET_LAUNCH_H

#include <stdbool.h>

typedef enum TsLauncherKind {
  TS_LAUNCHER_none, /* this process is alone */
  TS_LAUNCHER_openmpi,
  TS_LAUNCHER_mpich, /* any that speaks PMI */
  TS_LAUNCHER_slurm,
  TS_LAUNCHER_torchrun, /* or whoever sets RANK and WORLD_SIZE */
} TsLauncherKind;

typedef struct TsLaunched {
  TsLauncherKind kind;
  const char *name;           /* "mpirun of Open MPI" */
  int rank, size;             /* of the job */
  int local_rank, local_size; /* on this host; -1: not told */
  bool mpi;                   /* it connects processes of MPI */
} TsLaunched;

TsLaunched ts_launched(void);

#endif
