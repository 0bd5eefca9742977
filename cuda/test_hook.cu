/* The course's three tests of a CUDA hook: memory quota, launch rate, launch dimensions.
 *
 *     nvcc --cudart=shared test_hook.cu -o test_hook
 *     LD_PRELOAD=./libcuda_hook.so CUDA_MEM_QUOTA_MB=128 CUDA_CORE_RATE=5 CUDA_CORE_CAPACITY=3 \
 *         ./test_hook 2> hook.log
 *
 * In: the environment above. Out: the result on stdout (expected/test_hook.stdout when all is
 * well), exit code 0 when every test passed and 1 otherwise. stderr is the hook's; this program
 * adds at most one warning there. The calls that a hook sees, and their order, are fixed: they
 * make the 25 call lines of the course's log.
 *
 * Also compiles without nvcc, over the stand-in runtime of cuda/sim (see README.md).
 */
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>

/* Outside the namespace for its plain name in logs: _Z12dummy_kernelPfi. */
__global__ void dummy_kernel(float *data, int n) {
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) data[i] += 1.0f;
}

namespace {

/* The code the course's hook returns for a refused launch. When the course was written down it
 * was called cudaErrorLaunchFailure; since CUDA 10.1 that name stands for 719, and 4 is
 * cudaErrorCudartUnloading ("driver shutting down"). The number is what counts here. */
constexpr int kLaunchRefused = 4;
constexpr int kMallocRefused = cudaErrorMemoryAllocation; /* 2 */

constexpr size_t kMB = 1024 * 1024;
constexpr int kElements = 1 << 20; /* floats in 4 MB */

constexpr char kRule[] = "═════════════════════════════════════════";
constexpr char kCheckHook[] =
    "         检查: LD_PRELOAD 是否指向 libcuda_hook.so? 编译时是否加了 --cudart=shared "
    "(ldd test_hook | grep cudart)?\n";

/* Refusals seen, and those after which cudaGetLastError() did not answer with their code. A hook
 * that leaves the last error alone passes the tests, but programs with <<<...>>> launches check
 * nothing else: they would go on with wrong data. */
int g_refusals = 0;
int g_silent_refusals = 0;

void note_refusal(int code) {
    ++g_refusals;
    if (static_cast<int>(cudaGetLastError()) != code) ++g_silent_refusals;
}

double now_s() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

const char *setting(const char *name) {
    const char *text = std::getenv(name);
    return text && *text ? text : "(未设置)";
}

/* A number above 0, or 0 where the variable has none. */
double positive(const char *name) {
    const char *text = std::getenv(name);
    double value = text ? std::strtod(text, nullptr) : 0;
    return std::isfinite(value) && value > 0 ? value : 0;
}

const char *describe(int code) { return cudaGetErrorName(static_cast<cudaError_t>(code)); }

/* The code of one launch, by hand as `<<<grid, block>>>` would do it. */
int launch(float *data, dim3 grid, dim3 block) {
    int n = kElements;
    void *args[] = {&data, &n};
    int code = cudaLaunchKernel(dummy_kernel, grid, block, args, 0, nullptr);
    if (code == kLaunchRefused) note_refusal(code);
    return code;
}

/* The buffer of a test, or NULL after a line that says why there is none. */
float *allocate(size_t size) {
    void *data = nullptr;
    int code = cudaMalloc(&data, size);
    if (code == cudaSuccess && data) return static_cast<float *>(data);
    std::printf("  [FAIL] cudaMalloc(%zuMB): 期望 0, 实际 %d (%s)\n", size / kMB, code,
                describe(code));
    if (code == kMallocRefused) {
        note_refusal(code);
        std::printf("         检查: CUDA_MEM_QUOTA_MB=%s 是否太小? cudaFree 之后配额是否归还?\n",
                    setting("CUDA_MEM_QUOTA_MB"));
    } else {
        std::printf("         检查: GPU 驱动和 libcudart 是否可用 (nvidia-smi)?\n");
    }
    return nullptr;
}

bool release(float *data) {
    int code = cudaFree(data);
    if (code == cudaSuccess) return true;
    std::printf("  [FAIL] cudaFree: 期望 0, 实际 %d (%s)\n", code, describe(code));
    std::printf("         检查: hook 的 cudaFree 是否返回真实函数的返回值?\n");
    return false;
}

/* Whether the kernels that were let through also ran. */
bool finished() {
    int code = cudaDeviceSynchronize();
    if (code == cudaSuccess) return true;
    std::printf("  [FAIL] cudaDeviceSynchronize: 期望 0, 实际 %d (%s)\n", code, describe(code));
    std::printf("         检查: hook 是否把参数原样传给真实的 cudaLaunchKernel?\n");
    return false;
}

bool test_quota() {
    std::printf("--- Test 1: cudaMalloc 配额 ---\n");
    float *small = allocate(64 * kMB);
    if (!small) return false;
    std::printf("  [OK] cudaMalloc(64MB) 成功\n");

    bool ok = true;
    void *large = nullptr;
    int code = cudaMalloc(&large, 2048 * kMB);
    if (code == kMallocRefused) {
        note_refusal(code);
        std::printf("  [OK] cudaMalloc(2048MB) 正确返回 cudaErrorMemoryAllocation\n");
    } else {
        ok = false;
        std::printf("  [FAIL] cudaMalloc(2048MB): 期望 %d (%s), 实际 %d (%s)\n", kMallocRefused,
                    describe(kMallocRefused), code, describe(code));
        std::printf("%s         检查: CUDA_MEM_QUOTA_MB=%s (应小于 2112)?\n", kCheckHook,
                    setting("CUDA_MEM_QUOTA_MB"));
        if (code == cudaSuccess) cudaFree(large);
    }
    return release(small) && ok;
}

struct Outcome {
    int passed = 0, refused = 0;
    int other = 0; /* the last code that was neither */
    double seconds = 0;
};

Outcome launch_many(float *data, int times) {
    Outcome o;
    double start = now_s();
    for (int i = 0; i < times; ++i) {
        int code = launch(data, dim3(1), dim3(32));
        if (code == cudaSuccess)
            ++o.passed;
        else if (code == kLaunchRefused)
            ++o.refused;
        else
            o.other = code;
    }
    o.seconds = now_s() - start;
    return o;
}

void explain_other(const char *phase, int code) {
    std::printf("  [FAIL] %s: 期望返回 0 或 %d, 实际 %d (%s)\n", phase, kLaunchRefused, code,
                describe(code));
    std::printf("         检查: 令牌不足时应返回 %d (CUDA_CORE_DENY_ERROR=%s); 其他值来自真实的 "
                "cudaLaunchKernel\n",
                kLaunchRefused, setting("CUDA_CORE_DENY_ERROR"));
}

bool test_bucket() {
    std::printf("--- Test 2: cudaLaunchKernel 令牌桶 ---\n");
    float *data = allocate(kElements * sizeof(float));
    if (!data) return false;
    bool ok = true;

    /* The first launch of a kernel loads its code, which can take longer than 1/rate and would
     * refill the bucket in the middle of phase 1. Asking for its attributes loads it too, and is
     * no call that a hook counts. */
    cudaFuncAttributes attributes;
    int code = cudaFuncGetAttributes(&attributes, dummy_kernel);
    if (code != cudaSuccess) {
        ok = false;
        std::printf("  [FAIL] cudaFuncGetAttributes: 期望 0, 实际 %d (%s)\n", code, describe(code));
        std::printf("         检查: nvcc 的 -arch 是否适合这块 GPU?\n");
    }

    /* Phase 1: the full bucket lets exactly `burst` launches through. The upper bound allows for
     * tokens that came back meanwhile: none on any machine that takes less than 1/rate for ten
     * launches; all of them with a hook that waits for a token instead of refusing. */
    constexpr int kPhase1 = 10, kPhase2 = 5;
    double capacity = positive("CUDA_CORE_CAPACITY"), rate = positive("CUDA_CORE_RATE");
    Outcome first = launch_many(data, kPhase1);
    int least = static_cast<int>(std::fmin(std::floor(capacity), kPhase1));
    int most = static_cast<int>(std::fmin(std::floor(capacity + rate * first.seconds), kPhase1));
    std::printf("  [Phase 1] 通过=%d, 拒绝=%d\n", first.passed, first.refused);
    if (capacity == 0 || rate == 0) {
        ok = false;
        std::printf("  [FAIL] 令牌桶没有参数: CUDA_CORE_RATE=%s, CUDA_CORE_CAPACITY=%s\n",
                    setting("CUDA_CORE_RATE"), setting("CUDA_CORE_CAPACITY"));
        std::printf("         检查: 两个变量都要设置, 例如 CUDA_CORE_RATE=5 CUDA_CORE_CAPACITY=3\n");
    } else if (first.other == 0 && (first.passed < least || first.passed > most)) {
        ok = false;
        std::printf("  [FAIL] Phase 1: 期望通过=%d, 拒绝=%d; 实际通过=%d, 拒绝=%d\n", least,
                    kPhase1 - least, first.passed, first.refused);
        std::printf("%s         检查: 桶是否从满 (burst) 开始, 每次启动是否恰好取 1 个令牌?\n",
                    kCheckHook);
    }
    if (first.other != 0) {
        ok = false;
        explain_other("Phase 1", first.other);
    }
    ok = finished() && ok;

    /* Phase 2: after a pause there are tokens again. */
    timespec pause = {1, 500000000};
    while (nanosleep(&pause, &pause) != 0) {
    }
    Outcome second = launch_many(data, kPhase2);
    std::printf("  [Phase 2] 等待后通过=%d\n", second.passed);
    if (second.passed < 1 && second.other == 0) {
        ok = false;
        std::printf("  [FAIL] Phase 2: 期望等待 1.5 秒后至少通过 1 次, 实际 0 次\n");
        std::printf("         检查: 令牌是否按 CUDA_CORE_RATE=%s 补充? 1.5 秒内能否补满 1 个?\n",
                    setting("CUDA_CORE_RATE"));
    }
    if (second.other != 0) {
        ok = false;
        explain_other("Phase 2", second.other);
    }
    ok = finished() && ok;
    return release(data) && ok;
}

/* The bucket is empty by now, so all three are usually refused: what this test makes is their
 * lines in the hook's log. */
bool test_dimensions() {
    std::printf("--- Test 3: Grid/Block 维度记录 ---\n");
    float *data = allocate(kElements * sizeof(float));
    if (!data) return false;
    const struct {
        const char *name; /* padded to one width */
        dim3 grid, block;
    } shapes[] = {
        {"Prefill-like:", dim3(1), dim3(256)},
        {"Decode-like: ", dim3(16), dim3(32)},
        {"3D:          ", dim3(2, 2, 2), dim3(64)},
    };
    bool ok = true;
    for (const auto &s : shapes) {
        int code = launch(data, s.grid, s.block);
        bool good = code == cudaSuccess || code == kLaunchRefused;
        std::printf("  [%s] %s grid=(%u,%u,%u) block=(%u,%u,%u)\n", good ? "OK" : "FAIL", s.name,
                    s.grid.x, s.grid.y, s.grid.z, s.block.x, s.block.y, s.block.z);
        if (!good) {
            ok = false;
            explain_other("Test 3", code);
        }
    }
    ok = finished() && ok;
    return release(data) && ok;
}

bool report(bool passed) {
    std::printf(passed ? "  [PASS]\n" : "  [FAIL]\n");
    std::fflush(stdout);
    return passed;
}

} // namespace

int main() {
    std::printf("%s\n  CUDA Hook 验证测试\n", kRule);
    for (const char *name : {"CUDA_MEM_QUOTA_MB", "CUDA_CORE_RATE", "CUDA_CORE_CAPACITY"})
        std::printf("  %s=%s\n", name, setting(name));
    std::printf("%s\n\n", kRule);
    std::fflush(stdout);

    int failed = 0;
    failed += !report(test_quota());
    failed += !report(test_bucket());
    failed += !report(test_dimensions());

    if (failed == 0)
        std::printf("%s\n  全部测试通过!  Hook 拦截生效.\n%s\n", kRule, kRule);
    else
        std::printf("%s\n  %d 个测试失败, 见上面的 [FAIL].\n%s\n", kRule, failed, kRule);

    std::fflush(stdout);
    if (g_silent_refusals > 0)
        std::fprintf(stderr,
                     "warning: after %d of %d refused calls cudaGetLastError() did not answer with "
                     "their code (2 or 4): <<<...>>> programs would not notice the refusal\n",
                     g_silent_refusals, g_refusals);
    return failed == 0 ? 0 : 1;
}
