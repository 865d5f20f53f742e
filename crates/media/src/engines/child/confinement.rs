//! Confinement of a child by Landlock and seccomp: it can read the files that its order names, fill
//! the files that its parent made for it, and compute. No network, no other process, no other file,
//! and no new file, link or folder.
//!
//! Landlock restricts files (Linux 5.13) and TCP (6.7), seccomp the system calls. If the kernel has
//! neither, a child runs without them; docs/security.md says so. If the kernel has them and they
//! cannot be used, a child runs nothing: [`ConfinementError`]. Both apply to the calling thread and
//! to those that it starts, so `confine` is called while there is only one thread.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The rights that an order needs.
#[derive(Debug, Default)]
pub(super) struct ChildRights {
    /// Files and folders to read.
    pub(super) read: Vec<PathBuf>,
    /// Files to fill. They exist, and are empty.
    pub(super) write: Vec<PathBuf>,
    /// Whether it loads a library.
    pub(super) loads_code: bool,
}

#[cfg(target_os = "linux")]
pub(super) use linux::confine;

/// Why a child cannot confine itself although the kernel offers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ConfinementError {
    /// A filter of system calls refuses this call, which the confinement needs.
    #[error("a filter of system calls forbids `{0}`")]
    ForbiddenCall(String),
    /// A filter of system calls killed the child.
    #[error("a filter of system calls killed the child")]
    Killed,
    /// The confinement was built, and does not keep the child from this.
    #[error("a confined child still reaches what it must not: {}", .0.name())]
    Breached(ConfinementWall),
    /// Another error.
    #[error("{0}")]
    Failed(String),
}

/// What the confinement keeps a child from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfinementWall {
    /// Files that its order does not name.
    Files,
    /// Sockets of every kind.
    Network,
    /// Signals to other processes.
    Processes,
}

impl ConfinementWall {
    pub const ALL: [Self; 3] = [Self::Files, Self::Network, Self::Processes];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Network => "network",
            Self::Processes => "processes",
        }
    }
}

/// The parts of the confinement that the kernel has and that were applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AppliedConfinement {
    /// Restricts files.
    pub(super) landlock: bool,
    /// Restricts system calls: sockets, signals.
    pub(super) seccomp: bool,
}

