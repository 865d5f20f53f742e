//! The web pages: markup, and the scripts and styles that they load.
//!
//! Each page is a pure function from a view to HTML; begin with [`HomePage`] and [`home()`]. The
//! console is one page whose scripts, in `assets/console`, call the public API and nothing else.
//! This crate must not depend on a router, a database or a type of the domain.
//!
//! The pages have no inline script or style, and load nothing from other hosts except films and
//! songs. So a strict content security policy holds:
//! `default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob: https:`.

mod assets;
mod console;
pub mod docs;
mod home;
mod missing_page;
mod pricing;
mod provenance;
mod view;

use maud::{DOCTYPE, Markup, html};

pub use assets::{ASSETS, StaticAsset, asset, asset_version};
pub use console::{console, is_view};
pub use home::home;
pub use missing_page::missing_page;
pub use pricing::pricing;
pub use provenance::provenance;
pub use view::{ConsolePage, HomePage, ModelRow, PricingPage, ProvenancePage, SiteContext};

/// The parts that differ between pages.
struct PageFrame<'a> {
    title: &'a str,
    /// The page's own path, to mark it in the navigation.
    here: &'a str,
    /// Scripts and style sheets for this page only.
    extra: &'a [&'a str],
    body: &'a Markup,
}

/// Head, navigation and foot around a body.
fn layout(site: &SiteContext, frame: &PageFrame) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(frame))
            body data-brand=(site.brand) {
                a.skip href="#main" { "Skip to content" }
                (header(frame.here))
                main #main { (frame.body) }
                (footer(site))
            }
        }
    }
    .into_string()
}

/// The `head` element.
fn head(frame: &PageFrame) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="description" content="A gateway in front of video and music models.";
            title { (frame.title) " · Mediagate" }
            link rel="icon" type="image/svg+xml" href=(asset_url("favicon.svg"));
            link rel="stylesheet" href=(asset_url("style.css"));
            @for name in frame.extra {
                @if name.ends_with("css") {
                    link rel="stylesheet" href=(asset_url(name));
                } @else {
                    // Modules are deferred, so a script finds the whole page.
                    script type="module" src=(asset_url(name)) {}
                }
            }
        }
    }
}

/// A static file's URL, which changes with its content.
fn asset_url(name: &str) -> String {
    format!("/assets/{name}?v={}", asset_version())
}

fn header(here: &str) -> Markup {
    let pages = [
        ("/pricing", "Models"),
        ("/docs", "Docs"),
        ("/console", "Console"),
    ];
    html! {
        header.top {
            div.bar {
                a.brand href="/" aria-current=[(here == "/").then_some("page")] {
                    img src=(asset_url("favicon.svg")) width="28" height="28" alt="";
                    span { "Mediagate" }
                }
                nav aria-label="Main" {
                    @for (address, name) in pages {
                        a href=(address) aria-current=[(here == address).then_some("page")] { (name) }
                    }
                }
            }
        }
    }
}

fn footer(site: &SiteContext) -> Markup {
    html! {
        footer.bottom {
            div.bar {
                p { "Mediagate " (site.version) " · " span.mono { (site.base_url) } }
                p {
                    a href="/openapi.json" { "OpenAPI" } " · "
                    a href="/pricing.json" { "Prices as JSON" } " · "
                    a href="/provenance" { "Check a file" } " · "
                    a href="/docs" { "Docs" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
