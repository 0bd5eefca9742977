//! The panic boundary: nothing unwinds into the program, and the real call happens exactly once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::guard::Guard;
use super::thread::Thread;
use super::types::{CudaError, SUCCESS};

/// The real call of one export: made at most once, timed, its answer remembered.
pub(crate) struct Real<'a> {
    call: &'a mut dyn FnMut() -> CudaError,
    guard: &'a mut Guard,
    answer: Option<CudaError>,
}

impl Real<'_> {
    /// The thread whose call this is.
    #[inline(always)]
    pub(crate) fn thread(&self) -> &Thread {
        self.guard.thread()
    }

    /// Calls the real function with the program's own `errno`. A second call gives the first one's answer.
    pub(crate) fn call(&mut self) -> CudaError {
        if let Some(answer) = self.answer {
            return answer;
        }
        self.guard.before_real_call();
        let answer = (self.call)();
        self.guard.real_call_done();
        self.answer = Some(answer);
        answer
    }
}

/// Runs an export's `body`. Inside another call of the hook, and after a panic in the hook, the program gets what the
/// real call answers.
#[inline(always)]
pub(crate) fn export(mut call: impl FnMut() -> CudaError, body: impl FnOnce(&mut Real<'_>) -> CudaError) -> CudaError {
    let Some(mut guard) = Guard::enter() else { return call() };
    let mut real = Real { call: &mut call, guard: &mut guard, answer: None };
    match catch_unwind(AssertUnwindSafe(|| body(&mut real))) {
        Ok(answer) => answer,
        Err(_) => {
            let answer = real.call();
            // Telling may itself be what panicked.
            let _ = catch_unwind(|| {
                crate::state::get().sinks.warn("hook 内部错误, 本次调用已原样转发; 请报告此问题");
            });
            answer
        }
    }
}

/// Runs `body`, which has no real call behind it; a panic in it is swallowed.
pub(crate) fn contain(body: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(body));
}

/// The answer of a query about errors, for which `fallback` is asked when the hook itself fails.
pub(crate) fn query(fallback: impl Fn() -> CudaError, body: impl FnOnce() -> CudaError) -> CudaError {
    let Some(_guard) = Guard::enter() else { return fallback() };
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_before_the_real_call_forwards_it_once() {
        let mut calls = 0;
        let call = || {
            calls += 1;
            7
        };
        assert_eq!(export(call, |_| panic!("before")), 7);
        assert_eq!(calls, 1);
    }

    #[test]
    fn a_panic_after_the_real_call_keeps_its_answer() {
        let mut calls = 0;
        let call = || {
            calls += 1;
            7
        };
        let body = |real: &mut Real<'_>| -> CudaError {
            real.call();
            panic!("after")
        };
        assert_eq!(export(call, body), 7);
        assert_eq!(calls, 1);
    }

    #[test]
    fn a_nested_call_passes_through() {
        let outer = export(|| 0, |_| export(|| 5, |_| unreachable!("nested calls are not looked at")));
        assert_eq!(outer, 5);
    }
}
