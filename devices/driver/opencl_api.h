/* The part of OpenCL that opencl*.c use: handles, numbers and calls as Khronos
 * publishes them. Private to those. */
#ifndef TS_DEVICES_DRIVER_OPENCL_API_H
#define TS_DEVICES_DRIVER_OPENCL_API_H

#include <stddef.h>

#include "devices/driver/driver.h"

typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;
typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;

enum {
  CL_DEVICE_NOT_FOUND = -1,
  CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
  CL_OUT_OF_RESOURCES = -5,
  CL_OUT_OF_HOST_MEMORY = -6,
  CL_BUILD_PROGRAM_FAILURE = -11,
  CL_INVALID_BUFFER_SIZE = -61,
};
enum { CL_DEVICE_TYPE_CPU = 2, CL_DEVICE_TYPE_GPU = 4 };
static const cl_ulong CL_DEVICE_TYPE_ALL = 0xffffffff;
enum {
  CL_DEVICE_TYPE = 0x1000,
  CL_DEVICE_VENDOR_ID = 0x1001,
  CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
  CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
  CL_DEVICE_MAX_CLOCK_FREQUENCY = 0x100C, /* MHz */
  CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
  CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
  CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
  CL_DEVICE_NAME = 0x102B,
  CL_DEVICE_EXTENSIONS = 0x1030,
  CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
  CL_DEVICE_IL_VERSION = 0x105B,
  CL_DEVICE_KERNEL_CLOCK_CAPABILITIES = 0x1076,
  CL_DEVICE_SPIRV_EXTENSIONS_KHR = 0x12BA,   /* char pointers */
  CL_DEVICE_SPIRV_CAPABILITIES_KHR = 0x12BB, /* cl_uint */
  CL_DEVICE_SUB_GROUP_SIZES_INTEL = 0x4108,
};
/* Of a kind of floats: denormals; division and root rounded as IEEE has it. */
enum { CL_KERNEL_CLOCK_SCOPE_DEVICE = 1 };
enum { CL_FP_DENORM = 1, CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 128 };
enum { CL_QUEUE_PROPERTIES = 0x1093, CL_QUEUE_PROFILING_ENABLE = 2 };
enum { CL_PROGRAM_BUILD_LOG = 0x1183, CL_PROFILING_COMMAND_END = 0x1283 };

typedef void (*TsClNotify)(const char *text, const void *more, size_t n, void *arg);
typedef void (*TsClBuilt)(cl_program program, void *arg);

/* name, result, arguments */
#define TS_CL_CALLS(CALL)                                                                      \
  CALL(clGetPlatformIDs, cl_int, (cl_uint room, cl_platform_id * list, cl_uint * n))           \
  CALL(clGetDeviceIDs, cl_int,                                                                 \
       (cl_platform_id p, cl_ulong type, cl_uint room, cl_device_id * list, cl_uint * n))      \
  CALL(clGetDeviceInfo, cl_int,                                                                \
       (cl_device_id d, cl_uint what, size_t room, void *value, size_t *size))                 \
  CALL(clGetExtensionFunctionAddressForPlatform, void *, (cl_platform_id p, const char *name)) \
  CALL(clCreateContext, cl_context,                                                            \
       (const intptr_t *properties, cl_uint n, const cl_device_id *list, TsClNotify notify,    \
        void *arg, cl_int *code))                                                              \
  CALL(clReleaseContext, cl_int, (cl_context c))                                               \
  CALL(clCreateCommandQueueWithProperties, cl_command_queue,                                   \
       (cl_context c, cl_device_id d, const cl_ulong *properties, cl_int *code))               \
  CALL(clReleaseCommandQueue, cl_int, (cl_command_queue q))                                    \
  CALL(clFinish, cl_int, (cl_command_queue q))                                                 \
  CALL(clFlush, cl_int, (cl_command_queue q))                                                  \
  CALL(clCreateProgramWithIL, cl_program,                                                      \
       (cl_context c, const void *il, size_t nbytes, cl_int *code))                            \
  CALL(clCreateProgramWithSource, cl_program,                                                  \
       (cl_context c, cl_uint n, const char **text, const size_t *size, cl_int *code))         \
  CALL(clCompileProgram, cl_int,                                                               \
       (cl_program p, cl_uint n, const cl_device_id *list, const char *options, cl_uint nhead, \
        const cl_program *head, const char **name, TsClBuilt built, void *arg))                \
  CALL(clLinkProgram, cl_program,                                                              \
       (cl_context c, cl_uint n, const cl_device_id *list, const char *options, cl_uint nin,   \
        const cl_program *in, TsClBuilt built, void *arg, cl_int *code))                       \
  CALL(clBuildProgram, cl_int,                                                                 \
       (cl_program p, cl_uint n, const cl_device_id *list, const char *options,                \
        TsClBuilt built, void *arg))                                                           \
  CALL(clGetProgramBuildInfo, cl_int,                                                          \
       (cl_program p, cl_device_id d, cl_uint what, size_t room, void *value, size_t *size))   \
  CALL(clReleaseProgram, cl_int, (cl_program p))                                               \
  CALL(clCreateKernel, cl_kernel, (cl_program p, const char *name, cl_int *code))              \
  CALL(clReleaseKernel, cl_int, (cl_kernel k))                                                 \
  CALL(clSetKernelArg, cl_int, (cl_kernel k, cl_uint i, size_t size, const void *value))       \
  CALL(clEnqueueNDRangeKernel, cl_int,                                                         \
       (cl_command_queue q, cl_kernel k, cl_uint ndim, const size_t *offset,                   \
        const size_t *global, const size_t *local, cl_uint n, const cl_event *after,           \
        cl_event *out))                                                                        \
  CALL(clEnqueueMarkerWithWaitList, cl_int,                                                    \
       (cl_command_queue q, cl_uint n, const cl_event *after, cl_event *out))                  \
  CALL(clEnqueueBarrierWithWaitList, cl_int,                                                   \
       (cl_command_queue q, cl_uint n, const cl_event *after, cl_event *out))                  \
  CALL(clWaitForEvents, cl_int, (cl_uint n, const cl_event *list))                             \
  CALL(clReleaseEvent, cl_int, (cl_event e))                                                   \
  CALL(clGetEventProfilingInfo, cl_int,                                                        \
       (cl_event e, cl_uint what, size_t room, void *value, size_t *size))

