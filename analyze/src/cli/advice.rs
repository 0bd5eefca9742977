//! What to try when a log holds no call: the course's trouble-shooting chain, from what was found.

use crate::events::Events;
use crate::render::Lang;

/// One paragraph that says what was found, then what to check, in order.
pub(super) fn no_calls(events: &Events, lang: Lang) -> String {
    let sum = |pick: fn(&crate::events::Source) -> u64| events.sources.iter().map(pick).sum::<u64>();
    let (lines, records, bad) = (sum(|s| s.lines), sum(|s| s.events), sum(|s| s.bad_lines));
    let banners = !events.processes.is_empty();
    let found = match lang {
        Lang::Zh => format!("日志中没有任何被拦截的调用 (共 {lines} 行, {records} 条 hook 记录, {bad} 行无法解析)"),
        Lang::En => {
            format!("the log holds no intercepted call ({lines} lines, {records} hook records, {bad} not understood)")
        }
    };
    let steps: &[&str] = match (lang, banners, lines) {
        (Lang::Zh, _, 0) => &[
            "文件是空的。日志在 stderr 上: `make test-gpu 2> hook.log` (没有 GPU 时 `make test-sim 2> hook.log`)",
            "若设置了 CUDA_HOOK_LOG, 日志在它指定的文件里, 或已被 off 关闭",
        ],
        (Lang::En, _, 0) => &[
            "the file is empty. The log goes to stderr: `make test-gpu 2> hook.log` (without a GPU `make test-sim 2> hook.log`)",
            "with CUDA_HOOK_LOG set, the log is in the file that it names, or switched off",
        ],
        (Lang::Zh, false, _) => &[
            "没有 [HOOK] 行: hook 没有被加载。检查 LD_PRELOAD 的路径是否正确 (要带 ./ 或绝对路径), 库是否与程序同为 64 位",
            "日志在 stderr 上: 用 `2> hook.log` 收集, 而不是 `> hook.log`",
            "setuid 程序和静态链接的程序不会加载 LD_PRELOAD 指定的库",
        ],
        (Lang::En, false, _) => &[
            "no [HOOK] line: the hook was not loaded. Check the path in LD_PRELOAD (with ./ or absolute) and that library and program are both 64-bit",
            "the log goes to stderr: collect it with `2> hook.log`, not `> hook.log`",
            "setuid programs and statically linked ones do not load what LD_PRELOAD names",
        ],
        (Lang::Zh, true, _) => &[
            "hook 已加载 (有配置行), 但没有看到 CUDA 调用。若程序是 `ls` 之类 (make test), 这是正常的",
            "`ldd 程序 | grep cudart` 没有输出: cudart 是静态链接的, 用 `nvcc --cudart=shared` 重新编译",
            "用 CUDA 13 编译的 `<<<>>>` 调用 __cudaLaunchKernel 而不是 cudaLaunchKernel: 只拦截后者的 hook 看不到它",
            "PyTorch 的 cuBLAS、Triton、CuPy、JAX 直接调用驱动 API (cuLaunchKernel 等)",
        ],
        (Lang::En, true, _) => &[
            "the hook was loaded (its config lines are there) but saw no CUDA call. For a program like `ls` (make test) that is as it should be",
            "`ldd PROGRAM | grep cudart` prints nothing: cudart is linked statically, compile with `nvcc --cudart=shared`",
            "`<<<>>>` compiled by CUDA 13 calls __cudaLaunchKernel, not cudaLaunchKernel: a hook on the latter alone does not see it",
            "PyTorch's cuBLAS, Triton, CuPy and JAX call the driver API (cuLaunchKernel and others) directly",
        ],
    };
    let mut text = found;
    for (number, step) in (1..).zip(steps) {
        text.push_str(&format!("\n  {number}. {step}"));
    }
    for (line, example) in events.sources.iter().flat_map(|source| &source.bad_examples).take(3) {
        let shown = crate::render::text::printable(example);
        text.push_str(&match lang {
            Lang::Zh => format!("\n  第 {line} 行无法解析: {shown}"),
            Lang::En => format!("\n  line {line} was not understood: {shown}"),
        });
    }
    text
}
