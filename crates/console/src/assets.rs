//! The pages' static files, compiled in. Files in `assets/vendor` come from other projects; see its
//! `LICENSE`.

use std::sync::LazyLock;

/// One file under `/assets/`.
#[derive(Debug, Clone, Copy)]
pub struct StaticAsset {
    /// `style.css`, or `console/app.js`.
    pub name: &'static str,
    /// The media type, with the character set if it is a text file.
    pub content_type: &'static str,
    /// The asset's text.
    pub body: &'static str,
}

/// The file with this name, as served: in scripts, the URLs of imported files end with the version.
pub fn asset(name: &str) -> Option<StaticAsset> {
    /// A script that is cached for a long time must not import an older version of another.
    static SERVED: LazyLock<Vec<(StaticAsset, String)>> = LazyLock::new(|| {
        let versioned = format!(".js?v={}\";", asset_version());
        ASSETS
            .iter()
            // Every import ends like this, which a test checks, so no script needs to be parsed.
            .map(|asset| (*asset, asset.body.replace(".js\";", &versioned)))
            .collect()
    });
    // Names are compared, not paths, so no request can reach another file.
    let (asset, body) = SERVED.iter().find(|(asset, _)| asset.name == name)?;
    Some(StaticAsset { body, ..*asset })
}

/// The version, which changes with any file. The pages append it to URLs as `?v=`, so that files
/// can be cached for a long time.
pub fn asset_version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        // FNV-1a is enough: the version only has to differ, it protects nothing. It covers all
        // files, because a script imports other scripts with the same version.
        let bytes = ASSETS.iter().flat_map(|asset| asset.body.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("{hash:016x}")
    });
    &VERSION
}

/// The file with this name in `assets/`.
macro_rules! asset_file {
    ($name:literal, $content_type:expr) => {
        StaticAsset {
            name: $name,
            content_type: $content_type,
            body: include_str!(concat!("assets/", $name)),
        }
    };
}

/// Every file, as written.
pub const ASSETS: &[StaticAsset] = &[
    asset_file!("style.css", CSS),
    asset_file!("docs.css", CSS),
    asset_file!("copy.js", JS),
    asset_file!("favicon.svg", "image/svg+xml"),
    asset_file!("pricing.js", JS),
    asset_file!("origin.js", JS),
    asset_file!("provenance.js", JS),
    asset_file!("vendor/preact.js", JS),
    asset_file!("vendor/preact-hooks.js", JS),
    asset_file!("vendor/htm.js", JS),
    asset_file!("vendor/preact-htm.js", JS),
    asset_file!("console/console.css", CSS),
    asset_file!("console/app.js", JS),
    asset_file!("console/requests.js", JS),
    asset_file!("console/router.js", JS),
    asset_file!("console/api.js", JS),
    asset_file!("console/act.js", JS),
    asset_file!("console/approval.js", JS),
    asset_file!("console/ui.js", JS),
    asset_file!("console/follow.js", JS),
    asset_file!("console/create.js", JS),
    asset_file!("console/form.js", JS),
    asset_file!("console/snippets.js", JS),
    asset_file!("console/tasks.js", JS),
    asset_file!("console/task.js", JS),
    asset_file!("console/library.js", JS),
    asset_file!("console/clip.js", JS),
    asset_file!("console/mixer.js", JS),
    asset_file!("console/keys.js", JS),
    asset_file!("console/webhooks.js", JS),
    asset_file!("console/spend.js", JS),
    asset_file!("console/chart.js", JS),
    asset_file!("console/now.js", JS),
    asset_file!("console/providers.js", JS),
    asset_file!("console/accounts.js", JS),
    asset_file!("console/audit.js", JS),
];

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
