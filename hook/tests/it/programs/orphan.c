/* Calls what the preloaded library exports, with no libcudart anywhere in the process.
 *
 * Out: a line a symbol, name and code.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    unsigned x, y, z;
} dim3;

int main(void) {
    const char *names[] = {"cudaMalloc", "cudaFree", "cudaLaunchKernel", "cudaLaunchKernel_ptsz", "__cudaLaunchKernel",
                           "__cudaLaunchKernel_ptsz", "cudaGetLastError", "cudaPeekAtLastError"};
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            void *symbol = dlsym(RTLD_DEFAULT, names[i]), *block = NULL;
            if (!symbol) {
                printf("%s missing\n", names[i]);
                continue;
            }
            const dim3 one = {1, 1, 1};
            int code;
            errno = 4242;
            if (!strcmp(names[i], "cudaMalloc"))
                code = ((int (*)(void **, size_t))(uintptr_t)symbol)(&block, 4096);
            else if (!strcmp(names[i], "cudaFree"))
                code = ((int (*)(void *))(uintptr_t)symbol)(NULL);
            else if (strstr(names[i], "Launch"))
                code = ((int (*)(const void *, dim3, dim3, void **, size_t, void *))(uintptr_t)symbol)(
                    (const void *)(uintptr_t)main, one, one, NULL, 0, NULL);
            else
                code = ((int (*)(void))(uintptr_t)symbol)();
            printf("%s %d%s\n", names[i], code, errno == 4242 ? "" : " and errno changed");
        }
    return 0;
}
