//! Confinement of a child by Landlock and seccomp: it can read the files that its order names,
//! write in its own folder, and compute. No network, no other process, no other file.
//!
//! Landlock restricts files (Linux 5.13) and TCP (6.7), seccomp the rest. If the kernel has
//! neither, a child runs without them; docs/security.md says so. Both apply to the calling thread
//! and to those that it starts, so `confine` is called while there is only one thread.

#[cfg(target_os = "linux")]
pub(super) use linux::confine;

/// The files that an order needs.
#[derive(Debug, Default)]
pub(super) struct ConfinedFiles<'a> {
    pub(super) read: Vec<&'a std::path::Path>,
    pub(super) write: Vec<&'a std::path::Path>,
}

#[cfg(not(target_os = "linux"))]
pub(super) fn confine(_: &ConfinedFiles<'_>) -> std::io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::io;

    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
        RulesetError, Scope, path_beneath_rules,
    };
    use seccompiler::{
        SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch,
    };

    use super::ConfinedFiles;

    /// The newest version of Landlock that is used; an older kernel refuses less.
    const LANDLOCK_ABI: ABI = ABI::V6;

    /// Calls that fail with EPERM. `io_uring` makes calls that no filter sees.
    const REFUSED_CALLS: [i64; 37] = [
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_kill,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_open_by_handle_at,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_kexec_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_clock_settime,
        libc::SYS_settimeofday,
    ];

    /// Removes from the calling thread all rights that its order does not need. Fails only if the
    /// kernel supports the confinement but refused it.
    pub(in crate::engines::child) fn confine(files: &ConfinedFiles<'_>) -> io::Result<()> {
        guard_files(files).map_err(io::Error::other)?;
        guard_calls()
    }

    fn guard_files(files: &ConfinedFiles<'_>) -> Result<(), RulesetError> {
        // Best effort is the library's default: an older kernel restricts what it can.
        Ruleset::default()
            .handle_access(AccessFs::from_all(LANDLOCK_ABI))?
            .handle_access(AccessNet::from_all(LANDLOCK_ABI))?
            .scope(Scope::from_all(LANDLOCK_ABI))?
            .create()?
            .add_rules(path_beneath_rules(
                &files.read,
                AccessFs::from_read(LANDLOCK_ABI),
            ))?
            .add_rules(path_beneath_rules(
                &files.write,
                AccessFs::from_all(LANDLOCK_ABI),
            ))?
            .restrict_self()?;
        Ok(())
    }

    fn guard_calls() -> io::Result<()> {
        // The library has no filters for other processors.
        let Ok(machine) = TargetArch::try_from(std::env::consts::ARCH) else {
            return Ok(());
        };
        // `clone` starts threads, which are allowed, and processes, which are not.
        let is_no_thread = SeccompCondition::new(
            0,
            SeccompCmpArgLen::Qword,
            SeccompCmpOp::MaskedEq(libc::CLONE_THREAD.cast_unsigned().into()),
            0,
        );
        let process = is_no_thread.and_then(|condition| SeccompRule::new(vec![condition]));
        let process = process.map_err(io::Error::other)?;
        let mut refused: BTreeMap<i64, Vec<SeccompRule>> =
            REFUSED_CALLS.map(|call| (call, Vec::new())).into();
        refused.insert(libc::SYS_clone, vec![process]);
        #[cfg(target_arch = "x86_64")]
        refused.extend([(libc::SYS_fork, Vec::new()), (libc::SYS_vfork, Vec::new())]);
        apply(refused, libc::EPERM, machine)?;
        // `clone3` has its flags in memory, which a filter cannot read. It is made to look absent,
        // so that the C library starts threads by `clone`.
        let absent = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        apply(absent, libc::ENOSYS, machine)
    }

    fn apply(
        calls: BTreeMap<i64, Vec<SeccompRule>>,
        error: i32,
        machine: TargetArch,
    ) -> io::Result<()> {
        let refused = SeccompAction::Errno(error.cast_unsigned());
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, refused, machine);
        let filter: seccompiler::BpfProgram = filter
            .and_then(TryInto::try_into)
            .map_err(io::Error::other)?;
        match seccompiler::apply_filter(&filter) {
            Err(seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error))
                if error.raw_os_error() == Some(libc::EINVAL) =>
            {
                // The kernel was built without filters.
                Ok(())
            }
            result => result.map_err(io::Error::other),
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpListener;
    use std::process::Command;

    use super::*;

    /// Runs `work` in a separate thread, which it may confine without confining the others.
    fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().unwrap()
    }

    #[test]
    fn a_confined_thread_has_its_files_and_nothing_else() {
        let own_folder = tempfile::tempdir().unwrap();
        let foreign_folder = tempfile::tempdir().unwrap();
        let source = foreign_folder.path().join("source");
        let secret = foreign_folder.path().join("secret");
        std::fs::write(&source, "a song").unwrap();
        std::fs::write(&secret, "a key").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let folder = own_folder.path().to_owned();
        in_thread(move || {
            let files = ConfinedFiles {
                read: vec![&source],
                write: vec![&folder],
            };
            confine(&files).unwrap();
            assert_eq!(std::fs::read_to_string(&source).unwrap(), "a song");
            std::fs::write(folder.join("made"), "a stem").unwrap();
            assert_eq!(in_thread(|| 7), 7, "threads start");
            let denied = |error: std::io::Error| error.kind() == ErrorKind::PermissionDenied;
            assert!(std::fs::read(&secret).is_err_and(denied));
            assert!(std::fs::write(&source, "another").is_err_and(denied));
            assert!(std::fs::read("/etc/passwd").is_err_and(denied));
            assert!(std::net::TcpStream::connect(address).is_err_and(denied));
            assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_err_and(denied));
            assert!(Command::new("/bin/true").spawn().is_err());
        });
        // The rest of the process is not confined.
        assert!(std::fs::read("/etc/passwd").is_ok());
    }
}
