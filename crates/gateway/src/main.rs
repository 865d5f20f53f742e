//! The `mediagate` program. All of it is in the library; see `cli`.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    mediagate::cli::main()
}
