//! The pages' static files, compiled in. Files in `assets/vendor` come from other projects; see its
//! `LICENSE`.

use std::sync::LazyLock;

/// One file under `/assets/`.
#[derive(Debug, Clone, Copy)]
pub struct StaticAsset {
    /// `style.css`, or `console/app.js`.
    pub name: &'static str,
    /// With the character set.
    pub content_type: &'static str,
    /// The asset's text.
    pub body: &'static str,
}

/// The file with this name, as served: its imports of other files have their versions.
pub fn asset(name: &str) -> Option<StaticAsset> {
    /// A script that is cached for long must not import an older version of another.
    static SERVED: LazyLock<Vec<(StaticAsset, String)>> = LazyLock::new(|| {
        let versioned = format!(".js?v={}\";", asset_version());
        ASSETS
            .iter()
            // Every import ends like this, which a test checks, so no script needs to be parsed.
            .map(|asset| (*asset, asset.body.replace(".js\";", &versioned)))
            .collect()
    });
    // By comparing names, not paths: no request can reach another file.
    let (asset, body) = SERVED.iter().find(|(asset, _)| asset.name == name)?;
    Some(StaticAsset { body, ..*asset })
}

/// Changes with any file: the pages add `?v=` this, so that files can be cached for long.
pub fn asset_version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        // FNV-1a is enough: the version only has to differ, it protects nothing. It covers all
        // files, because a script imports the others by the same version.
        let bytes = ASSETS.iter().flat_map(|asset| asset.body.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("{hash:016x}")
    });
    &VERSION
}

/// The file of this name below `assets/`.
macro_rules! file {
    ($name:literal, $content_type:expr) => {
        StaticAsset {
            name: $name,
            content_type: $content_type,
            body: include_str!(concat!("assets/", $name)),
        }
    };
}

/// Every file, as written.
pub const ASSETS: [StaticAsset; 34] = [
    file!("style.css", CSS),
    file!("docs.css", CSS),
    file!("copy.js", JS),
    file!("favicon.svg", "image/svg+xml"),
    file!("pricing.js", JS),
    file!("origin.js", JS),
    file!("provenance.js", JS),
    file!("vendor/preact.js", JS),
    file!("vendor/preact-hooks.js", JS),
    file!("vendor/htm.js", JS),
    file!("vendor/preact-htm.js", JS),
    file!("console/console.css", CSS),
    file!("console/app.js", JS),
    file!("console/router.js", JS),
    file!("console/api.js", JS),
    file!("console/act.js", JS),
    file!("console/ui.js", JS),
    file!("console/follow.js", JS),
    file!("console/create.js", JS),
    file!("console/form.js", JS),
    file!("console/snippets.js", JS),
    file!("console/tasks.js", JS),
    file!("console/task.js", JS),
    file!("console/library.js", JS),
    file!("console/clip.js", JS),
    file!("console/mixer.js", JS),
    file!("console/keys.js", JS),
    file!("console/webhooks.js", JS),
    file!("console/spend.js", JS),
    file!("console/chart.js", JS),
    file!("console/now.js", JS),
    file!("console/providers.js", JS),
    file!("console/accounts.js", JS),
    file!("console/audit.js", JS),
];

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
