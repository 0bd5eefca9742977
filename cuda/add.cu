// The kernel of driver_api.cpp, which loads it as PTX: nvcc -ptx cuda/add.cu
extern "C" __global__ void add(unsigned long long *sum, unsigned value) { atomicAdd(sum, value); }
