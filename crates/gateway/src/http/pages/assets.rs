//! The pages' static files, compiled in.

use std::sync::LazyLock;

/// One file under `/assets/`.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// `style.css`.
    pub name: &'static str,
    /// With the character set.
    pub content_type: &'static str,
    /// Its text.
    pub body: &'static str,
}

/// The file with this name, as served: its imports of other files have their versions.
pub fn asset(name: &str) -> Option<Asset> {
    /// A script that is cached for long must not import an older version of another.
    static SERVED: LazyLock<Vec<(Asset, String)>> = LazyLock::new(|| {
        let versioned = format!(".js?v={}\";", asset_version());
        ASSETS
            .iter()
            .map(|asset| (*asset, asset.body.replace(".js\";", &versioned)))
            .collect()
    });
    let (asset, body) = SERVED.iter().find(|(asset, _)| asset.name == name)?;
    Some(Asset { body, ..*asset })
}

/// Changes with any file: the pages add `?v=` this, so that files can be cached for long.
pub fn asset_version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        // FNV-1a: the version only has to differ; it protects nothing.
        let bytes = ASSETS.iter().flat_map(|asset| asset.body.bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("{hash:016x}")
    });
    &VERSION
}

/// Every file, as written.
pub const ASSETS: [Asset; 13] = [
    Asset {
        name: "style.css",
        content_type: CSS,
        body: include_str!("assets/style.css"),
    },
    Asset {
        name: "console.css",
        content_type: CSS,
        body: include_str!("assets/console.css"),
    },
    Asset {
        name: "docs.css",
        content_type: CSS,
        body: include_str!("assets/docs.css"),
    },
    Asset {
        name: "copy.js",
        content_type: JS,
        body: include_str!("assets/copy.js"),
    },
    Asset {
        name: "favicon.svg",
        content_type: "image/svg+xml",
        body: include_str!("assets/favicon.svg"),
    },
    Asset {
        name: "pricing.js",
        content_type: JS,
        body: include_str!("assets/pricing.js"),
    },
    Asset {
        name: "console.js",
        content_type: JS,
        body: include_str!("assets/console.js"),
    },
    Asset {
        name: "api.js",
        content_type: JS,
        body: include_str!("assets/api.js"),
    },
    Asset {
        name: "intents.js",
        content_type: JS,
        body: include_str!("assets/intents.js"),
    },
    Asset {
        name: "routes.js",
        content_type: JS,
        body: include_str!("assets/routes.js"),
    },
    Asset {
        name: "tasks.js",
        content_type: JS,
        body: include_str!("assets/tasks.js"),
    },
    Asset {
        name: "money.js",
        content_type: JS,
        body: include_str!("assets/money.js"),
    },
    Asset {
        name: "playground.js",
        content_type: JS,
        body: include_str!("assets/playground.js"),
    },
];

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
