/* A program that is not linked to libcudart and loads a plugin that is: out of the global scope,
 * as Python does with its modules, or into it.
 *
 *     plugin_host ./libplugin.so [global]
 *
 * Out: the codes of cudaMalloc(64 MB), cudaMalloc(128 MB), cudaGetLastError, cudaFree, and, after
 * the plugin has been closed again, cudaMalloc(64 MB).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(int argc, char **argv) {
    void *plugin = dlopen(argc > 1 ? argv[1] : "libplugin.so", RTLD_NOW | (argc > 2 ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void *(*address)(const char *) = (void *(*)(const char *))(uintptr_t)dlsym(plugin, "plugin_address");
    int (*malloc_)(void **, size_t) = (int (*)(void **, size_t))(uintptr_t)address("cudaMalloc");
    int (*free_)(void *) = (int (*)(void *))(uintptr_t)address("cudaFree");
    int (*last)(void) = (int (*)(void))(uintptr_t)address("cudaGetLastError");
    void *block = NULL, *other = NULL;
    printf("%d", malloc_(&block, 64u << 20));
    printf(" %d", malloc_(&other, 128u << 20));
    printf(" %d", last());
    printf(" %d", free_(block));
    fflush(stdout);
    dlclose(plugin);
    /* Only a hook's own function is still there to be called. */
    Dl_info where;
    if (dladdr((void *)(uintptr_t)malloc_, &where)) printf(" %d", malloc_(&block, 64u << 20));
    printf("\n");
    return 0;
}