#[cfg(not(target_os = "linux"))]
pub(super) fn confine(
    _: &ChildRights,
    _is_strict: bool,
) -> Result<AppliedConfinement, ConfinementError> {
    Ok(AppliedConfinement {
        landlock: false,
        seccomp: false,
    })
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::io;

    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, LandlockStatus, RestrictionStatus, Ruleset,
        RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
    };
    use seccompiler::{SeccompAction, SeccompFilter, TargetArch};

    use super::{AppliedConfinement, ChildRights, ConfinementError};
    use crate::engines::child::allowed_calls::{AllowedCalls, CallNeeds, allowed_calls};

    /// The first version of Linux with Landlock.
    const FIRST_WITH_LANDLOCK: (u32, u32) = (5, 13);
    /// The newest version of Landlock that is used; an older kernel refuses less.
    const LANDLOCK_ABI: ABI = ABI::V6;

    /// Removes from the calling thread all rights that its order does not need, as far as the kernel
    /// can. If `is_strict`, a refused call ends the process.
    pub(in crate::engines::child) fn confine(
        rights: &ChildRights,
        is_strict: bool,
    ) -> Result<AppliedConfinement, ConfinementError> {
        Ok(AppliedConfinement {
            landlock: guard_files(rights)?,
            seccomp: guard_calls(rights, is_strict)?,
        })
    }

    /// Returns whether the kernel has Landlock.
    fn guard_files(rights: &ChildRights) -> Result<bool, ConfinementError> {
        // This asks the kernel for its version of Landlock. For the library every error means that
        // there is none; which error it was is still in errno.
        let ruleset = Ruleset::default();
        let error = io::Error::last_os_error();
        let status = restrict_files(ruleset, rights).map_err(|error| ruleset_error(&error))?;
        match status.landlock {
            LandlockStatus::Available { .. } => Ok(true),
            LandlockStatus::NotEnabled => Ok(false),
            LandlockStatus::NotImplemented => {
                let release = rustix::system::uname();
                let is_in_kernel = has_landlock(&release.release().to_string_lossy());
                if is_forbidden(&error) && is_in_kernel {
                    return Err(ConfinementError::ForbiddenCall(
                        "landlock_create_ruleset".into(),
                    ));
                }
                Ok(false)
            }
        }
    }

    fn restrict_files(
        ruleset: Ruleset,
        rights: &ChildRights,
    ) -> Result<RestrictionStatus, RulesetError> {
        // Best effort is the library's default: an older kernel restricts what it can.
        ruleset
            .handle_access(AccessFs::from_all(LANDLOCK_ABI))?
            .handle_access(AccessNet::from_all(LANDLOCK_ABI))?
            .scope(Scope::from_all(LANDLOCK_ABI))?
            .create()?
            .add_rules(path_beneath_rules(
                &rights.read,
                AccessFs::ReadFile | AccessFs::ReadDir,
            ))?
            .add_rules(path_beneath_rules(&rights.write, AccessFs::WriteFile))?
            .restrict_self()
    }

    /// Whether a version of Linux may have Landlock.
    pub(super) fn has_landlock(release: &str) -> bool {
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
        let mut number = || numbers.next().and_then(|digits| digits.parse().ok());
        // An unknown kind of version is taken for a new one.
        let version = number().and_then(|major| Some((major, number()?)));
        version.is_none_or(|version| version >= FIRST_WITH_LANDLOCK)
    }

    /// Whether the error is that of a filter of system calls. Kernels without a call say ENOSYS,
    /// and kernels in which Landlock is switched off EOPNOTSUPP.
    fn is_forbidden(error: &io::Error) -> bool {
        matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES))
    }

    fn ruleset_error(error: &RulesetError) -> ConfinementError {
        let call = match error {
            RulesetError::CreateRuleset(_) => "landlock_create_ruleset",
            RulesetError::AddRules(_) => "landlock_add_rule",
            RulesetError::RestrictSelf(_) => "landlock_restrict_self",
            _ => return ConfinementError::Failed(error.to_string()),
        };
        let source = std::error::Error::source(error);
        let cause = source.and_then(|source| source.downcast_ref::<io::Error>());
        match cause {
            Some(cause) if is_forbidden(cause) => ConfinementError::ForbiddenCall(call.into()),
            _ => ConfinementError::Failed(format!("{call}: {error}")),
        }
    }

    /// Returns whether the kernel has filters of system calls.
    fn guard_calls(rights: &ChildRights, is_strict: bool) -> Result<bool, ConfinementError> {
        // The library has no filters for other processors.
        let Ok(machine) = TargetArch::try_from(std::env::consts::ARCH) else {
            return Ok(false);
        };
        // `clone3` has its flags in memory, which a filter cannot read. It is made to look absent,
        // so that the C library starts threads by `clone`. This filter comes first, because the
        // second one forbids filters. Of two filters the stricter one decides, and the second one
        // lets this call pass.
        let absent = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let refused = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
        if !apply(absent, SeccompAction::Allow, refused, machine)? {
            return Ok(false);
        }
        let allowed = allowed_calls(CallNeeds {
            writes: !rights.write.is_empty(),
            loads_code: rights.loads_code,
        });
        let allowed = allowed.map_err(failed)?;
        let refused = if is_strict {
            SeccompAction::KillProcess
        } else {
            SeccompAction::Errno(libc::EPERM.cast_unsigned())
        };
        apply(allowed, refused, SeccompAction::Allow, machine)
    }

    fn apply(
        calls: AllowedCalls,
        otherwise: SeccompAction,
        listed: SeccompAction,
        machine: TargetArch,
    ) -> Result<bool, ConfinementError> {
        let filter = SeccompFilter::new(calls, otherwise, listed, machine);
        let filter: seccompiler::BpfProgram = filter.and_then(TryInto::try_into).map_err(failed)?;
        let error = match seccompiler::apply_filter(&filter) {
            Ok(()) => return Ok(true),
            Err(seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error)) => error,
            Err(error) => return Err(failed(error)),
        };
        match error.raw_os_error() {
            // The kernel was built without filters.
            Some(libc::EINVAL | libc::ENOSYS) => Ok(false),
            _ if is_forbidden(&error) => Err(ConfinementError::ForbiddenCall("seccomp".into())),
            _ => Err(failed(error)),
        }
    }

    fn failed(error: impl std::fmt::Display) -> ConfinementError {
        ConfinementError::Failed(format!("seccomp: {error}"))
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::{ErrorKind, Write as _};
    use std::net::TcpListener;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;
    use std::process::Command;

    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};
    use rustix::process::{Pid, Resource, Rlimit, Signal};

    use super::*;

    /// Runs `work` in a separate thread, which it may confine without confining the others.
    fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().unwrap()
    }

    fn is_denied(error: &std::io::Error) -> bool {
        error.kind() == ErrorKind::PermissionDenied
    }

    /// A system call by its number, as code in a compromised decoder makes it; returns its error.
    #[expect(
        unsafe_code,
        reason = "the calls have no safe form, or one that sends other arguments"
    )]
    fn call(number: libc::c_long, arguments: [i64; 4]) -> Option<i32> {
        let [a, b, c, d] = arguments;
        // SAFETY: The kernel checks pointers. Those that are passed are null or invalid, so that
        // a call that is not denied fails in another way.
        let result = unsafe { libc::syscall(number, a, b, c, d, 0, 0) };
        (result == -1).then(|| std::io::Error::last_os_error().raw_os_error().unwrap())
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
        let result = folder.join("result");
        std::fs::write(&result, "").unwrap();
        let made = result.clone();
        in_thread(move || {
            let rights = ChildRights {
                read: vec![source.clone()],
                write: vec![result.clone()],
                loads_code: false,
            };
            let applied = confine(&rights, false).unwrap();
            assert_eq!((applied.landlock, applied.seccomp), (true, true));
            assert_eq!(std::fs::read_to_string(&source).unwrap(), "a song");
            let mut file = std::fs::File::options().write(true).open(&result).unwrap();
            file.write_all(b"a stem").unwrap();
            assert_eq!(in_thread(|| 7), 7, "threads start");
            assert!(std::fs::read(&secret).is_err_and(|error| is_denied(&error)));
            let write = |path: &Path| std::fs::File::options().write(true).open(path);
            assert!(write(&source).is_err_and(|error| is_denied(&error)));
            assert!(std::fs::read("/etc/passwd").is_err_and(|error| is_denied(&error)));
            // Nothing is made in its folder: no file, no link, no pipe.
            let in_folder = folder.join("new");
            assert!(std::fs::write(&in_folder, "x").is_err_and(|error| is_denied(&error)));
            assert!(symlink(&secret, &in_folder).is_err_and(|error| is_denied(&error)));
            let linked = std::fs::hard_link(&source, &in_folder);
            assert!(linked.is_err_and(|error| is_denied(&error)));
            assert!(std::fs::create_dir(&in_folder).is_err_and(|error| is_denied(&error)));
            let pipe = rustix::fs::FileType::Fifo;
            let pipe = rustix::fs::mknodat(CWD, &in_folder, pipe, 0o600.into(), 0);
            assert_eq!(pipe, Err(rustix::io::Errno::PERM));
            assert!(std::fs::remove_file(&result).is_err_and(|error| is_denied(&error)));
            let moved = std::fs::rename(&result, &in_folder);
            assert!(moved.is_err_and(|error| is_denied(&error)));
            assert!(std::net::TcpStream::connect(address).is_err_and(|error| is_denied(&error)));
            let socket = std::net::UdpSocket::bind("127.0.0.1:0");
            assert!(socket.is_err_and(|error| is_denied(&error)));
            assert!(Command::new("/bin/true").spawn().is_err());
        });
        assert_eq!(std::fs::read(made).unwrap(), b"a stem");
        // The rest of the process is not confined.
        assert!(std::fs::read("/etc/passwd").is_ok());
    }

    /// The calls with which a compromised decoder could harm its gateway, or files of its user.
    #[test]
    fn a_confined_thread_changes_no_other_process_and_no_file_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("mediagate.db");
        std::fs::write(&victim, "precious").unwrap();
        let parent = std::os::unix::process::parent_id();
        let file = victim.clone();
        in_thread(move || {
            confine(&ChildRights::default(), false).unwrap();
            let parent_id = Pid::from_raw(parent.cast_signed());
            let limit = Rlimit {
                current: Some(3),
                maximum: Some(3),
            };
            let denied = Some(rustix::io::Errno::PERM);
            let limited = rustix::process::prlimit(parent_id, Resource::Nofile, limit);
            assert_eq!(limited.err(), denied);
            let limited = rustix::process::setrlimit(Resource::Nofile, limit);
            assert_eq!(limited.err(), denied, "nor its own limits");
            let niced = rustix::process::setpriority_process(parent_id, 19);
            assert_eq!(niced.err(), denied);
            let killed = rustix::process::kill_process(parent_id.unwrap(), Signal::CONT);
            assert_eq!(killed.err(), denied);
            let mode = std::fs::Permissions::from_mode(0o666);
            assert!(std::fs::set_permissions(&file, mode).is_err_and(|error| is_denied(&error)));
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_NOW,
            };
            let times = Timestamps {
                last_access: now,
                last_modification: now,
            };
            let times = rustix::fs::utimensat(CWD, &file, &times, AtFlags::empty());
            assert_eq!(times.err(), denied);
            let attribute = rustix::fs::XattrFlags::empty();
            let attribute = rustix::fs::setxattr(&file, "user.x", b"y", attribute);
            assert_eq!(attribute.err(), denied);
            let (parent, own) = (i64::from(parent), i64::from(std::process::id()));
            let calls = [
                (libc::SYS_tgkill, [parent, parent, 0, 0]),
                (libc::SYS_tkill, [parent, 0, 0, 0]),
                (libc::SYS_rt_sigqueueinfo, [parent, 0, 0, 0]),
                (libc::SYS_pidfd_open, [parent, 0, 0, 0]),
                (libc::SYS_ioprio_set, [1, parent, 0x6000, 0]),
                (libc::SYS_sched_setscheduler, [parent, 5, 0, 0]),
                (libc::SYS_sched_setaffinity, [parent, 8, 0, 0]),
                (libc::SYS_sched_setattr, [parent, 0, 0, 0]),
                (libc::SYS_sched_setparam, [parent, 0, 0, 0]),
                (libc::SYS_prlimit64, [parent, 7, 0, 0]),
                (libc::SYS_prlimit64, [0, 7, 1, 0]),
                (libc::SYS_process_vm_readv, [parent, 0, 0, 0]),
                (libc::SYS_process_madvise, [parent, 0, 0, 0]),
                (libc::SYS_migrate_pages, [parent, 0, 0, 0]),
                (libc::SYS_move_pages, [parent, 0, 0, 0]),
                (libc::SYS_ptrace, [16, parent, 0, 0]),
                (libc::SYS_kcmp, [parent, own, 0, 0]),
                (libc::SYS_ioctl, [1, 0x5412, 0, 0]),
                (libc::SYS_fchmod, [1, 0o666, 0, 0]),
                (libc::SYS_fchown, [1, 0, 0, 0]),
                (libc::SYS_ftruncate, [1, 0, 0, 0]),
                (libc::SYS_fcntl, [1, i64::from(libc::F_SETOWN), parent, 0]),
                (libc::SYS_truncate, [0, 0, 0, 0]),
                (libc::SYS_faccessat, [-100, 0, 0, 0]),
                (libc::SYS_statx, [-100, 0, 0, 0]),
                (libc::SYS_newfstatat, [-100, 0, 0, 0]),
                (libc::SYS_openat2, [-100, 0, 0, 0]),
                (libc::SYS_memfd_create, [0, 0, 0, 0]),
                (libc::SYS_shmget, [0, 4096, 0o1600, 0]),
                (libc::SYS_prctl, [libc::PR_SET_DUMPABLE.into(), 1, 0, 0]),
                (libc::SYS_prctl, [libc::PR_SET_PDEATHSIG.into(), 0, 0, 0]),
                (libc::SYS_mmap, [0, 4096, libc::PROT_EXEC.into(), 0]),
                (libc::SYS_mprotect, [0, 4096, libc::PROT_EXEC.into(), 0]),
                (libc::SYS_clone, [17, 0, 0, 0]),
                (libc::SYS_socket, [1, 1, 0, 0]),
                (libc::SYS_io_uring_setup, [1, 0, 0, 0]),
                (libc::SYS_execve, [0, 0, 0, 0]),
                (libc::SYS_unshare, [0x1000_0000, 0, 0, 0]),
                (libc::SYS_seccomp, [0, 0, 0, 0]),
            ];
            for (number, arguments) in calls {
                let error = call(number, arguments);
                assert_eq!(error, Some(libc::EPERM), "call {number} {arguments:?}");
            }
            assert_eq!(call(libc::SYS_clone3, [0; 4]), Some(libc::ENOSYS));
            // Its own threads, so that `abort` ends it as it should.
            assert_eq!(call(libc::SYS_tgkill, [own, own, 0, 0]), None);
        });
        let metadata = std::fs::metadata(&victim).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o077, 0o044);
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    }

    #[test]
    fn a_kernel_without_landlock_is_known_by_its_version() {
        for (release, expected) in [
            ("4.19.0", false),
            ("5.10.0-28-amd64", false),
            ("5.13.0", true),
            ("6.1.0-18-cloud", true),
            ("7.0", true),
            ("unknown", true),
        ] {
            assert_eq!(linux::has_landlock(release), expected, "{release}");
        }
    }
}
