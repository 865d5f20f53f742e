//! The documentation: guides from `docs/`, the API reference, and a search in the guides.

mod library;
mod markdown;
mod reference;

use maud::{Markup, html};
use serde_json::Value;

use self::library::{GuideGroup, SearchHit};
use super::view::SiteContext;
use super::{PageFrame, layout};

/// The list of all documents, or the results of a search.
pub fn index(site: &SiteContext, query: &str) -> String {
    let body = html! {
        section.hero.low {
            h1 { "Documentation" }
            (search_box(query))
        }
        @if query.trim().is_empty() { (contents()) } @else { (search_results(&library::search(query))) }
    };
    page(site, "Documentation", &body)
}

/// One document; `None` if there is no document with this slug.
pub fn guide(site: &SiteContext, slug: &str) -> Option<String> {
    let (_, document) = library::find(slug)?;
    let sections = document
        .sections
        .iter()
        .filter(|section| section.level == 2);
    let sections: Vec<_> = sections.collect();
    let body = html! {
        div.doc {
            nav.side aria-label="Documentation" {
                (search_box(""))
                (list(Some(slug)))
            }
            article.prose {
                @if sections.len() > 2 {
                    details.parts {
                        summary { "On this page" }
                        ul { @for section in &sections { li { a href={ "#" (section.id) } { (section.title) } } } }
                    }
                }
                (document.body)
            }
        }
    };
    Some(page(site, &document.title, &body))
}

/// One document as Markdown; `None` if there is no document with this slug.
pub fn markdown(slug: &str) -> Option<&'static str> {
    library::find(slug).map(|(guide, _)| guide.text)
}

/// The list of all documents for language models, in the form of llmstxt.org: each is linked as
/// Markdown.
pub fn llms_txt(site: &SiteContext) -> String {
    let base = &site.base_url;
    let mut text = format!(
        "# {}\n\n> A gateway for video and music models: chat completions that make videos, separation of songs into \
         stems, personas. Orders are paid once.\n\n- [How to order as an agent]({base}/skill.md)\n\
         - [OpenAPI document]({base}/openapi.json)\n",
        site.brand
    );
    for &group in GuideGroup::ALL {
        text.push_str("\n## ");
        text.push_str(group.title());
        text.push_str("\n\n");
        let documents = library::all().iter();
        for (guide, document) in documents.filter(|(guide, _)| guide.group == group) {
            let link = format!("- [{}]({base}/docs/{}.md)\n", document.title, guide.slug);
            text.push_str(&link);
        }
    }
    text
}

/// The API reference, which is rendered once for all requests.
pub struct ApiReference {
    side: Markup,
    body: Markup,
}

impl ApiReference {
    /// Renders the `OpenAPI` document.
    pub fn new(document: &Value) -> Self {
        let (side, body) = reference::render(document);
        Self { side, body }
    }

    pub fn page(&self, site: &SiteContext) -> String {
        let body = html! {
            div.doc {
                nav.side aria-label="Endpoints" { (self.side) }
                article.prose.api {
                    h1 { "API reference" }
                    p {
                        "This page shows the content of " a href="/openapi.json" { "openapi.json" } ". Every endpoint "
                        "except the public ones needs " code { "Authorization: Bearer sk-mg-…" } ". "
                        a href="/docs/errors" { "Errors" } " have the same format everywhere. You can retry 429, 500 and 503 "
                        "after " code { "Retry-After" } " seconds, but no other errors."
                    }
                    (self.body)
                }
            }
        };
        page(site, "API reference", &body)
    }
}

fn page(site: &SiteContext, title: &str, body: &Markup) -> String {
    layout(
        site,
        &PageFrame {
            title,
            here: "/docs",
            extra: &["docs.css", "copy.js"],
            body,
        },
    )
}

fn search_box(query: &str) -> Markup {
    html! {
        form.search action="/docs" role="search" {
            label.unseen for="q" { "Search the documentation" }
            input #q type="search" name="q" value=(query) placeholder="Search" maxlength="100" autocomplete="off";
            button type="submit" { "Search" }
        }
    }
}

fn contents() -> Markup {
    html! {
        p { a.button href="/docs/quickstart" { "Five-minute quickstart" } " " a.button.quiet href="/docs/api" { "API reference" } }
        div.contents {
            @for &group in GuideGroup::ALL {
                section { h2 { (group.title()) } (group_list(group, None)) }
            }
        }
    }
}

fn list(here: Option<&str>) -> Markup {
    html! {
        p { a href="/docs/api" { "API reference" } }
        @for &group in GuideGroup::ALL {
            @let is_current = library::all().iter().any(|(guide, _)| guide.group == group && Some(guide.slug) == here);
            details open[is_current || group == GuideGroup::Start] {
                summary { (group.title()) }
                (group_list(group, here))
            }
        }
    }
}

fn group_list(group: GuideGroup, here: Option<&str>) -> Markup {
    let documents = library::all()
        .iter()
        .filter(|(guide, _)| guide.group == group);
    html! {
        ul {
            @for (guide, document) in documents {
                li {
                    a href={ "/docs/" (guide.slug) } aria-current=[(here == Some(guide.slug)).then_some("page")] {
                        (document.title)
                    }
                }
            }
        }
    }
}

fn search_results(hits: &[SearchHit]) -> Markup {
    html! {
        @if hits.is_empty() {
            p.notice role="status" { "No results. Try fewer or different words." }
        }
        ol.hits {
            @for hit in hits {
                li {
                    a href=(hit.address) { (hit.title) }
                    @if let Some(within) = hit.within { span.muted { " in " (within) } }
                    p { (hit.excerpt) }
                }
            }
        }
    }
}
