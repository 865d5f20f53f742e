//! Rebuilds two files of `OpenH264` with small patches of ours.
//!
//! `OpenH264` lets a block stand still as soon as its error is below that of its neighbours, or
//! vanishes in the quantiser. It also lets motion vectors cost so much that soft blocks keep their
//! neighbours' vectors. On a slow camera move that makes films pulse: blocks stay behind and jump
//! later. Here a block is skipped only where nothing visible remains to be coded, and vectors are
//! cheaper. The encoder's busiest functions are replaced by ours: with AVX2 where the processor has
//! it, and with SSE2 where no assembler was installed for the build.
//!
//! The sources are those of the crate `openh264-sys2`, wherever cargo keeps them; they
//! are read, changed in memory and compiled. The objects define all that the unchanged ones
//! define, so that the linker takes them in their place. `docs/decisions` says why it is done so;
//! `OpenH264`'s licence is in `licenses/openh264.txt`.

#![expect(clippy::panic, reason = "a build script reports failure by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for file in OWN_SOURCES.iter().chain([&AVX2, &"native/faster.h"]) {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-changed=Cargo.toml");
    let crate_folder = folder("CARGO_MANIFEST_DIR");
    let out = folder("OUT_DIR");
    let codec = sources(&crate_folder, &out).join("upstream/codec");

    let mut build = cc::Build::new();
    build
        .cpp(true)
        .warnings(false)
        .pic(true)
        .flag_if_supported("-fno-strict-aliasing")
        .includes(INCLUDES.map(|include| codec.join(include)));
    // Nothing in this library is called before the processor is checked for AVX2.
    let mut avx2_build = build.clone();
    avx2_build
        .flag_if_supported("-mavx2")
        .file(crate_folder.join(AVX2));
    avx2_build.compile("h264_avx2");
    for file in FILES {
        let original = codec.join("encoder/core/src").join(file.name);
        let mut text = read(&original);
        for (old, new) in file.differences {
            let count = text.matches(old).count();
            assert!(
                count == 1,
                "{} has {count} times `{old}`: build.rs was made for another version",
                original.display()
            );
            text = text.replace(old, new);
        }
        text.push_str(file.anchor);
        let changed = out.join(file.name);
        fs::write(&changed, text).unwrap_or_else(|error| panic!("{}: {error}", changed.display()));
        build.file(changed);
    }
    build
        .files(OWN_SOURCES.map(|file| crate_folder.join(file)))
        .compile("h264_openh264");
}

/// A file of the encoder that is changed.
struct File {
    name: &'static str,
    /// Text that must be there just once, and what takes its place.
    differences: &'static [(&'static str, &'static str)],
    /// A symbol that only our object has, so that the linker takes it: `encoder.rs` calls the first
    /// file's, which calls the second's.
    anchor: &'static str,
}

const FILES: [File; 2] = [
    File {
        name: "svc_base_layer_md.cpp",
        differences: &[
            // No skip just because the neighbours, or the previous block, had as large an error.
            ("iSadCostMb < pWelsMd->iSadPredSkip ", "false "),
            (
                "iSadCostMb < pCurLayer->pRefPic->pMbSkipSad[pCurMb->iMbXY]",
                "false",
            ),
            // No skip just because the quantiser swallows the error, unless the error is at most
            // 0.7 per pixel.
            (
                "const int32_t iStrideUV = (sQpelMvp.iMvY >> 1)",
                "if (iSadCostLuma > 180) return false;\n  const int32_t iStrideUV = (sQpelMvp.iMvY >> 1)",
            ),
            // Vectors cost what they would at a quantiser five finer: at their full price a soft
            // block keeps its neighbours' vector, and jumps once the error is large enough.
            (
                "//try BGD skip",
                "pWelsMd->pMvdCost -= WELS_MIN (pCurMb->uiLumaQp, 5) * pEncCtx->iMvdCostTableStride;",
            ),
        ],
        anchor: "\nextern \"C\" int h264_picks_functions (void);\n\
            extern \"C\" int h264_skips_are_exact (void) { return h264_picks_functions (); }\n",
    },
    File {
        name: "encoder.cpp",
        differences: &[(
            "DeblockingInit (&pFuncList->pfDeblocking, uiCpuFlag);",
            "extern void H264PickFunctions (SWelsFuncPtrList*);\n  H264PickFunctions (pFuncList);\n  \
             DeblockingInit (&pFuncList->pfDeblocking, uiCpuFlag);",
        )],
        anchor: "\nextern \"C\" int h264_picks_functions (void) { return 1; }\n",
    },
];

/// Our own sources: what the second file calls, and what a test compares it with.
const OWN_SOURCES: [&str; 3] = ["native/faster.cpp", "native/sse2.cpp", "native/agree.cpp"];

/// Some functions of `native/sse2.cpp`, for newer processors.
const AVX2: &str = "native/avx2.cpp";

const INCLUDES: [&str; 5] = [
    "api/wels",
    "common/inc",
    "encoder/core/inc",
    "encoder/plus/inc",
    "processing/interface",
];

/// The folder of `openh264-sys2` in the version that our manifest names.
///
/// Cargo finds it, from a manifest that depends on nothing else. That needs nothing that the build
/// itself does not need, and works with registries, mirrors and vendored folders.
fn sources(crate_folder: &Path, out: &Path) -> PathBuf {
    let manifest = read(&crate_folder.join("Cargo.toml"));
    let version = manifest
        .lines()
        .find_map(|line| {
            line.strip_prefix("openh264-sys2 = { version = \"")?
                .split('"')
                .next()
        })
        .unwrap_or_else(|| panic!("Cargo.toml does not name openh264-sys2"));
    let probe_folder = out.join("asking");
    let write = |name: &str, text: &str| {
        fs::create_dir_all(&probe_folder)
            .and_then(|()| fs::write(probe_folder.join(name), text))
            .unwrap_or_else(|error| panic!("{}: {error}", probe_folder.display()));
    };
    write("lib.rs", "");
    write(
        "Cargo.toml",
        &format!(
            "[package]\nname = \"asking\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n\
             [workspace]\n[dependencies]\n\
             openh264-sys2 = {{ version = \"{version}\", default-features = false }}\n"
        ),
    );
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--manifest-path",
        ])
        .arg(probe_folder.join("Cargo.toml"))
        // Where cargo looks for its configuration.
        .current_dir(crate_folder)
        .output()
        .unwrap_or_else(|error| panic!("cargo metadata: {error}"));
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let output = String::from_utf8_lossy(&output.stdout);
    // The only manifest of that crate: `"manifest_path":"/…/openh264-sys2-0.9.9/Cargo.toml"`.
    let path = output
        .split("\"manifest_path\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .find(|path| path.contains("openh264-sys2"))
        .unwrap_or_else(|| panic!("cargo does not know where openh264-sys2 is"));
    // JSON doubles the backslashes of Windows.
    PathBuf::from(path.replace("\\\\", "\\"))
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn folder(variable: &str) -> PathBuf {
    env::var_os(variable).map_or_else(|| panic!("{variable} is not set"), PathBuf::from)
}
