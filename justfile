# The daily commands; `just` lists them. You can also run any of them without just.

set positional-arguments

_default:
    @just --list --unsorted

# Checks before every commit: format, lints, the rules for source files
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    cargo test --package mediagate --test tidy

# Format everything: Rust, JavaScript, TypeScript, Python
format:
    cargo fmt --all
    npm ci && npm run format
    if command -v ruff >/dev/null; then ruff format && ruff check --fix; else echo "ruff is missing: pip install ruff"; fi

# The tests of one crate: just test providers, just test mediagate the_demo
test crate="mediagate" *filter:
    if command -v cargo-nextest >/dev/null; then cargo nextest run --package "$@"; else cargo test --package "$@"; fi

# A Postgres for tests, until Ctrl-C; run the command that it prints where you test
db:
    ./scripts/db

# The documentation of the code, private items included
doc:
    cargo doc --workspace --no-deps --document-private-items --locked

# Everything that CI runs, or only these steps: just ci clippy docs
ci *steps:
    ./scripts/test "$@"

# The gateway on http://127.0.0.1:8080, with its data in ./mediagate-data
serve *arguments:
    cargo run -- serve "$@"

# The demo: a video, stems and a persona
demo:
    cargo run --release -- demo

# The simulated providers on http://127.0.0.1:4000
simulate *arguments:
    cargo run --package simulator -- --listen 127.0.0.1:4000 "$@"

# A benchmark of the gateway: shipped, cluster, part_chat, part_submit, part_bucket, part_webhooks
bench name:
    cargo bench --package benches --bench "$1"

# Fuzz every parser of untrusted input, a minute each
fuzz seconds="60":
    FUZZ_SECONDS="$1" ./scripts/test fuzz

# Cut a release: version, changelog, commit, tag
release version:
    ./scripts/release "$1"

# Build the release artefacts: archive, deb, wheel, npm, sbom
package *what:
    ./scripts/package "$@"
