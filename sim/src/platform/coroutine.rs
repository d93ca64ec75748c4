//! A virtual CPU's thread of execution: a stackful coroutine that can stop anywhere.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Bytes of a virtual CPU's stack.
const STACK_BYTES: usize = 128 << 10;

/// Stops the coroutine that it was given to.
#[derive(Clone, Copy)]
pub struct Resumer(*const Yielder<(), ()>);

impl Default for Resumer {
    /// Of no coroutine: it is replaced before the first stop.
    fn default() -> Resumer {
        Resumer(std::ptr::null())
    }
}

impl Resumer {
    /// Stops until somebody resumes. Called by the coroutine's own body only.
    pub(crate) fn suspend(self) {
        assert!(!self.0.is_null(), "a coroutine tells where it stops before it does");
        // SAFETY: the yielder lives as long as the body of its coroutine, and that body is what
        // calls this: the world keeps one resumer a CPU and stops only the CPU that runs.
        unsafe { (*self.0).suspend(()) }
    }
}

/// A coroutine that has not ended.
pub(crate) struct Thread(Coroutine<(), (), ()>);

impl Thread {
    /// Will run `body`, which is told how to stop.
    pub(crate) fn new(body: impl FnOnce(Resumer) + 'static) -> Thread {
        let stack = DefaultStack::new(STACK_BYTES).expect("memory for the stacks");
        Thread(Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            body(Resumer(yielder));
        }))
    }

    /// Runs until it stops; true if it has ended.
    pub(crate) fn resume(&mut self) -> bool {
        matches!(self.0.resume(()), CoroutineResult::Return(()))
    }
}
