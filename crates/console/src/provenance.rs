//! The page that checks where a file comes from.

use maud::html;

use super::view::ProvenancePage;
use super::{PageFrame, layout};

pub fn provenance(page: &ProvenancePage) -> String {
    let body = html! {
        section.hero.low {
            p.eyebrow { "Provenance" }
            h1 { "Where does this file come from?" }
            p.lead {
                "This page checks a video, recording or picture for signatures and for the watermark of this "
                "gateway. It also finds identical and similar results of this gateway."
            }
        }
        section aria-label="Check a file" {
            form #check.card.drop {
                label for="file" { "Choose a file, or drop it here" }
                input #file name="file" type="file" accept="video/*,audio/*,image/png,image/jpeg" required;
                p.muted { "MP4, M4A, WAV, FLAC, MP3, PNG or JPEG, up to " (page.max_megabytes) " MB. The file is not stored." }
                div #key-box hidden[page.is_public] {
                    label for="key" { "API key" @if page.is_public { " (optional)" } }
                    input #key type="password" autocomplete="off" spellcheck="false" placeholder="sk-mg-…";
                }
                button type="submit" { "Check" }
            }
            p #said role="status" {}
            div #found aria-live="polite" {}
        }
        p.muted {
            "If nothing is found, that proves nothing: marks can be removed. API: "
            code { "POST /v1/provenance/check" } "."
        }
    };
    layout(
        &page.site,
        &PageFrame {
            title: "Where does this file come from?",
            here: "/provenance",
            extra: &["provenance.js"],
            body: &body,
        },
    )
}
