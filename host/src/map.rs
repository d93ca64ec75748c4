//! Anonymous mappings: zeroed memory that costs nothing until it is touched.

use std::io;
use std::ptr::NonNull;

/// Lengths are rounded up to this many bytes: the largest base page of the architectures that
/// Linux runs on (64 KiB, arm64).
const GRANULE: usize = 1 << 16;

/// A private mapping of zeroed memory, returned to the system when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    align: usize,
}

// SAFETY: a mapping is memory without an owning thread; access to it is the business of whoever
// asks for its base.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives out a pointer and a length, nothing else.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `bytes` bytes, beginning at a multiple of `align` (a power of two).
    ///
    /// # Errors
    /// The system has no such piece of address space left, or refuses to overcommit
    /// (`vm.overcommit_memory` of 2).
    pub fn zeroed(bytes: usize, align: usize) -> io::Result<Mapping> {
        assert!(align.is_power_of_two());
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = bytes.max(1).checked_next_multiple_of(GRANULE).ok_or_else(too_large)?;
        let align = align.max(GRANULE);
        bytes.checked_add(align).ok_or_else(too_large)?;
        let base = obtain(bytes, align)?;
        Ok(Mapping { base, bytes, align })
    }

    /// First byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours; whoever handed out pointers into it holds it alive.
        unsafe { give_back(self.base, self.bytes, self.align) };
    }
}

/// Maps `bytes + align` and cuts off what lies in front of and behind the aligned piece.
#[cfg(not(miri))]
fn obtain(bytes: usize, align: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let length = bytes + align;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice disturbs nothing.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = NonNull::new(start.cast::<u8>()).expect("the kernel maps nothing at zero");
    let front = start.align_offset(align);
    // SAFETY: `front` is below `align`, so the piece and both cuts lie inside the mapping, which
    // nobody else knows of. All three begin and end at multiples of the system's page.
    unsafe {
        let base = start.add(front);
        give_back(start, front, align);
        give_back(base.add(bytes), length - front - bytes, align);
        Ok(base)
    }
}

/// # Safety
/// The bytes are a piece of a mapping made by [`obtain`] that nobody uses any more.
#[cfg(not(miri))]
unsafe fn give_back(base: NonNull<u8>, bytes: usize, _: usize) {
    if bytes > 0 {
        // SAFETY: as the caller promises.
        let done = unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
        debug_assert_eq!(done, 0, "{}", io::Error::last_os_error());
    }
}

/// The interpreter knows whole mappings only: the same memory from the heap.
#[cfg(miri)]
fn obtain(bytes: usize, align: usize) -> io::Result<NonNull<u8>> {
    let layout = std::alloc::Layout::from_size_align(bytes, align).map_err(io::Error::other)?;
    // SAFETY: the layout is not empty, `bytes` being a positive multiple of the granule.
    let base = unsafe { std::alloc::alloc_zeroed(layout) };
    NonNull::new(base).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// # Safety
/// The bytes were made by [`obtain`] as they are, and nobody uses them any more.
#[cfg(miri)]
unsafe fn give_back(base: NonNull<u8>, bytes: usize, align: usize) {
    let layout = std::alloc::Layout::from_size_align(bytes, align).expect("as it was made");
    // SAFETY: as the caller promises.
    unsafe { std::alloc::dealloc(base.as_ptr(), layout) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_aligned_zeroed_and_writable_to_its_end() {
        for (bytes, align) in [(1, 1), (70_000, 1 << 22), (1 << 22, 1 << 12)] {
            let mapping = Mapping::zeroed(bytes, align).expect("a few megabytes");
            assert!(mapping.bytes() >= bytes);
            assert_eq!(mapping.base().align_offset(align), 0);
            for at in [0, bytes - 1, mapping.bytes() - 1] {
                // SAFETY: inside the mapping, which is ours alone.
                unsafe {
                    let byte = mapping.base().add(at);
                    assert_eq!(byte.read(), 0);
                    byte.write(0xa5);
                    assert_eq!(byte.read(), 0xa5);
                    byte.write(0);
                }
            }
        }
    }

    #[test]
    fn more_than_there_is_fails_with_an_error() {
        assert!(Mapping::zeroed(usize::MAX, 1).is_err());
        #[cfg(not(miri))]
        assert!(Mapping::zeroed(1 << 62, 1).is_err());
    }
}
