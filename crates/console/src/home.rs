//! The front page: what this is, the three endpoints with calls ready to paste, and where to go
//! next.

use maud::{Markup, html};

use super::view::HomePage;
use super::{PageFrame, layout};

pub fn home(page: &HomePage) -> String {
    let body = html! {
        section.hero {
            p.eyebrow { (count(page.available_models)) }
            h1 { "A gateway for video and music models. " span.glow { "Nobody pays twice." } }
            p.lead {
                "Generate a video, separate a song into stems, or create a persona over plain HTTP, with the clients "
                "that you already use. Every accepted task survives a restart and is charged at most once."
            }
            p.actions {
                a.button href="/console" { "Open the console" }
                a.button.quiet href="/pricing" { "See models and prices" }
                a.button.quiet href="/docs" { "Read the docs" }
            }
        }
        section aria-labelledby="endpoints" {
            h2 #endpoints { "Three endpoints" }
            p.muted {
                "Set " code { "MEDIAGATE_KEY" } " to your key first: " code { "export MEDIAGATE_KEY=sk-mg-…" }
            }
            div.endpoints { @for card in cards(page) { (card) } }
        }
        section aria-labelledby="more" {
            h2 #more { "More endpoints" }
            ul.tiles {
                li { a href="/v1/models" { "GET /v1/models" } span { "models and prices; needs a key" } }
                li { a href="/pricing.json" { "GET /pricing.json" } span { "prices and live availability" } }
                li { a href="/openapi.json" { "GET /openapi.json" } span { "the API description for programs" } }
                li { a href="/docs" { "GET /docs" } span { "the documentation" } }
            }
        }
    };
    layout(
        &page.site,
        &PageFrame {
            title: "Home",
            here: "/",
            extra: &["copy.js"],
            body: &body,
        },
    )
}

fn count(models: usize) -> String {
    match models {
        0 => "no model is available right now".to_owned(),
        1 => "1 model available now".to_owned(),
        count => format!("{count} models available now"),
    }
}

fn cards(page: &HomePage) -> [Markup; 3] {
    let brand = &page.site.brand;
    [
        card(&EndpointCard {
            title: "Generate a video",
            path: "/v1/chat/completions",
            description: "A chat completion that returns the URL of an MP4. Add an image part to start from a picture.",
            json: format!(
                r#"{{"model": "{}",
 "messages": [{{"role": "user",
   "content": "A calm lake at sunrise, slow dolly in"}}]}}"#,
                page.video_model
            ),
            base_url: &page.site.base_url,
        }),
        card(&EndpointCard {
            title: "Separate a song",
            path: &format!("/{brand}/submit/music"),
            description: "Voice and instruments as lossless stems. Upload a song first; its id is the clip to continue.",
            json: format!(
                r#"{{"task": "gen_stem", "mv": "{}",
 "continue_clip_id": "CLIP_ID",
 "stem_task": "two",
 "stem_type_group_name": "Vocals"}}"#,
                page.music_model
            ),
            base_url: &page.site.base_url,
        }),
        card(&EndpointCard {
            title: "Create a persona",
            path: &format!("/{brand}/persona/create"),
            description: "A named voice based on your clips, with its own picture.",
            json: r#"{"root_clip_id": "CLIP_ID",
 "name": "Night Ferry",
 "description": "Close, warm, a little tired"}"#
                .to_owned(),
            base_url: &page.site.base_url,
        }),
    ]
}

/// The card of one endpoint.
struct EndpointCard<'a> {
    title: &'a str,
    path: &'a str,
    description: &'a str,
    json: String,
    base_url: &'a str,
}

fn card(endpoint: &EndpointCard) -> Markup {
    let call = format!(
        "curl {}{} \\\n -H \"Authorization: Bearer $MEDIAGATE_KEY\" \\\n -H \"Content-Type: application/json\" \\\n -d '{}'",
        endpoint.base_url, endpoint.path, endpoint.json
    );
    html! {
        article.card {
            div {
                h3 { (endpoint.title) }
                p.route { span.verb { "POST" } " " code { (endpoint.path) } }
                p { (endpoint.description) }
            }
            div.code {
                pre tabindex="0" aria-label={ "Example call: " (endpoint.title) } { code { (call) } }
                button.copy type="button" data-copy=(call) hidden { "Copy" }
            }
        }
    }
}
