//! The console: a frame with the navigation, which scripts fill through the public API.
//!
//! The server puts no account data into the page. Every view has its own URL and gets the same
//! frame; the scripts read from the URL which view to show.

use maud::{DOCTYPE, Markup, html};

use super::view::ConsolePage;
use super::{PageFrame, head};

/// The views, by the first part of their URL.
const VIEWS: &[(&str, &str)] = &[
    ("create", "Create"),
    ("library", "Library"),
    ("tasks", "Tasks"),
    ("spend", "Spend"),
    ("keys", "Keys"),
    ("webhooks", "Webhooks"),
    ("requests", "Requests"),
    ("now", "Overview"),
    ("providers", "Providers"),
    ("accounts", "Accounts"),
    ("audit", "Audit"),
];

/// Entries that are shown before the key's scopes are known.
const INITIAL_VIEWS: usize = 4;

/// Whether the console has a view at this path below `/console/`.
pub fn is_view(path: &str) -> bool {
    let first = path.split('/').next();
    // The rest of the URL is an id, which the scripts look up.
    VIEWS.iter().any(|(name, _)| first == Some(name))
}

pub fn console(page: &ConsolePage) -> String {
    let first = page.view_path.split('/').next().unwrap_or_default();
    let title = VIEWS.iter().find(|(name, _)| *name == first);
    let title = title.map_or("Console", |(_, title)| *title);
    let frame = PageFrame {
        title,
        here: "/console",
        extra: &["console/console.css", "console/app.js"],
        body: &html! {},
    };
    // The scripts read their settings from the body: the page's policy forbids inline scripts.
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&frame))
            body.console data-brand=(page.site.brand) data-origin=(page.site.base_url)
                data-version=(page.site.version)
                data-video-model=(page.video_model) data-music-model=(page.music_model)
                data-picture-bytes=(page.picture_bytes) data-song-bytes=(page.song_bytes) {
                div #app { (first_paint(first, title)) }
            }
        }
    }
    .into_string()
}

/// The page until the scripts run.
fn first_paint(current: &str, title: &str) -> Markup {
    html! {
        div.shell {
            // Only the usual entries. Once the scripts know the key's scopes, they show the entries
            // that it can use.
            nav.rail aria-label="Console" {
                a.brand href="/" { span { "Mediagate" } }
                ul { @for (name, title) in &VIEWS[..INITIAL_VIEWS] {
                    li { a href={ "/console/" (name) } aria-current=[(current == *name).then_some("page")] { span { (title) } } }
                } }
            }
            main #main {
                h1 { (title) }
                noscript { p.notice.bad { "The console needs JavaScript. The API offers the same functions; see the documentation." } }
            }
        }
    }
}
