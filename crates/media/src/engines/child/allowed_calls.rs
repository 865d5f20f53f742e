//! The system calls that jobs need. All others fail with EPERM.
//!
//! The lists were found by tracing every kind of job, and the gateway's tests hold them: there, a
//! call that is not listed ends the child. Where an argument decides what a call can do,
//! the argument is restricted too. A filter cannot read memory, so it cannot restrict paths. Files
//! are restricted by Landlock.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{BackendError, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

/// What a kind of job needs besides computing and reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CallNeeds {
    /// It writes result files.
    pub(super) writes: bool,
    /// It loads a library.
    pub(super) loads_code: bool,
}

/// Calls by number; each has rules of which one has to match, or none if it is always allowed.
pub(super) type AllowedCalls = BTreeMap<i64, Vec<SeccompRule>>;

/// Allowed with any arguments.
const ANY_ARGUMENTS: [i64; 32] = [
    // Open files.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_close,
    // Memory, except for making it executable.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads of this process.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_getcpu,
    // Asks for the processors of any process, which changes nothing.
    libc::SYS_sched_getaffinity,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Its own signal handlers.
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    // Time. Machines without a readable clock make these calls.
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
];

/// Also allowed if a library is loaded: finding it, and asking for the machine's properties.
const LOADING: [i64; 10] = [
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getuid,
    libc::SYS_geteuid,
];

/// The calls that jobs with these needs may make. `clone3` is among them, because it has a filter
/// of its own.
pub(super) fn allowed_calls(needs: CallNeeds) -> io::Result<AllowedCalls> {
    let restricted = restricted_calls(needs).map_err(io::Error::other)?;
    let mut calls: AllowedCalls = restricted.into_iter().collect();
    let mut allow = |call| drop(calls.insert(call, Vec::new()));
    ANY_ARGUMENTS.into_iter().for_each(&mut allow);
    allow(libc::SYS_clone3);
    if needs.loads_code {
        LOADING.into_iter().for_each(&mut allow);
        // Code is mapped, and sealed after the loader has adapted it.
        allow(libc::SYS_mmap);
        allow(libc::SYS_mprotect);
        #[cfg(target_arch = "x86_64")]
        [
            libc::SYS_access,
            libc::SYS_readlink,
            libc::SYS_stat,
            libc::SYS_lstat,
        ]
        .into_iter()
        .for_each(&mut allow);
    }
    // Some C libraries use these older calls in place of `openat` and `newfstatat`.
    #[cfg(all(target_arch = "x86_64", target_env = "musl"))]
    [libc::SYS_stat, libc::SYS_lstat]
        .into_iter()
        .for_each(&mut allow);
    Ok(calls)
}

fn restricted_calls(needs: CallNeeds) -> Result<Vec<(i64, Vec<SeccompRule>)>, BackendError> {
    let own_id = std::process::id().cast_signed();
    let mut calls = vec![
        (libc::SYS_openat, opening(2, needs)?),
        // Of an open file. A filter cannot see whether there is also a path.
        (
            libc::SYS_statx,
            masked(2, libc::AT_EMPTY_PATH, libc::AT_EMPTY_PATH)?,
        ),
        (
            libc::SYS_newfstatat,
            masked(3, libc::AT_EMPTY_PATH, libc::AT_EMPTY_PATH)?,
        ),
        (libc::SYS_mmap, masked(2, libc::PROT_EXEC, 0)?),
        (libc::SYS_mprotect, masked(2, libc::PROT_EXEC, 0)?),
        (libc::SYS_clone, thread()?),
        // A second descriptor of an open file, and whether it is open.
        (
            libc::SYS_fcntl,
            [equal(1, libc::F_DUPFD_CLOEXEC)?, equal(1, libc::F_GETFD)?].concat(),
        ),
        // Only of this process.
        (libc::SYS_tgkill, equal(0, own_id)?),
        // Reading its own limits: no new ones are given.
        (
            libc::SYS_prlimit64,
            vec![SeccompRule::new(vec![
                condition(0, SeccompCmpOp::Eq, 0)?,
                SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?,
            ])?],
        ),
        // Names for threads and memory.
        (
            libc::SYS_prctl,
            [equal(0, libc::PR_SET_NAME)?, equal(0, libc::PR_SET_VMA)?].concat(),
        ),
    ];
    #[cfg(target_arch = "x86_64")]
    calls.push((libc::SYS_open, opening(1, needs)?));
    Ok(calls)
}

/// Opening existing files: never with a flag that makes or empties one.
fn opening(flags: u8, needs: CallNeeds) -> Result<Vec<SeccompRule>, BackendError> {
    let unnamed_file = libc::O_TMPFILE & !libc::O_DIRECTORY;
    let mut refused = libc::O_CREAT | libc::O_TRUNC | unnamed_file;
    if !needs.writes {
        refused |= libc::O_ACCMODE;
    }
    masked(flags, refused, libc::O_RDONLY)
}

/// Starting a thread of this process, in its own namespaces.
fn thread() -> Result<Vec<SeccompRule>, BackendError> {
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    masked(0, libc::CLONE_THREAD | namespaces, libc::CLONE_THREAD)
}

/// These bits of an argument have this value.
fn masked(argument: u8, bits: i32, value: i32) -> Result<Vec<SeccompRule>, BackendError> {
    let bits = u64::from(bits.cast_unsigned());
    let value = u64::from(value.cast_unsigned());
    rule(condition(argument, SeccompCmpOp::MaskedEq(bits), value)?)
}

fn equal(argument: u8, value: i32) -> Result<Vec<SeccompRule>, BackendError> {
    let value = u64::from(value.cast_unsigned());
    rule(condition(argument, SeccompCmpOp::Eq, value)?)
}

fn rule(condition: SeccompCondition) -> Result<Vec<SeccompRule>, BackendError> {
    Ok(vec![SeccompRule::new(vec![condition])?])
}

/// The kernel reads only the lower half of these arguments.
fn condition(
    argument: u8,
    comparison: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value)
}
