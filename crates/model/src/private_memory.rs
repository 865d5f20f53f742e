//! The private memory of this process, which holds keys: no core file contains it, and no other
//! process of the same user can read it, debug this process or list its open files.

use std::io;

/// Protects the memory until this process runs another program. Root can still read it.
pub fn protect() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}