/* Of the extension cl_intel_unified_shared_memory, asked of a platform. */
#define TS_CL_MEMORY_CALLS(CALL)                                                               \
  CALL(clDeviceMemAllocINTEL, void *,                                                          \
       (cl_context c, cl_device_id d, const cl_ulong *properties, size_t nbytes,               \
        cl_uint align, cl_int *code))                                                          \
  CALL(clMemBlockingFreeINTEL, cl_int, (cl_context c, void *at))                               \
  CALL(clSetKernelArgMemPointerINTEL, cl_int, (cl_kernel k, cl_uint i, const void *at))        \
  CALL(clEnqueueMemcpyINTEL, cl_int,                                                           \
       (cl_command_queue q, cl_uint wait, void *to, const void *from, size_t nbytes,           \
        cl_uint n, const cl_event *after, cl_event *out))

#define MEMBER(name, result, args) result(*name) args;
typedef struct TsClApi {
  TS_CL_CALLS(MEMBER)
} TsClApi;
typedef struct TsClMemoryApi {
  TS_CL_MEMORY_CALLS(MEMBER)
} TsClMemoryApi;
#undef MEMBER

extern TsClApi ts_cl;

/* TsDevice.state. */
typedef struct TsCl {
  TsDriven of; /* of which memory and the device's own order are used */
  cl_platform_id platform;
  cl_device_id device;
  TsClMemoryApi memory;
  bool cpu, f64, exact; /* exact: division and root of f32, if a program asks for it */
  bool clock;           /* kernels can read the device's */
  cl_context context;
  struct { /* of the device's streams, which synchronizing waits for */
    cl_command_queue *list;
    int n, room;
  } queues;
} TsCl;

/* ---- devices/driver/opencl.c */
const char *ts_cl_text(cl_int code);
/* Fills err with device, call, code and text; -1. */
int ts_cl_fail(TsDevice *d, cl_int code, const char *call, TsError *err);

/* A call, or the function returns -1 with err filled. */
#define TS_CL(d, err, call, ...)                                                               \
  do {                                                                                         \
    cl_int code_ = ts_cl.call(__VA_ARGS__);                                                    \
    if (code_) return ts_cl_fail(d, code_, #call, err);                                        \
  } while (0)

/* ---- devices/driver/opencl_memory.c: on the program's thread */
extern const TsDriver ts_cl_driver;
int ts_cl_upload(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err);
int ts_cl_download(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err);
int ts_cl_copy(TsDevice *d, void *to, TsDevice *source, const void *from, int64_t nbytes,
               TsError *err);

/* ---- devices/driver/opencl_run.c */
extern const TsDeviceRun ts_cl_run;
int ts_cl_queue(TsDevice *d, cl_command_queue *out, TsError *err); /* a new one, in order */

#endif
