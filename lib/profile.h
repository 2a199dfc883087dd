/* The profiles of numerics: what a rewrite or a kernel may change of a result's bits. */
#ifndef TS_LIB_PROFILE_H
#define TS_LIB_PROFILE_H

typedef enum TsProfile {
  TS_PROFILE_strict,        /* none: captured, compiled and on every device as the VM does it */
  TS_PROFILE_deterministic, /* roundings, the same ones in every run */
  TS_PROFILE_fast           /* and what is finite or not, and instructions that sum otherwise */
} TsProfile;

#endif
